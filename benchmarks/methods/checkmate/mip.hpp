// SPDX-License-Identifier: Apache-2.0
//
// Checkmate's program solved by COIN-OR CBC, and its relaxation by Clp.
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/methods/checkmate/program.hpp"
#include "engine/base/deadline.hpp"

namespace remora::checkmate {

// Checkmate's program solved by COIN-OR CBC, branch and cut.

struct MipLimits {
  const Deadline& deadline;
  /// Limit of wall-clock time, in addition to the deadline.
  double seconds = 0;
  std::int64_t nodes = 0;
  /// CBC ends when its best solution is within this part of its bound.
  double gap = 0;
};

struct MipSolution {
  /// By column of the program: the best solution found, or empty.
  std::vector<double> values{};
  /// No solution of the program costs less, recomputes alone.
  Duration bound{};
  /// CBC says that there is no solution; in double precision, so that it proves nothing.
  bool infeasible = false;
  std::int64_t nodes = 0;
};

/// Without CBC, nothing.
MipSolution solve_mip(const Program& program, const MipLimits& limits);

// The linear relaxation of Checkmate's program, solved by COIN-OR Clp.

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
