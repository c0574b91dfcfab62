// SPDX-License-Identifier: Apache-2.0
//
// A training graph as a chain of blocks, as Rockmate cuts it around 1-separators (Zhao et al. 2023, section 3.2).
//
//     input order    forward ops                     | backward ops
//                    [ block 0 ][ block 1 ][ block 2 ] [ block 2 ][ block 1 ][ block 0 ]
//                             ^          ^
//                    separators: of everything up to here, later forward ops read only what this op writes
//
// Blocks are stretches of the input order. The forward part ends with the last op of phase `forward` or `loss`; the
// backward part is all that follows. Block b holds the forward ops behind separator b-1, separator b included, and the
// backward ops that belong to them. A backward op belongs to the block of its `backward_of` or to the last block whose
// forward tensors it reads, whichever is later (in Jain et al.'s training graphs a layer's backward op reads what the
// next layer wrote); if there is neither, to the block of the backward op before it.
//
// The chain promises that a backward op of block b reads, of forward tensors, only those of block b and what separator
// b-1 wrote, and that the backward blocks come in reverse. Where the graph breaks that (weight gradients put off to the
// end, say), the blocks between are joined, so a graph that is no chain gives one block.
//
// Pinned tensors stand outside: forward tensors to be kept at the end, or of an op that runs only once. They stay from
// their first compute to their last use whatever a strategy decides, so that they connect nothing.
#pragma once

#include <optional>
#include <vector>

#include "model/instance.hpp"

namespace remora {

/// Ops [first, end) of the input order.
struct OpRange {
  int first = 0;
  int end = 0;

  [[nodiscard]] bool contains(OpId op) const { return op >= first && op < end; }
};

struct TrainingBlock {
  OpRange forward{};
  /// Empty if nothing here is trained.
  OpRange backward{};
};

/// Note of `sqrt` and `rotor` on graphs without a forward part.
inline constexpr const char* kNoPhases = "sqrt and rotor need a training graph, with forward and backward ops";

/// How many ops of the input order make the forward part; nothing for a graph without phases or without backward ops
/// behind its forward part.
std::optional<int> forward_part(const Instance& instance);

/// True if the tensor, of the forward part, is never recomputed although somebody needs it.
bool is_pinned(const Instance& instance, TensorId tensor);

/// The 1-separators among the first `forward` ops, in input order; the last op is one. O(ops + tensors).
std::vector<OpId> separators(const Instance& instance, int forward);

/// The blocks in forward order. O(ops + edges).
std::vector<TrainingBlock> block_chain(const Instance& instance, int forward);

/// Tensors of separator b-1 that block b reads, pinned tensors left out; nothing for the first block.
std::vector<TensorId> inputs_of(const Instance& instance, const std::vector<TrainingBlock>& blocks, std::size_t b);

}  // namespace remora
