// SPDX-License-Identifier: Apache-2.0
//
// Beam search for an order of a window under a target: states are down-sets, the nodes that have run. What is resident
// after a down-set is the same whatever the order in it, so one state is kept of each, and of those with as many nodes
// the ones with least resident. A node that fits and leaves no more resident than before runs at once: any order can be
// changed so that it does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/order/order_profile.hpp"
#include "model/random.hpp"
#include "model/table.hpp"

namespace remora {

/// A node of a window: its place, from 0. And a buffer whose last reader is in the window, wherever it was written.
using WindowNode = Id<struct WindowNodeTag>;
using WindowBuffer = Id<struct WindowBufferTag>;

class OrderWindow {
 public:
  /// O(degrees of its nodes and of what they read). Keeps nothing of the profile.
  OrderWindow(const OrderProfile& profile, int first, int size);

  [[nodiscard]] int size() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] NodeId node(WindowNode node) const { return nodes_[node]; }
  /// Before the first of them runs.
  [[nodiscard]] Bytes resident() const { return resident_; }
  /// Memory that a node adds to what is resident, and the part of it that stays when it has run.
  [[nodiscard]] Bytes need(WindowNode node) const { return needs_[node]; }
  [[nodiscard]] Bytes left(WindowNode node) const { return leaves_[node]; }
  [[nodiscard]] std::span<const WindowNode> predecessors(WindowNode node) const { return predecessors_[node]; }
  [[nodiscard]] std::span<const WindowNode> successors(WindowNode node) const { return successors_[node]; }
  [[nodiscard]] std::span<const WindowBuffer> reads(WindowNode node) const { return reads_[node]; }
  [[nodiscard]] std::span<const WindowNode> readers(WindowBuffer buffer) const { return readers_[buffer]; }
  [[nodiscard]] Bytes size(WindowBuffer buffer) const { return sizes_[buffer]; }

 private:
  void index_buffers(const OrderProfile& profile, int first);

  Table<WindowNode, NodeId> nodes_;
  Bytes resident_;
  Table<WindowNode, Bytes> needs_;
  Table<WindowNode, Bytes> leaves_;
  Adjacency<WindowNode, WindowNode> predecessors_;
  Adjacency<WindowNode, WindowNode> successors_;
  Adjacency<WindowNode, WindowBuffer> reads_;
  Adjacency<WindowBuffer, WindowNode> readers_;
  Table<WindowBuffer, Bytes> sizes_;
};

class DownSetBeam {
 public:
  /// Keeps references to all three. `random` is for hashes.
  DownSetBeam(const OrderWindow& window, const std::function<bool()>& interrupted, Random& random);

  /// The window's nodes in an order with memory of at most the target; none if it finds none with a beam of so many
  /// states, or within the effort, or before it is interrupted. To be asked once.
  std::optional<std::vector<NodeId>> run(Bytes target, int width, std::int64_t most_effort);

  [[nodiscard]] std::int64_t effort() const { return effort_; }

 private:
  struct State {
    Table<WindowNode, bool> done{};
    std::vector<WindowNode> ready{};
    Bytes resident{};
    std::uint64_t hash = 0;
    /// Where it comes from: the last of its steps.
    int trace = -1;
    int count = 0;
  };
  /// A state's next node.
  struct Candidate {
    std::size_t state = 0;
    WindowNode node{};
    Bytes resident{};
    std::uint64_t hash = 0;
  };
  struct Step {
    WindowNode node{};
    int before = -1;
  };

  [[nodiscard]] State first_state() const;
  /// Resident bytes after the node.
  [[nodiscard]] Bytes resident_after(const State& state, WindowNode node);
  [[nodiscard]] bool fits(const State& state, WindowNode node, Bytes target) const;
  void execute(State& state, WindowNode node, Bytes resident);
  void run_what_is_free(State& state, Bytes target);
  void expand(const State& state, std::size_t index, Bytes target);
  std::vector<State> select(std::vector<State> states, const std::vector<State>& parents, int width);
  [[nodiscard]] std::vector<NodeId> order_of(const State& state) const;

  const OrderWindow& window_;
  const std::function<bool()>& interrupted_;
  Table<WindowNode, std::uint64_t> hashes_;
  std::vector<Candidate> candidates_;
  Table<int, Step> steps_;
  std::int64_t effort_ = 0;
};

}  // namespace remora
