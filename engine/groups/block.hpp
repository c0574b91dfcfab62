// SPDX-License-Identifier: Apache-2.0
//
// A group of a partition as a problem of its own: its children, and the rest of the network as three pseudo ops.
//
//     enter -> children's forward halves -> leave -> away -> children's backward halves (HiRemate, section 3.2.2)
//
//     enter   makes what the group reads from before it
//     leave   reads what the group's forward half makes for others
//     away    stands for the rest of the network between the two halves: whatever the group saves is in memory here;
//             makes what only the backward half reads from outside, the gradients of the group's outputs
//
// A child that is a unit stands for its ops themselves. A child that is a group is one op (graphs without backward ops)
// or two, of which the backward half follows the forward half's mode. Tensors that only one child touches are not
// seen here; what a group saves of them is its phantom, an output of the forward half that the backward half reads.
//
// The root has no pseudo ops. Everything is numbered locally, in input order of the first op, without names: two groups
// with the same key() are the same problem (HiRemate, C.1.1).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/groups/partition.hpp"
#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora {

/// One op of a block's problem.
struct BlockOp {
  enum class Kind { op, forward_half, backward_half, enter, leave, away };
  Kind kind = Kind::op;
  /// Kind op: the op of the network. Halves: the first op of that half.
  OpId op{};
  /// Halves: which of the block's child groups.
  int child = -1;
  /// Local tensors. Those of halves: what any mode may read.
  std::vector<int> inputs{};
  std::vector<int> outputs{};
  /// Local ops that come before by `after` alone.
  std::vector<int> after{};
};

struct BlockTensor {
  enum class Role {
    inner,    ///< of the block alone
    input,    ///< made outside
    output,   ///< made here, read outside or kept
    phantom,  ///< what a child saves for its backward half; the size depends on the schedule
    token     ///< nothing; for ops that make nothing else
  };
  Role role = Role::inner;
  /// Tensor of the network; none for phantoms and tokens.
  TensorId tensor{};
  Bytes size{};
  /// To be there at the end of the problem.
  bool keep = false;

  [[nodiscard]] bool is_interface() const { return role == Role::input || role == Role::output; }
};

struct Block {
  std::vector<BlockOp> ops{};
  std::vector<BlockTensor> tensors{};
  /// Child groups: partition nodes.
  std::vector<int> children{};
  /// By child: the local tensors that the child calls inputs and outputs, in the order in which its block lists them.
  std::vector<std::vector<int>> interfaces{};
  /// Local ops, or -1.
  int enter = -1;
  int leave = -1;
  int away = -1;

  [[nodiscard]] bool has_halves() const { return away >= 0; }
  /// The local tensors with role input or output, ascending.
  [[nodiscard]] std::vector<int> interface() const;
};

/// The tensor's position in such a list, or -1.
int position_in(const std::vector<int>& interface, int tensor);

/// The blocks of all groups of a partition, root last: blocks[i] is of node unit_count + i. O(levels (ops + edges))
/// expected time. `interrupted`: asked before each block; true ends it with those before. May be empty.
std::vector<Block> make_blocks(const Instance& instance, const Partition& partition,
                               const std::function<bool()>& interrupted = {});

/// Data of a group that its parent needs besides its block: which tensors of the network its halves read and make.
struct Face {
  std::vector<TensorId> forward_reads{};
  std::vector<TensorId> forward_makes{};
  std::vector<TensorId> backward_reads{};
  std::vector<TensorId> backward_makes{};
  /// All of them, in the order of the block's interface.
  std::vector<TensorId> all{};
};

/// The backward half reads everything that any mode may read: all of the block's inputs and what its forward half
/// makes.
Face face_of(const Block& block);

// Which groups are the same problem: equal up to names (HiRemate, C.1.1). Blocks are numbered canonically, in input
// order of their first ops, so that no graph isomorphism is asked: their descriptions are compared word by word.

struct BlockClasses {
  /// By block: its class; classes are numbered in the order of their first block, children's before their parents'.
  std::vector<int> class_of{};
  /// By class: its first block, which is solved for all.
  std::vector<int> representative{};
  /// By class: everything that its problem depends on but the schedules of its children, the same in every network:
  /// bytes.
  std::vector<std::string> description{};
  /// By class: the classes of its children, each once; the description has them as 0, 1, ... in this order.
  std::vector<std::vector<int>> child_classes{};
  /// By class: levels of groups below it; 0 for groups of ops alone.
  std::vector<int> height{};
};

/// O(sum of the blocks' sizes) expected time. `unit_count`: where the numbers of partition nodes begin to be groups.
/// `interrupted`: as of make_blocks().
BlockClasses classify(const Instance& instance, const std::vector<Block>& blocks, std::size_t unit_count,
                      const std::function<bool()>& interrupted = {});

// A block as an instance of the retention model: its graph, and its children's schedules as modes of their halves.
//
//     F_c   mode 0 .. k-1     the child's schedules: time and workspace of the forward half, size of the phantom
//           mode k            the pass: outputs only, no phantom; nothing that the backward half could follow
//     B_c   mode 0 .. k-1     follows F_c; reads those of the child's inputs and outputs that its schedule reads

struct BlockSchedule;

/// The schedules of a child group, and its pass.
struct ChildSchedules {
  std::span<const BlockSchedule> schedules{};
  const BlockSchedule* pass = nullptr;
};

struct BlockProblem {
  const Block* block = nullptr;
  std::shared_ptr<const Graph> graph{};
  std::vector<ChildSchedules> children{};
  int max_computes = 2;

  /// Sizes of what `away` makes.
  [[nodiscard]] Bytes given_back() const;
};

/// The problem of one block of the network, every child with at least one schedule. `max_computes`: C of the network.
BlockProblem make_block_problem(const Instance& network, const Block& block, std::vector<ChildSchedules> children);

/// The problem without a limit on memory.
Instance without_budgets(const BlockProblem& problem);

/// Accounting of the inputs and outputs of a block.
enum class Interface {
  counted,  ///< what it retains of them takes memory
  free,     ///< it takes none: others retain them anyway
};

/// The problem with two budgets (Rockmate, section 3.3): at most `peak` bytes at any time and at most `saved` between
/// the halves, the block's inputs and outputs included where they are retained and counted.
Instance with_budgets(const BlockProblem& problem, Bytes peak, Bytes saved, Interface interface = Interface::counted);

}  // namespace remora
