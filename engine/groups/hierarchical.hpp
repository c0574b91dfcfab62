// SPDX-License-Identifier: Apache-2.0
//
// The hierarchical solve: what the groups of a network can do, and what they make together under a budget.
#pragma once

#include <functional>
#include <string>

#include "engine/base/callbacks.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/groups/composition.hpp"
#include "engine/groups/partitioners.hpp"
#include "engine/search/search.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

// Schedules of a network's groups, whatever the budget: the first half of a hierarchical solve (below), which
// a sweep over budgets shares.
//
//     instance -> units -> partition -> blocks -> classes of equal blocks          once
//              -> schedules of each class, lowest groups first, rows in TBB tasks   for a grid of budgets

struct Groups {
  Hierarchy hierarchy{};
  /// Levels, groups, distinct groups, schedules, groups known from the store, seconds per phase.
  Statistics statistics{};
  /// "235 groups of 9 forms on 3 levels".
  std::string note{};
  Work work{};
  /// Every class has its schedules. Not so where the deadline came first, or where amounts are too large for groups: the
  /// note says the latter.
  bool complete = false;
};

/// True if strategy automatic starts from groups: a training graph too large for the flat search alone to come far in.
/// Measured in benchmarks/README.md.
bool hierarchy_pays(const Instance& instance);

/// Takes a part of the options' time limit, or, under a work limit, fixed amounts of work. The instance is of the
/// staged form and without modes of its own; its budget does not matter. `store`: where schedules are looked up and
/// kept; may be null. `enough`: asked by the calling thread between schedules; true ends it as the deadline does. May be
/// empty. `partitioner`: a caller's own, in place of IntervalPartition.
Groups find_groups(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                   const Partitioner& partitioner, BlockStore* store = nullptr,
                   const std::function<bool()>& enough = {});

inline Groups find_groups(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                          BlockStore* store = nullptr, const std::function<bool()>& enough = {}) {
  return find_groups(instance, options, deadline, IntervalPartition(), store, enough);
}

// The hierarchical solve (HiRemate, section 3; Rockmate, section 3): partition, schedules of groups, composition, stitching.
//
//     instance -> groups and their schedules (Groups)                          once, for all budgets
//              -> composition of the root under the real budget                    again with what the exact
//              -> stitched to ops, evaluated exactly                               evaluation gives back
//
// A composition's count is exact (inner peaks, HiRemate's correction terms, B.3) where groups are stretches of the
// input order. Where they interleave, the stitched plan, which follows the input order, differs from what was composed:
// there the root is composed once more under a budget corrected by what the exact evaluation says.

struct HierarchicalResult {
  /// The best stitched plan, within the budget or not.
  Solution solution{};
  /// Seconds per phase.
  Statistics statistics{};
  Work work{};
};

/// Composes and stitches under the instance's budget. `groups`: complete, of the same network. Takes a part of the
/// options' time limit, or, under a work limit, fixed amounts of work. The instance is of the staged form and without
/// modes of its own.
HierarchicalResult compose_groups(const Groups& groups, const Instance& instance, const SolveOptions& options,
                                  const Deadline& deadline);

/// True if groups are solved whatever else is found.
inline bool asks_for_groups(const SolveOptions& options) {
  return options.groups == GroupStart::on;
}

/// True if a solve starts from groups: where it is asked for them, and with strategy automatic where it pays.
bool wants_groups(const Instance& instance, const SolveOptions& options);

/// Offers the search what the groups' schedules compose to. Its report gets the statistics, and a note that says why.
void start_from_groups(Search& search, const Groups& groups);
/// The same of groups found here; those that were not asked for only as long as the search is not over. `blocks`: see
/// find_groups.
void start_from_groups(Search& search, BlockStore* blocks);

}  // namespace remora
