// SPDX-License-Identifier: Apache-2.0
//
// The least peak of all orders of a problem, each node once: whether a limit can be kept
// (engine/order/order_within.hpp) is asked for limits between a lower bound and the best peak known, which close in on
// each other.
//
// Exponential time at worst. What is easy whatever the size: chains, trees of ops whose results shrink, and branches
// that each end with less than they began with, one after another. What is hard: many ops that each leave more.
//
// An order problem falls apart at the nodes that come before or after every other node.
//
//          b - c                  e - f
//        /       \              /       \        every order runs a, then b c d in some order, then x, ...
//      a           x          x           y
//        \ - d - /              \ - g - /        parts: [a] [b c d x] [e f g y]
//
// Such a node has the same position in every valid order. What lies between two of them is a problem of its own: what
// stays over it counts as base memory, what it only reads is there from its start. The whole's peak is the largest of
// the parts', so each may be minimised alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora {

struct ExactOrderSettings {
  /// Only an order of a smaller peak is looked for.
  Bytes below = Bytes::max();
  /// A known lower bound on the peak of every order.
  Bytes at_least{};
  /// An order of at most this peak will do.
  Bytes enough{};
  /// Nodes run in the search, those taken back included. The same limit gives the same result.
  std::int64_t work_limit = INT64_MAX;
  /// Asked now and then; may be empty.
  std::function<bool()> interrupted{};
};

struct ExactOrderResult {
  /// The best order found of a peak below the limit; empty if none was (see `found`).
  std::vector<NodeId> order{};
  bool found = false;
  /// Peak of the order found; otherwise the given limit.
  Bytes peak{};
  /// No order has a lower peak, whether or not the search came to its end. At most `peak`.
  Bytes lower_bound{};
  std::int64_t work = 0;

  /// No order has a peak below this one's; or, if none was found, below the limit.
  [[nodiscard]] bool proved() const { return lower_bound >= peak; }
};

ExactOrderResult exact_order(const OrderProblem& problem, const ExactOrderSettings& settings);

/// Positions begin to end - 1 of every order, which are also the numbers of the nodes there.
struct OrderPart {
  int begin = 0;
  int end = 0;
  /// Its nodes numbered from 0; a valid order of it, with `begin` added, can stand at those positions of any order.
  OrderProblem problem;
};

struct OrderParts {
  /// Those in which there is something to choose, in order.
  std::vector<OrderPart> parts{};
  /// The largest memory at a position where there is not: the same in every order. Base memory if there is none.
  Bytes fixed{};
};

/// The nodes that come before or after every other one, ascending. Time and memory: O(nodes + precedences).
std::vector<NodeId> fixed_nodes(const OrderProblem& problem);

/// Time and memory: O(nodes + precedences + buffers + reads), but for a look-up of each read.
OrderParts split_at_fixed_nodes(const OrderProblem& problem);

struct PartwiseResult {
  /// The given order, each part replaced by a better one where one was found.
  std::vector<NodeId> order{};
  Bytes peak{};
  /// No order has a lower peak: the largest of the parts' bounds.
  Bytes lower_bound{};
  /// Parts in which there is something to choose, and those that may hide a peak below the one found and above the
  /// bound: none if the peak is proved to be the least, or is as low as asked for.
  int parts = 0;
  int open = 0;
  std::int64_t work = 0;

  [[nodiscard]] bool proved() const { return lower_bound >= peak; }
};

/// Minimises the parts one by one, the one of the highest peak first, and stops when no other can matter. Of the
/// settings `below` is not asked: the order given is the one to beat.
PartwiseResult exact_order_by_parts(const OrderProblem& problem, std::span<const NodeId> known,
                                    const ExactOrderSettings& settings);

}  // namespace remora
