// SPDX-License-Identifier: Apache-2.0
//
// Results of the covering relaxation for the search, in addition to its bound.
#pragma once

#include <vector>

#include "engine/bound/covering.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/sequence.hpp"

namespace remora {

/// A solution of the period relaxation's linear program, rounded: near to good schedules, and none itself.
struct RoundedSolution {
  /// With the recomputes of at least this or that part. They need not hold the budget.
  std::vector<RecomputePlan> plans{};
  /// Ascending: the ops that it leaves open.
  std::vector<OpId> undecided{};
};

struct CoverFacts {
  CoverProblem problem{};
  /// By item: the relaxation's cheapest choice; empty if unknown.
  std::vector<bool> given_up{};
  /// Empty penalties if unknown.
  PricedBound priced{};
  /// Recomputes that no schedule of less extra duration than `banned_below` has (periods/period_proof.hpp); by op and
  /// stage.
  std::vector<cp::StageBan> banned{};
  Duration banned_below{};
  /// The last one there was, and how many there were.
  RoundedSolution rounded{};
  int roundings = 0;
};

/// The relaxation's choice as a plan: each item given up is recomputed as late as its next use allows. A start for the
/// search: it costs what the relaxation says, but recomputes may lack memory for what they read.
RecomputePlan suggested_plan(const Instance& instance, const CoverFacts& facts);

/// True if a schedule that does not give up the item can do without recomputes of its op in there: the tensor is
/// resident throughout the gap, and a recompute serves nobody that the resident one does not. Not so for an op with
/// several outputs, of which others may be away.
bool can_be_banned(const Instance& instance, const CoverItem& item);

/// Bans for all items that are not allowed to be given up, as far as they can be banned.
std::vector<cp::StageBan> bans_outside(const Instance& instance, const CoverProblem& problem,
                                       const std::vector<bool>& allowed);

/// Reduced-cost fixing: in a schedule of less extra duration than `below`, the items of too high a penalty are not
/// given up, and what the period relaxation rules out is not done.
std::vector<cp::StageBan> bans_below(const Instance& instance, const CoverFacts& facts, Duration below);

}  // namespace remora
