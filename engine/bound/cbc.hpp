// SPDX-License-Identifier: Apache-2.0
//
// How this project runs CBC. Only for builds with it, and only for this engine's .cpp files.
#pragma once

// The other headers of CBC need its first one first.
// clang-format off
#include <CbcModel.hpp>
// clang-format on
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <CbcEventHandler.hpp>
#include <OsiClpSolverInterface.hpp>

#include "engine/bound/cover_mip.hpp"

namespace remora {

/// Clp would catch SIGINT for itself.
void leave_signals_alone(ClpSolve& options);

/// Makes the solver, and copies of it, silent and leave signals alone.
void prepare(OsiClpSolverInterface& solver);

/// The kinds of cuts that CBC's own program looks for, each at the root and where it helps.
void add_cut_generators(CbcModel& model);

/// Makes every linear program of a solver, and of copies of it, end when the caller asks for it: CBC itself looks at the
/// clock between nodes only, and its root may take minutes. CBC may take such an end for infeasibility: nothing that it
/// says afterwards proves anything.
class Stopper {
 public:
  explicit Stopper(std::function<bool()> asked) : state_(std::make_shared<State>(State{std::move(asked)})) {}

  void watch(OsiClpSolverInterface& solver) const;
  /// Each further iteration of the simplex method counts so many nanoseconds (counted_seconds.hpp).
  void count_iterations(double nanoseconds) const { state_->of_iteration = static_cast<std::int64_t>(nanoseconds); }
  /// Asks the caller; for CBC's own events.
  [[nodiscard]] bool reached() const { return state_->reached(); }
  /// True if a linear program was ended, or a `reached()` was true.
  [[nodiscard]] bool has_stopped() const { return state_->stopped; }

 private:
  struct State {
    /// May be empty.
    std::function<bool()> asked;
    bool stopped = false;
    std::int64_t of_iteration = 0;

    bool reached() {
      stopped = stopped || (asked && asked());
      return stopped;
    }
  };
  class Handler;

  std::shared_ptr<State> state_;
};

/// Stops CBC and, for as long as nothing was stopped, keeps the bound of the model itself; its heuristics solve smaller
/// ones, which know the same handler.
class Watcher : public CbcEventHandler {
 public:
  Watcher(const CbcModel& watched, const Stopper& stopper, double& bound)
      : watched_(watched), stopper_(stopper), bound_(bound) {}

  CbcAction event(CbcEvent event) override;
  [[nodiscard]] CbcEventHandler* clone() const override { return new Watcher(*this); }

 private:
  void raise(double value);

  const CbcModel& watched_;
  const Stopper& stopper_;
  double& bound_;
};

/// Columns of a node that are branched on for a trial (strong branching), at most.
inline constexpr int kTrials = 10;

/// Branch and bound with the model's cut generators, in silence. Costs are whole: a better choice is better by 1, but for
/// `slack`. What bounds the model goes to `bound` as it rises. The model knows its limits and integer columns.
void branch_and_bound(CbcModel& model, const Stopper& stopper, double slack, double& bound, int trials = kTrials);

struct CbcAnswer {
  /// No solution costs less; nothing where CBC says nothing that can be relied on.
  std::optional<double> bound{};
  bool complete = false;
};

/// Solves the model with every column integer and whole costs, none negative, in silence, within the limits and
/// `seconds`.
CbcAnswer run_cbc(CbcModel& model, const CoverMipLimits& limits, double seconds);

/// The greatest common divisor of the costs, at least 1.
std::int64_t common_unit(std::span<const std::int64_t> costs);

/// False where CBC's value is none, or where it calls the program infeasible.
bool says_something(const CbcModel& model, double value);

/// How often `unit` goes into the amount, rounded down.
inline double whole_units(std::int64_t amount, std::int64_t unit) {
  const std::int64_t units = amount / unit;
  return static_cast<double>(units);
}

/// The same, rounded up, for an amount of at least 1.
inline double whole_units_up(std::int64_t amount, std::int64_t unit) {
  return whole_units(amount - 1, unit) + 1;
}

}  // namespace remora
