// SPDX-License-Identifier: Apache-2.0
//
// Graphs whose ops have several modes: other ways to run what a graph has, or a random training step.
#pragma once

#include <cstdint>

#include "model/graph.hpp"

namespace remora::instances {

/// The graph with a choice of workspace against time in about half of its ops, as convolution libraries offer it: by
/// mode 0 an op takes a half to two times its outputs as workspace; by mode 1 a quarter of that and 1.2 to 1.5 times as
/// long; by mode 2 none and 1.5 to 2.5 times as long.
Graph with_workspaces(Graph graph, std::uint64_t seed);

/// What the backward half of a block may have instead of all that its forward half saves.
struct BlockModes {
  /// Mode 1: a quarter of the bytes, which take some time to make and a workspace to read.
  bool quantized = false;
  /// Mode 2: nothing, for both halves take longer by the part of the copies that does not overlap.
  bool offloaded = false;
};

/// A random training step of `blocks` blocks, two ops each. A forward half reads the block before, at times an earlier
/// one, too; its backward half follows it, and reads what it saved. By the last mode nothing is saved, and the backward
/// half computes the forward half again. Throws InputError for fewer than 1 or more than 10,000 blocks.
Graph random_blocks(std::int64_t blocks, const BlockModes& modes, std::uint64_t seed);

}  // namespace remora::instances
