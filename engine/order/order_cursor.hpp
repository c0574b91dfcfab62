// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora {

/// How far an order has come: which nodes have run, which are ready, what is resident. Steps are taken back last first.
class OrderCursor {
 public:
  explicit OrderCursor(const OrderProblem& problem);

  /// Nodes that have not run and whose predecessors have. Valid until the next step.
  [[nodiscard]] std::span<const NodeId> ready() const { return ready_; }
  [[nodiscard]] bool done(NodeId node) const {
    return (done_[static_cast<std::size_t>(node) / 64] >> (static_cast<unsigned>(node) % 64) & 1U) != 0;
  }
  /// The nodes that have run, a bit each.
  [[nodiscard]] std::span<const std::uint64_t> words() const { return done_; }
  /// Between two nodes, base memory included.
  [[nodiscard]] Bytes resident() const { return resident_; }
  /// What is needed to run a ready node, and what is resident after it.
  [[nodiscard]] Bytes needed(NodeId node) const { return resident_ + running_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] Bytes left_by(NodeId node) const;

  void run(NodeId node);
  /// Takes the last step back.
  void undo(NodeId node);

 private:
  const OrderProblem& problem_;
  std::vector<Bytes> running_;
  /// What of a node's outputs stays after it.
  std::vector<Bytes> leaves_;
  std::vector<int> waiting_;
  std::vector<int> unread_;
  std::vector<NodeId> ready_;
  /// Of each ready node in ready_; for those that ran, where it was.
  std::vector<std::size_t> places_;
  std::vector<std::uint64_t> done_;
  Bytes resident_{};
};

}  // namespace remora
