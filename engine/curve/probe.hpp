// SPDX-License-Identifier: Apache-2.0
//
// The search under one budget of a sweep, in sittings: it can be left and taken up again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/groups/groups.hpp"
#include "engine/search/phases.hpp"
#include "engine/search/rounds.hpp"
#include "engine/search/solution.hpp"
#include "model/curve.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"
#include "model/schedule.hpp"

namespace remora {

/// What one sitting may take.
struct SittingLimits {
  /// Wall-clock time.
  double seconds = 0;
  /// Units of work; 0 for no limit.
  std::int64_t work = 0;
  /// May be null.
  const std::atomic<bool>* cancel = nullptr;
};

class Probe {
 public:
  /// `options`: of a search; its limits are this budget's share of the sweep's. Does not move: its workers point into
  /// it.
  Probe(const Instance& instance, Bytes budget, const SolveOptions& options);
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() = default;

  [[nodiscard]] Bytes budget() const { return instance_.budget(); }
  [[nodiscard]] const SearchState& state() const { return state_; }
  /// The budget under which the incumbent was found.
  [[nodiscard]] Bytes found_under() const { return found_under_; }
  [[nodiscard]] bool holds_budget() const { return state_.incumbent.peak <= instance_.budget(); }
  [[nodiscard]] bool settled() const;
  /// What there is to gain at most: the incumbent's extra duration less the bound's; nothing without a schedule.
  [[nodiscard]] std::optional<Duration> gap() const;
  /// Wall-clock time that the first bound took.
  [[nodiscard]] double bound_seconds() const { return bound_seconds_; }
  /// Units of work of all sittings.
  [[nodiscard]] std::int64_t work() const { return state_.work; }

  /// Takes the other budget's plan if it is better here; and what was proved there, if that budget is larger: a bound
  /// on the extra duration, or that there is no schedule.
  void learn(const Probe& other);

  /// Goes on with the search, beginning with the neighbours' plans made to fit. `groups` is asked the first time that
  /// the search needs a start; it may say null for none, and may be empty.
  void sit(const SittingLimits& limits, std::span<const Probe* const> neighbours,
           const std::function<const Groups*()>& groups);

  [[nodiscard]] CurvePoint point() const;
  [[nodiscard]] Schedule schedule() const;

 private:
  /// A sitting's limits as moments; seconds count those of earlier sittings.
  struct Sitting {
    double seconds;
    Deadline deadline;
    /// Of state_.work.
    std::int64_t end;
  };
  void begin(Sitting& sitting, const std::function<const Groups*()>& groups);
  void search(const Sitting& sitting);
  void adapt_plan(const RecomputePlan& plan, const char* source, const Sitting& sitting);
  void take(const Solution& solution, Bytes found_under, const char* source);

  Instance instance_;
  SolveOptions options_;
  SearchState state_;
  PhaseWorkers workers_;
  Schedule description_;
  Bytes found_under_{};
  double seconds_ = 0;
  double bound_seconds_ = 0;
  int sittings_ = 0;
};

}  // namespace remora
