// SPDX-License-Identifier: Apache-2.0
//
// The least peak of all orders of a problem, each node once: whether a limit can be kept
// (engine/order/order_within.hpp) is asked for limits between a lower bound and the best peak known, which close in on
// each other.
//
// Exponential time at worst. What is easy whatever the size: chains, trees of ops whose results shrink, and branches
// that each end with less than they began with, one after another. What is hard: many ops that each leave more.
#pragma once

#include <cstdint>
#include <functional>
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
  /// Nodes run in the search, those taken back included; 0 for no limit. The same limit gives the same result.
  std::int64_t work_limit = 0;
  /// Asked now and then; may be empty.
  std::function<bool()> interrupted{};
};

struct ExactOrderResult {
  /// The best order found of a peak below the limit; empty if none was (see `found`).
  std::vector<NodeId> order{};
  bool found = false;
  /// Of the order found; else the limit that was given.
  Bytes peak{};
  /// No order has a lower peak, whether or not the search came to its end. At most `peak`.
  Bytes lower_bound{};
  std::int64_t work = 0;

  /// No order has a peak below this one's; or, if none was found, below the limit.
  [[nodiscard]] bool proved() const { return lower_bound >= peak; }
};

ExactOrderResult exact_order(const OrderProblem& problem, const ExactOrderSettings& settings);

}  // namespace remora
