// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora {

/// Which end an order is built from: its first node first, or its last.
enum class OrderEnd { first, last };

/// How far an order has come from one of its ends: which nodes are taken, which may be next, what is resident between
/// the nodes taken and the others. Steps are taken back last first.
class OrderCursor {
 public:
  OrderCursor(const OrderProblem& problem, OrderEnd end);

  /// Nodes that may be taken next. Valid until the next step.
  [[nodiscard]] std::span<const NodeId> ready() const { return ready_; }
  /// The nodes taken, a bit each.
  [[nodiscard]] std::span<const std::uint64_t> words() const { return taken_; }
  /// The nodes that must be taken before this one.
  [[nodiscard]] std::span<const NodeId> needs(NodeId node) const {
    return end_ == OrderEnd::first ? problem_.predecessors(node) : problem_.successors(node);
  }
  /// Base memory included.
  [[nodiscard]] Bytes resident() const { return resident_; }

  struct Step {
    /// What is resident once the node is taken.
    Bytes left{};
    /// What is resident before it runs and all that it adds.
    Bytes needed{};
  };
  /// What taking a ready node comes to.
  [[nodiscard]] Step step(NodeId node) const;

  void take(NodeId node);
  /// Takes the last step back.
  void undo(NodeId node);

 private:
  [[nodiscard]] std::span<const NodeId> freed_by(NodeId node) const {
    return end_ == OrderEnd::first ? problem_.successors(node) : problem_.predecessors(node);
  }
  /// Sizes of the buffers whose last reader among those not run, or first among those run, the node is, or would be.
  [[nodiscard]] Bytes read_last(NodeId node, int unread) const;

  const OrderProblem& problem_;
  const OrderEnd end_;
  std::vector<Bytes> running_;
  /// What of a node's outputs stays after it.
  std::vector<Bytes> leaves_;
  std::vector<int> waiting_;
  /// How many readers of each buffer have not run, from the first; one more if it is kept.
  std::vector<int> unread_;
  std::vector<NodeId> ready_;
  /// Of each ready node in ready_; for those taken, where it was.
  std::vector<std::size_t> places_;
  std::vector<std::uint64_t> taken_;
  Bytes resident_{};
};

}  // namespace remora
