// SPDX-License-Identifier: Apache-2.0
#include "engine/order/exact_order.hpp"

#include <algorithm>
#include <utility>

#include "engine/order/order_within.hpp"

namespace remora {
namespace {

/// What a node needs for itself: what it reads, what it writes and its workspace.
Bytes largest_footprint(const OrderProblem& problem) {
  Bytes largest = problem.base_memory();
  for (int i = 0; i < problem.node_count(); ++i) {
    Bytes here = problem.base_memory() + running(problem, NodeId(i));
    for (const BufferId buffer : problem.reads(NodeId(i))) here += problem.size(buffer);
    largest = std::max(largest, here);
  }
  return largest;
}

}  // namespace

ExactOrderResult exact_order(const OrderProblem& problem, const ExactOrderSettings& settings) {
  ExactOrderResult result;
  result.peak = settings.below;
  result.lower_bound = std::min(settings.below, std::max(settings.at_least, largest_footprint(problem)));
  // Limits of which nothing is known lie from here to below the peak; the bound itself is often the answer.
  Bytes unknown = result.lower_bound;
  Bytes limit = unknown;
  while (unknown < result.peak) {
    // A limit that is too tight to be decided soon may still leave a looser one that is easy.
    std::int64_t share = 0;
    if (settings.work_limit > 0) {
      const std::int64_t left = settings.work_limit - result.work;
      if (left <= 0) break;
      share = limit + Bytes(1) < result.peak ? left / 4 + 1 : left;
    }
    WithinResult within = order_within(problem, limit, share, settings.interrupted);
    result.work += within.work;
    if (within.answer == WithinResult::Answer::found) {
      result.found = true;
      result.peak = peak_of(problem, within.order);
      result.order = std::move(within.order);
    } else if (within.answer == WithinResult::Answer::none) {
      result.lower_bound = std::min(within.least, result.peak);
      unknown = result.lower_bound;
    } else {
      if (settings.interrupted && settings.interrupted()) break;
      unknown = limit + Bytes(1);
    }
    limit = unknown + Bytes((result.peak - unknown).count() / 2);
    if (limit >= result.peak) limit = unknown;
  }
  return result;
}

}  // namespace remora
