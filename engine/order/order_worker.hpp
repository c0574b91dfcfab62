// SPDX-License-Identifier: Apache-2.0
//
// The seam between the rounds of the search for an order and what happens in them: see engine/search/worker.hpp, which
// is the same for recompute plans. What a worker does depends only on its seed and on the orders it was given.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora {

struct OrderRound {
  const OrderProblem& problem;
  /// The best order so far.
  const std::vector<NodeId>& order;
  Bytes peak{};
  /// No need to go below.
  Bytes enough{};
  /// True when the round should end at once. Called from several threads.
  const std::function<bool()>& interrupted;
  /// Places and readers to look at, about.
  std::int64_t effort = 0;
};

struct OrderFind {
  /// Better than the round's, or empty.
  std::vector<NodeId> order{};
  Bytes peak{};
  /// What was looked at.
  std::int64_t effort = 0;
};

class OrderWorker {
 public:
  OrderWorker() = default;
  OrderWorker(const OrderWorker&) = delete;
  OrderWorker& operator=(const OrderWorker&) = delete;
  virtual ~OrderWorker() = default;

  /// The problem is the same in every round and outlives the worker.
  virtual OrderFind run(const OrderRound& round) = 0;
};

}  // namespace remora
