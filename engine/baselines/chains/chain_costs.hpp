// SPDX-License-Identifier: Apache-2.0
//
// From the blocks of a training graph to the chain of costs that Rotor's dynamic program takes.
//
// Each block has one option, to save all that its backward ops read. Peaks are sums over what is alive at each op of
// the block alone, so they are exact for the block's own tensors; what makes them conservative is that a block's input
// counts as long as the block runs forward and, if its backward ops read it, as long as they run.
//
// Durations are of the ops that may run again; what runs once adds the same to every schedule. `alone` runs only what
// the backward ops need, the last block excepted, whose one run is the first one.
#pragma once

#include <span>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/instance.hpp"

namespace remora {

/// O(ops + edges). The amounts leave out the base memory and pinned tensors.
Chain chain_costs(const Instance& instance, std::span<const TrainingBlock> blocks);

/// Base memory and the pinned tensors of the first `forward` ops: resident beside the chain.
Bytes memory_beside_chain(const Instance& instance, int forward);

/// What the schedule that runs everything once needs of a chain, counted as RotorTable counts; one option a block.
Bytes memory_to_save_all(const Chain& chain);

}  // namespace remora
