// SPDX-License-Identifier: Apache-2.0
//
// How CBC and Clp are given Checkmate's programs, and stopped. Only for builds with CBC.
#pragma once

#include <memory>
#include <span>

#include "engine/baselines/checkmate/program.hpp"
#include "engine/bound/cbc.hpp"

namespace remora::checkmate {

/// Fills the solver, silent and without a hand on signals. Costs are in multiples of `unit`.
void load(const Program& program, std::int64_t unit, OsiClpSolverInterface& solver);

/// Makes every linear program of the solver, and of copies of it, end when the deadline is reached. CBC may take such
/// an end for infeasibility: nothing that it says afterwards proves anything.
class Stopper {
 public:
  explicit Stopper(const Deadline& deadline) : state_(std::make_shared<State>(State{&deadline})) {}

  void watch(OsiClpSolverInterface& solver) const;
  /// Asks the deadline; for CBC's own events.
  [[nodiscard]] bool reached() const { return state_->reached(); }
  /// Whether a linear program was ended, or a `reached()` was true.
  [[nodiscard]] bool has_stopped() const { return state_->stopped; }

 private:
  struct State {
    const Deadline* deadline;
    bool stopped = false;

    bool reached() {
      stopped = stopped || deadline->reached();
      return stopped;
    }
  };
  class Handler;

  std::shared_ptr<State> state_;
};

/// What the prices of a program's rows prove: no solution of the linear program costs less, in multiples of `unit`. For
/// each price, sum over rows of price * side + sum over columns of the least of reduced cost * value (weak duality), so
/// that it holds whatever the tolerances of the solver, up to rounding.
double priced_bound(const Program& program, std::int64_t unit, std::span<const double> prices);

}  // namespace remora::checkmate
