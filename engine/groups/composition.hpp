// SPDX-License-Identifier: Apache-2.0
//
// Chooses modes: the retention model of a block whose children are groups, solved in Moccasin's two phases (section
// 2.4), every compute of a half with one of its group's schedules, backward halves with those of their forward halves.
//
//   1  lower the peak to the budget: modes that save less, where a byte costs least time; where that does not do,
//      the constraint program lowers the highest events step by step, recomputing whole groups
//   2  shorten: large neighbourhoods of the constraint program (all ops at once where the problem is small, which may
//      prove the optimum), between exchanges of modes
//
// Takes any instance with modes; where mode 0 of every op is not allowed, it needs a start. Knows nothing of blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/groups/block.hpp"
#include "engine/groups/block_schedule.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"
#include "model/modes.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {

struct CompositionLimits {
  /// As workers count it (search/worker.hpp); a unit of work is EffortOfWork::model.
  Effort effort = 0;
  /// Asked now and then; true ends the composition with what it has.
  std::function<bool()> interrupted{};
};

struct Composition {
  std::vector<Compute> sequence{};
  /// Beyond every op once by its shortest mode.
  Duration extra{};
  Bytes peak{};
  /// Proved: nothing shorter holds the budget. Never said of a peak above it.
  bool complete = false;
  Effort effort = 0;
};

/// The best sequence found, from `warm_start` if that is better than what modes alone give; above the budget if none
/// within it was found. The same seed and limits give the same.
Composition compose(const Instance& instance, const SolveOptions& options, std::uint64_t seed,
                    const CompositionLimits& limits, std::span<const Compute> warm_start = {});

// From chosen schedules back to ops: a sequence of a block's computes, halves of groups among them, becomes a sequence of
// the network's ops; the schedule that was found for one group of a class is translated to every member (HiRemate,
// C.1.1).

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
Sequence expand(const Hierarchy& hierarchy, std::span<const Compute> root_sequence);

/// The sequence as a plan of the staged form: a recompute goes into the stage of the first compute behind it. Where
/// first computes don't follow the input order (groups that interleave), memory may differ from the sequence's. What
/// exceeds an op's limit of computes is left out.
RecomputePlan plan_of_any(const Instance& network, std::span<const OpId> sequence);

}  // namespace remora
