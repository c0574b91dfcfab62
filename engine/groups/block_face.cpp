// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/block_face.hpp"

#include "engine/groups/indexing.hpp"

namespace remora {
namespace {

using Role = BlockTensor::Role;

}  // namespace

Face face_of(const Block& block) {
  Face face;
  std::vector<bool> forward(block.tensors.size(), false);
  const int boundary = block.has_halves() ? block.leave : static_cast<int>(block.ops.size());
  std::vector<bool> read_forward(block.tensors.size(), false);
  for (int o = 0; o < boundary; ++o) {
    for (const int t : block.ops[at(o)].inputs) read_forward[at(t)] = true;
    for (const int t : block.ops[at(o)].outputs) forward[at(t)] = true;
  }
  for (const int t : block.interface()) {
    const BlockTensor& tensor = block.tensors[at(t)];
    face.all.push_back(tensor.tensor);
    if (tensor.role == Role::input) {
      if (read_forward[at(t)]) face.forward_reads.push_back(tensor.tensor);
      if (block.has_halves()) face.backward_reads.push_back(tensor.tensor);
    } else if (forward[at(t)]) {
      face.forward_makes.push_back(tensor.tensor);
      if (block.has_halves()) face.backward_reads.push_back(tensor.tensor);
    } else {
      face.backward_makes.push_back(tensor.tensor);
    }
  }
  return face;
}

}  // namespace remora
