// SPDX-License-Identifier: Apache-2.0
//
// Pairs of loops: a forward one stacks what a backward one reads.
//
//     F: for t in 0 .. n:      x = layer(x, w[t])          stack[t] = something that layer computes
//     B: for t in 0 .. n:      .. stack[n - 1 - t] ..      each iteration of B reads what one iteration of F wrote
//
// Anything that F's body computes may be saved in a stack, and what is not saved may be computed again in B's body: from what is saved,
// from what does not change in F, and from the number of the iteration. Which is best is asked of the engine, of one iteration as a graph:
//
//     carried values, ops of F's body  ->  boundary  ->  backward, which reads what B reads
//
// Sizes and durations are those of all iterations. The boundary alone takes so much memory that the budget binds nowhere else: a tensor
// that is in memory there is saved, and an op behind it runs again in B's body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/loop_numbers.hpp"
#include "frontends/hlo/reader.hpp"
#include "model/graph.hpp"

namespace remora::hlo {

/// Something that an iteration of F has: a leaf of its state, an output of an instruction, or what a fusion writes into its stack.
struct Origin {
  enum Kind { state, output, update };
  Kind kind = state;
  /// An instruction of F's body, but of the state.
  std::size_t instruction = 0;
  std::size_t leaf = 0;

  friend auto operator<=>(const Origin&, const Origin&) = default;
};

/// A leaf of F's state that each iteration writes a slice of.
struct Stack {
  std::size_t leaf = 0;
  /// The instruction of F's body that writes it, and of F's body or of that fusion what is written.
  std::size_t writer = 0;
  std::size_t update = 0;
  Origin value{};
  /// Where each iteration of F writes.
  std::vector<std::int64_t> slots{};
  /// Leaves of B's state that it is, all unchanged.
  std::vector<std::size_t> backward{};
  /// Instructions of B's body that read slices of it.
  std::vector<std::size_t> readers{};
  /// True if nothing but these reads it, so that it can be left out.
  bool can_go = false;
};

struct LoopPair {
  Loop forward{};
  Loop backward{};
  std::vector<Stack> stacks{};
  /// By iteration of B: the one of F that it goes with.
  std::vector<std::size_t> partner{};
  /// The leaf of F's state that numbers its iterations from 0.
  std::size_t counter = 0;
  /// Values that may be saved, by tensor of the graph: `graph[tensor k]` is `values[k]`.
  std::vector<Origin> values{};
  Graph graph{};
  /// Bytes of the stacks that can be left out.
  Bytes stacked{};

  [[nodiscard]] std::size_t computation() const { return forward.computation; }
};

/// A part of F's body, without copies and bitcasts.
Origin origin_of(const Module& module, const Dataflow& dataflow, std::size_t body, std::size_t instruction);

/// True if it is a copy that nobody needs: like what it copies, layout included, and never overwritten.
bool is_plain_copy(const Module& module, const Dataflow& dataflow, std::size_t computation, std::size_t instruction);

/// True if a leaf of F's state is the same in all iterations, and still in memory when B ends.
bool is_at_hand(const Module& module, const Dataflow& dataflow, const LoopPair& pair, std::size_t leaf);

/// True if a leaf of a loop's state is in all iterations what it was at first.
bool is_invariant(const Module& module, const Dataflow& dataflow, const Loop& loop, std::size_t leaf);

/// The pairs of a module, those with the largest stacks first. O(pairs of loops * size).
std::vector<LoopPair> loop_pairs(const LoweredModule& lowered);

/// The module in which the loops of the pair stack these values alone, and B computes again whatever else it reads. `saved`: tensors of
/// the pair's graph. With `slots`, what is carried is stacked instead, for that many iterations (repeat.hpp). Throws InputError where
/// that cannot be written. What comes out is read again: no instruction reads memory that was written since.
std::string rewrite_pair(const LoweredModule& lowered, const LoopPair& pair, std::span<const TensorId> saved,
                         std::size_t slots = 0);

}  // namespace remora::hlo
