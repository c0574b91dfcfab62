// SPDX-License-Identifier: Apache-2.0
//
// Orders of small peak, each node once: what reordering alone can save, and a bound below which no order comes.
//
// First some orders are made at once (list_order.hpp, depth_first_order.hpp). Then workers improve the best one in
// rounds: annealers of different temperatures (order_annealer.hpp), and one that puts windows of it into other orders by
// beam search (window_worker.hpp). All are given the same order in each round, and what they find is merged in their
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/deadline.hpp"
#include "engine/order/order_problem.hpp"

namespace remora {

struct OrderSettings {
  /// An order of at most this peak will do.
  Bytes target{};
  /// Units of work, 0 for no limit; with it the same seed gives the same order whatever the number of threads.
  std::int64_t work_limit = 0;
  int threads = 1;
  std::uint64_t seed = 1;
  /// Whether a lower bound is wanted, too; without, it is the largest footprint of a node.
  bool bound = true;
  /// Told of every better order, from the thread that asked. May be empty.
  std::function<void(const std::vector<NodeId>&, Bytes peak)> improved{};
};

struct OrderResult {
  /// The best order found, the given one if none is better.
  std::vector<NodeId> order{};
  Bytes peak{};
  /// No order has a lower peak.
  Bytes lower_bound{};
  std::int64_t work = 0;
};

/// Lowers the peak of the given order until it is at most the target or the lower bound, or a limit is reached. Without
/// any limit it may never end. Memory: O(nodes + precedences) for each worker.
OrderResult minimise_peak(const OrderProblem& problem, const OrderSettings& settings, const Deadline& deadline);

}  // namespace remora
