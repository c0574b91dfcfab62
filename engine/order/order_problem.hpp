// SPDX-License-Identifier: Apache-2.0
//
// Constraints and memory costs of an order, without recomputation.
//
// Nodes are to be put in a sequence, each once. A buffer is written by one node and resident from it to its last reader
// (or to the end if it is kept). Nodes are the ops of an instance, or the computes of a sequence that has recomputes:
//
//     sequence  A B C A D     nodes  0:A 1:B 2:C 3:A 4:D     D reads what node 3 wrote, B and C what node 0 wrote
//
// Then each use keeps the compute that served it, so moving nodes never leaves an input without a compute. The peak of
// a sequence found for such a problem is at least what evaluate() says of it: there a use is served by the latest
// compute, and the earlier one's output need not stay.
//
// Where a node may take over the storage of a buffer that it reads (`in_place`): if it is the only reader, that is less
// workspace. If there are several, it depends on the order: memory_of() and peak_of() say what the order takes, all else
// counts the buffer in full, by slack() too much at most.
//
// A part of a problem (engine/order/exact_order.hpp) is a problem of its own; what came before may leave it buffers
// that no node of it writes: they are resident from the start, until the last of their readers.
#pragma once

#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// A node's number is its place in the sequence that the problem was made of: 0, 1, 2 ... is a valid order.
using NodeId = Id<struct OrderNodeTag>;
using BufferId = Id<struct BufferTag>;

class OrderProblem {
 public:
  /// Each op once, in input order. The instance has one mode per op.
  explicit OrderProblem(const Instance& instance);
  /// Each compute of a valid sequence. Computes of one op stay in their order, and `after` holds for the first ones.
  OrderProblem(const Instance& instance, std::span<const OpId> sequence);
  /// The nodes begin to end - 1 of another problem, numbered from 0, where all before them come before and all after
  /// them come after. `entering`: the buffers that are written before and read last here, or any that are not kept and
  /// of which no reader comes later. `base_memory`: the whole's and all that stays while the part runs.
  OrderProblem(const OrderProblem& whole, int begin, int end, std::span<const BufferId> entering, Bytes base_memory);

  [[nodiscard]] int node_count() const { return static_cast<int>(ops_.size()); }
  [[nodiscard]] int buffer_count() const { return static_cast<int>(sizes_.size()); }

  [[nodiscard]] OpId op(NodeId node) const { return ops_[node]; }
  [[nodiscard]] Bytes workspace(NodeId node) const { return workspaces_[node]; }
  /// The nodes that must come before it, and after it, each once: by data or by precedence alone.
  [[nodiscard]] std::span<const NodeId> predecessors(NodeId node) const { return predecessors_[node]; }
  [[nodiscard]] std::span<const NodeId> successors(NodeId node) const { return successors_[node]; }
  [[nodiscard]] std::span<const BufferId> reads(NodeId node) const { return reads_[node]; }
  [[nodiscard]] std::span<const BufferId> writes(NodeId node) const { return writes_[node]; }

  [[nodiscard]] Bytes size(BufferId buffer) const { return sizes_[buffer]; }
  /// None for what is resident from the start; such a buffer has a reader.
  [[nodiscard]] NodeId writer(BufferId buffer) const { return writers_[buffer]; }
  [[nodiscard]] std::span<const NodeId> readers(BufferId buffer) const { return readers_[buffer]; }
  /// Resident to the end.
  [[nodiscard]] bool keep(BufferId buffer) const { return kept_[buffer]; }

  /// Bytes that a node saves if it is the last of several to read the buffer. A part of a problem has none.
  struct TakenOver {
    NodeId node{};
    BufferId buffer{};
    Bytes saved{};
  };
  [[nodiscard]] std::span<const TakenOver> taken_over() const { return taken_over_; }
  /// The most that a node may save that way: no order's peak is lower than a bound that counts everything less this.
  [[nodiscard]] Bytes slack() const { return slack_; }

  /// Fixed memory and the graph's inputs, resident throughout.
  [[nodiscard]] Bytes base_memory() const { return base_memory_; }

  /// The ops of an order's nodes: a sequence of the instance.
  [[nodiscard]] Sequence sequence_of(std::span<const NodeId> order) const;

 private:
  void bind(const Instance& instance, std::span<const OpId> sequence);
  void index_precedences(const Instance& instance);
  void index_readers();
  void index_taken_over(const Instance& instance);
  void index_successors();

  Table<NodeId, OpId> ops_;
  Table<NodeId, Bytes> workspaces_;
  Table<BufferId, Bytes> sizes_;
  Table<BufferId, NodeId> writers_;
  Table<BufferId, bool> kept_;
  Adjacency<NodeId, BufferId> reads_;
  Adjacency<NodeId, BufferId> writes_;
  Adjacency<BufferId, NodeId> readers_;
  Adjacency<NodeId, NodeId> predecessors_;
  Adjacency<NodeId, NodeId> successors_;
  std::vector<TakenOver> taken_over_;
  Bytes slack_{};
  Bytes base_memory_{};
};

/// Memory that a node adds to what is resident while it runs: its workspace and all that it writes.
Bytes running(const OrderProblem& problem, NodeId node);

/// Part of it that stays when it has run: the outputs that are read or must be kept.
Bytes leaving(const OrderProblem& problem, NodeId node);

/// Memory at each position of a valid order, base memory and workspace included.
std::vector<Bytes> memory_of(const OrderProblem& problem, std::span<const NodeId> order);

/// The largest of it; base memory where there is no node.
Bytes peak_of(const OrderProblem& problem, std::span<const NodeId> order);

/// 0, 1, 2 ...
std::vector<NodeId> given_order(const OrderProblem& problem);

/// True if each node is there once, after its predecessors.
bool is_valid(const OrderProblem& problem, std::span<const NodeId> order);

}  // namespace remora
