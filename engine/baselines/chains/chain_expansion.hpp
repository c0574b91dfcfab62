// SPDX-License-Identifier: Apache-2.0
//
// From a schedule of a chain of blocks to a plan of ops: the first run of a block's forward part is its ops' first
// computes, every further run, forward only, recomputes the ops that may run again, in the stage of the next backward
// op. Between two backward blocks a schedule's forward runs ascend, so that the plan is of the staged form.
#pragma once

#include <span>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// Without recomputes that nobody reads. O(steps of the plan + their inputs and outputs).
RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks, std::span<const ChainStep> steps);

/// No more than `most` blocks: as many neighbours at a time joined to one as that takes.
std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most);

}  // namespace remora
