// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/groups/block.hpp"
#include "model/types.hpp"

namespace remora {

/// What a parent needs to know of a group besides its block: which tensors of the network its halves read and make.
struct Face {
  std::vector<TensorId> forward_reads{};
  std::vector<TensorId> forward_makes{};
  std::vector<TensorId> backward_reads{};
  std::vector<TensorId> backward_makes{};
  /// All of them, in the order of the block's interface.
  std::vector<TensorId> all{};
};

/// What the backward half reads is what any option may read: all of the block's inputs and what its forward half makes.
Face face_of(const Block& block);

}  // namespace remora
