// SPDX-License-Identifier: Apache-2.0
//
// The linear relaxation of Checkmate's program, solved by COIN-OR Clp.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/baselines/checkmate/program.hpp"

namespace remora::checkmate {

struct Relaxation {
  /// By column of the program; empty if the deadline came first, or if there is no solution.
  std::vector<double> values{};
  /// No solution of the program costs less, recomputes alone.
  Duration bound{};
  bool infeasible = false;
  std::int64_t iterations = 0;
};

/// Without CBC, nothing.
Relaxation solve_relaxation(const Program& program, const Deadline& deadline);

}  // namespace remora::checkmate
