// SPDX-License-Identifier: Apache-2.0
//
// An order and its memory at each place, kept up while nodes move.
//
// A node that moves from place i to place j changes what is resident between the two, and nothing else:
//
//     place      0 1 2 3 4 5        b moves from 1 to 4: c, d and e run a place earlier, without what b writes, and
//     before     a b c d e f        with what b reads and nobody later does: that has to wait for b now.
//     after      a c d e b f
//
// So the shift of the memory between i and j is a constant but for a step at each last reader of an input of b.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/order/order_problem.hpp"
#include "model/random.hpp"

namespace remora {

class OrderProfile {
 public:
  /// `order` is valid. The problem is kept by reference. Not thread-safe.
  OrderProfile(const OrderProblem& problem, std::span<const NodeId> order);

  [[nodiscard]] const OrderProblem& problem() const { return *problem_; }
  [[nodiscard]] int size() const { return static_cast<int>(order_.size()); }
  [[nodiscard]] const std::vector<NodeId>& order() const { return order_; }
  [[nodiscard]] NodeId at(int place) const { return order_[remora::at(place)]; }
  [[nodiscard]] int place(NodeId node) const { return places_[node]; }
  /// As memory_of() says.
  [[nodiscard]] Bytes memory(int place) const { return Bytes(memory_[place]); }
  /// Base memory where there is no node. O(nodes).
  [[nodiscard]] Bytes peak() const;

  /// The sum over places of what the memory has above the target, of each place no more than 2^61 / size() bytes.
  [[nodiscard]] Bytes overflow() const { return Bytes(overflow_); }
  [[nodiscard]] Bytes target() const { return Bytes(target_); }
  /// O(nodes).
  void set_target(Bytes target);

  /// Resident before the node at a place runs; after the last one, for the place after it.
  [[nodiscard]] Bytes resident(int place) const { return Bytes(resident_before(place)); }
  /// Memory that a node adds to what is resident while it runs, and the part of it that stays afterwards.
  [[nodiscard]] Bytes need(NodeId node) const { return Bytes(needs_[node]); }
  [[nodiscard]] Bytes left(NodeId node) const { return Bytes(leaves_[node]); }

  /// The first and the last place that a node may move to while all others stay in their order.
  [[nodiscard]] int earliest(NodeId node) const;
  [[nodiscard]] int latest(NodeId node) const;

  /// Overflow after a move(node, place).
  [[nodiscard]] Bytes overflow_after(NodeId node, int place);
  /// Takes the node out and puts it in at a place from earliest() to latest(). Moving it back undoes it exactly.
  void move(NodeId node, int place);
  /// Puts the nodes of the places from `first` on into another order, which must be valid.
  void rearrange(int first, std::span<const NodeId> nodes);
  /// Takes over another order of the problem. O(size).
  void reset(std::span<const NodeId> order);

  /// Number of places and readers visited so far.
  [[nodiscard]] std::int64_t effort() const { return effort_; }

 private:
  /// From a place on, the memory changes by so much more.
  struct Step {
    int place = 0;
    std::int64_t bytes = 0;
  };
  /// Lists the steps of a move, by place; the shift before the first.
  std::int64_t list_steps_late(NodeId node, int to);
  std::int64_t list_steps_early(NodeId node, int to);
  void add_step(int place, std::int64_t bytes);
  [[nodiscard]] NodeId last_other_reader(BufferId buffer, NodeId node);
  [[nodiscard]] std::int64_t resident_before(int place) const;
  [[nodiscard]] std::int64_t above(std::int64_t bytes) const {
    return bytes > target_ ? std::min(bytes - target_, most_above_) : 0;
  }
  /// Overflow of the nodes at these places if their memory shifts.
  [[nodiscard]] std::int64_t overflow_change(int begin, int end, std::int64_t shift) const;
  void move_late(NodeId node, int to);
  void move_early(NodeId node, int to);
  void put(int place, NodeId node, std::int64_t memory);

  const OrderProblem* problem_;
  std::vector<NodeId> order_;
  Table<NodeId, int> places_;
  Table<int, std::int64_t> memory_;
  /// For each node: its outputs and its workspace, and the part of the outputs that stays when it has run.
  Table<NodeId, std::int64_t> needs_;
  Table<NodeId, std::int64_t> leaves_;
  /// Last reader of each buffer; none if it has none or is kept.
  Table<BufferId, NodeId> last_readers_;
  std::int64_t final_ = 0;
  std::int64_t target_ = 0;
  /// Maximum count of a place, so that the sum over places fits in 64 bits whatever the sizes.
  std::int64_t most_above_ = 0;
  std::int64_t overflow_ = 0;
  std::int64_t effort_ = 0;
  std::vector<Step> steps_;
  /// For each buffer: the rearrangement that last met it.
  Table<BufferId, std::int64_t> marks_;
  std::int64_t mark_ = 0;
};

/// Into `places` those that are above the profile's target, ascending.
void list_overflowing(const OrderProfile& profile, std::vector<int>& places);

/// From 1 to `most`, small ones more often: each order of magnitude is as likely.
int draw_distance(int most, Random& random);

/// A place that the node may move to while all others stay in their order, near ones more often, earlier or later with
/// the same chance; its own place where it can't move that way.
int draw_goal(const OrderProfile& profile, NodeId node, Random& random);

}  // namespace remora
