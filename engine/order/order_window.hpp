// SPDX-License-Identifier: Apache-2.0
//
// The nodes at consecutive places of an order, to be put in another order while all others stay where they are: a small
// problem of its own. Buffers that are read after the window never end in it, whatever the order.
#pragma once

#include <span>
#include <vector>

#include "engine/order/order_profile.hpp"
#include "model/adjacency.hpp"

namespace remora {

/// A node of a window: its place, from 0. And a buffer whose last reader is in the window, wherever it was written.
using WindowNode = Id<struct WindowNodeTag>;
using WindowBuffer = Id<struct WindowBufferTag>;

class OrderWindow {
 public:
  /// O(degrees of its nodes and of what they read). Keeps nothing of the profile.
  OrderWindow(const OrderProfile& profile, int first, int size);

  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] NodeId node(WindowNode node) const { return nodes_[static_cast<std::size_t>(node)]; }
  /// Before the first of them runs.
  [[nodiscard]] Bytes resident() const { return resident_; }
  /// What a node takes beyond what is resident, and what of it stays when it has run.
  [[nodiscard]] Bytes need(WindowNode node) const { return needs_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] Bytes left(WindowNode node) const { return leaves_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::span<const WindowNode> predecessors(WindowNode node) const { return predecessors_[node]; }
  [[nodiscard]] std::span<const WindowNode> successors(WindowNode node) const { return successors_[node]; }
  [[nodiscard]] std::span<const WindowBuffer> reads(WindowNode node) const { return reads_[node]; }
  [[nodiscard]] std::span<const WindowNode> readers(WindowBuffer buffer) const { return readers_[buffer]; }
  [[nodiscard]] Bytes size(WindowBuffer buffer) const { return sizes_[static_cast<std::size_t>(buffer)]; }

 private:
  void index_buffers(const OrderProfile& profile, int first);

  std::vector<NodeId> nodes_;
  Bytes resident_;
  std::vector<Bytes> needs_;
  std::vector<Bytes> leaves_;
  Adjacency<WindowNode, WindowNode> predecessors_;
  Adjacency<WindowNode, WindowNode> successors_;
  Adjacency<WindowNode, WindowBuffer> reads_;
  Adjacency<WindowBuffer, WindowNode> readers_;
  std::vector<Bytes> sizes_;
};

}  // namespace remora
