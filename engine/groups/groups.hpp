// SPDX-License-Identifier: Apache-2.0
//
// What a network's groups can do, whatever the budget: the first half of a hierarchical solve (hierarchical.hpp), which
// a sweep over budgets shares.
//
//     instance -> units -> partition -> blocks -> classes of equal blocks          once
//              -> schedules of each class, lowest groups first, rows in TBB tasks   for a grid of budgets
#pragma once

#include <string>

#include "engine/base/block_store.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/groups/partitioner.hpp"
#include "engine/groups/stitching.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

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

/// Whether strategy automatic starts from groups: a training graph too large for the flat search alone to come far in.
/// Measured in benchmarks/README.md.
bool hierarchy_pays(const Instance& instance);

/// Takes a part of the options' time limit, or, under a work limit, fixed amounts of work. The instance is of the
/// staged form and without modes of its own; its budget does not matter. `store`: where schedules are looked up and
/// kept; may be null.
Groups find_groups(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                   BlockStore* store = nullptr);

/// The same with a partitioner of the caller's own in place of options.grouping.
Groups find_groups(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                   const Partitioner& partitioner, BlockStore* store = nullptr);

}  // namespace remora
