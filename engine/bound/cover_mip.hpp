// SPDX-License-Identifier: Apache-2.0
//
// The covering relaxation as a mixed-integer program, solved by COIN-OR CBC: the LP bound first, then the integer one.
//
// Rows are generated: the LP begins with the events of locally largest excess and takes in those that its solution
// violates; the same after the integer program, while time is left. Fewer rows give a weaker bound, never a wrong one.
// The LP bound is computed from the dual values in exact arithmetic (covering.hpp). The integer bound is CBC's:
// constraints are only ever loosened by rounding, costs are divided by their greatest common divisor, and what double
// precision cannot tell apart is taken off the bound.
//
// In a build without CBC (REMORA_WITH_CBC=OFF, or coinor-libcbc-dev missing) nothing is done (cover_mip_available).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/bound/covering.hpp"

namespace remora {

/// At least one of these items (their numbers, ascending) is given up.
using CoverCut = std::vector<int>;

struct CoverMipLimits {
  double seconds = 1e9;
  /// 0: the linear program alone.
  std::int64_t nodes = 20'000;
  /// Asked now and then; true ends the work with what is known. May be empty.
  std::function<bool()> interrupted{};
  /// Facts about every schedule of less extra duration than `cutoff`. With cuts, the bound holds for those, and
  /// is the cutoff if there are none.
  std::span<const CoverCut> cuts{};
  Duration cutoff = Duration::max();
};

struct CoverMipResult {
  /// No choice of items that covers every excess costs less.
  Duration bound{};
  /// Proved in exact arithmetic: nothing covers every excess.
  bool infeasible = false;
  /// By item: the cheapest choice found that covers every row looked at; empty if none was.
  std::vector<bool> given_up{};
  /// Bound of the LP's prices.
  PricedBound priced{};
  /// The integer program was solved to the end.
  bool complete = false;
};

/// True if this build has CBC.
bool cover_mip_available();

CoverMipResult solve_cover_mip(const CoverProblem& problem, const CoverMipLimits& limits);

}  // namespace remora
