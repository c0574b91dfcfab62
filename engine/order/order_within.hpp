// SPDX-License-Identifier: Apache-2.0
//
// The exact search for an order within so much memory, and the cursor that it moves along.
#pragma once

#include <cstdint>
#include <functional>
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
    /// Resident bytes once the node is taken.
    Bytes left{};
    /// Resident bytes before it runs and everything that it adds.
    Bytes needed{};
  };
  /// Effect of taking a ready node.
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
  Table<NodeId, Bytes> running_;
  /// Part of a node's outputs that stays after it.
  Table<NodeId, Bytes> leaves_;
  Table<NodeId, int> waiting_;
  /// How many readers of each buffer have not run, from the first; one more if it is kept.
  Table<BufferId, int> unread_;
  std::vector<NodeId> ready_;
  /// Position of each ready node in ready_; for those taken, where it was.
  Table<NodeId, std::size_t> places_;
  std::vector<std::uint64_t> taken_;
  Bytes resident_{};
};

// Is there an order within so much memory?
//
// Depth first over the down-sets S that can be reached from the empty one within the limit: S u {w} follows S if w is
// ready and R(S) + running(w) fits (R: engine/order/peak_bound.hpp). Sets from which the last one cannot be reached
// are remembered. What makes it fast: a set that is reached may *settle* earlier ones on its path, whose other
// continuations then need no look.
//
//     R  |    o              A -> ... -> X is a path within the limit, and R(X) is smallest of all down-sets between A
//        |   / \   o         and X, both included: if the last set can be reached from A, then from X. So if it
//        |  A   \ / \        cannot be from X, neither can it from A.
//        |       o   X
//
// Proof. Let A = E0, E1, ... , En be a path within the limit to the last set En. Then E0 u X, E1 u X, ... , En u X
// leads from X to En, and no step needs more: where a node w of E(i+1) is new to X, it needs R(Ei u X) + running(w),
// and R(Ei u X) <= R(Ei) + R(X) - R(Ei n X) <= R(Ei), as R is submodular and Ei n X lies between A and X.
//
// With a single node between them this is the rule that a node may run at once if it fits and leaves no more than was
// resident before. If X is not smallest but Y is, then Y can be reached within the limit, too: by the path to X without
// the nodes outside Y. It takes R(P n Y) <= R(P) + R(Y) - R(P u Y) <= R(P) for the sets P on that path, as P u Y lies
// between A and X. So the search goes to Y instead, and Y settles A.
//
// The same holds from the last set down to the empty one, with intersections for unions: then R(Ei n X) <= R(Ei), as
// R(Ei u X) lies between X and A. Some graphs are easy from one end only.

struct WithinResult {
  enum class Answer { found, none, out_of_work, out_of_memory };
  Answer answer = Answer::out_of_work;
  /// If found.
  std::vector<NodeId> order{};
  /// If there is none within the limit: no order's peak is below this, which is more than the limit.
  Bytes least{};
  /// Nodes run, those that were taken back included, and nodes in the networks cut.
  std::int64_t work = 0;
};

/// Builds the order from the end given. Gives up after about `work_limit` of work, when `interrupted`
/// (may be empty) says true, both out_of_work, or when the sets to remember take more than a quarter of a gigabyte.
WithinResult order_within(const OrderProblem& problem, Bytes limit, OrderEnd end, std::int64_t work_limit,
                          const std::function<bool()>& interrupted);

}  // namespace remora
