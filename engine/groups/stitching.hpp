// SPDX-License-Identifier: Apache-2.0
//
// From chosen schedules back to ops: a sequence of a block's computes, halves of groups among them, becomes a sequence of
// the network's ops; the schedule that was found for one group of a class is translated to every member (HiRemate,
// C.1.1).
#pragma once

#include <span>
#include <vector>

#include "engine/groups/block.hpp"
#include "engine/groups/block_schedule.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"
#include "model/table.hpp"

namespace remora {

/// The schedules of one class of groups.
struct ClassSchedules {
  std::vector<BlockSchedule> schedules{};
  BlockSchedule pass{};
};

/// All that is known of a network's groups.
struct Hierarchy {
  std::size_t unit_count = 0;
  std::vector<Block> blocks{};
  BlockClasses classes{};
  /// By class; of the root's none.
  std::vector<ClassSchedules> schedules{};

  [[nodiscard]] int class_of(int node) const { return classes.class_of[at(node) - unit_count]; }
  [[nodiscard]] const Block& block(int node) const { return blocks[at(node) - unit_count]; }
  [[nodiscard]] int root_class() const { return classes.class_of.back(); }

  /// The block's problem over its children's schedules; they must be there, and stay.
  [[nodiscard]] BlockProblem problem_of(const Instance& network, const Block& block) const;
};

/// The network's ops in the order in which a sequence of the root's computes runs them. O(result).
std::vector<OpId> expand(const Hierarchy& hierarchy, std::span<const Compute> root_sequence);

/// The sequence as a plan of the staged form: a recompute goes into the stage of the first compute behind it. Where
/// first computes don't follow the input order (groups that interleave), memory may differ from the sequence's. What
/// exceeds an op's limit of computes is left out.
RecomputePlan plan_of_any(const Instance& network, std::span<const OpId> sequence);

}  // namespace remora
