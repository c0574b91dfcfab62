// SPDX-License-Identifier: Apache-2.0
//
// The hierarchical solve (HiRemate, section 3; Rockmate, section 3): partition, options, composition, stitching.
//
//     instance -> units -> partition -> blocks -> classes of equal blocks          once
//              -> options of each class, lowest groups first, rows in TBB tasks   for a grid of budgets
//              -> composition of the root under the real budget                    again with what the exact
//              -> stitched to ops, evaluated exactly                               evaluation gives back
//
// What a composition counts is exact (inner peaks, HiRemate's correction terms, B.3) where groups are stretches of the
// input order. Where they interleave, the stitched plan, which follows the input order, differs from what was composed:
// there the root is composed once more under a budget corrected by what the exact evaluation says.
#pragma once

#include <cstdint>
#include <string>

#include "engine/deadline.hpp"
#include "engine/hierarchy/partitioner.hpp"
#include "engine/options.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

struct HierarchicalResult {
  /// The best stitched plan, within the budget or not.
  Solution solution{};
  /// Levels, groups, distinct groups, options, seconds per phase.
  Statistics statistics{};
  /// "235 groups of 9 forms on 3 levels".
  std::string note{};
  /// Units of work done.
  std::int64_t work = 0;
};

/// Whether strategy automatic starts from groups: a training graph too large for the flat search alone to come far in.
/// Measured in benchmarks/README.md.
bool hierarchy_pays(const Instance& instance);

/// Takes a part of the options' time limit, or, under a work limit, fixed amounts of work. The instance is of the
/// staged form and without options of its own.
HierarchicalResult solve_hierarchically(const Instance& instance, const SolveOptions& options,
                                        const Deadline& deadline);

/// The same with a partitioner of the caller's own in place of options.grouping.
HierarchicalResult solve_hierarchically(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                                        const Partitioner& partitioner);

}  // namespace remora
