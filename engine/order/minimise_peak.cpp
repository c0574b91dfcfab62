// SPDX-License-Identifier: Apache-2.0
#include "engine/order/minimise_peak.hpp"

#include <algorithm>
#include <utility>

#include "engine/order/list_order.hpp"

namespace remora {
namespace {

/// All that a node reads and writes is resident while it runs.
Bytes largest_footprint(const OrderProblem& problem) {
  Bytes largest = problem.base_memory();
  for (int i = 0; i < problem.node_count(); ++i) {
    Bytes here = problem.base_memory() + problem.workspace(NodeId(i));
    for (const BufferId buffer : problem.reads(NodeId(i))) here += problem.size(buffer);
    for (const BufferId buffer : problem.writes(NodeId(i))) here += problem.size(buffer);
    largest = std::max(largest, here);
  }
  return largest;
}

}  // namespace

OrderResult minimise_peak(const OrderProblem& problem, const OrderSettings& settings,
                          const std::function<bool()>& /*interrupted*/) {
  OrderResult result;
  result.order = given_order(problem);
  result.peak = peak_of(problem, result.order);
  result.lower_bound = largest_footprint(problem);
  if (result.peak <= std::max(settings.target, result.lower_bound)) return result;
  Random random(settings.seed);
  std::vector<NodeId> order = list_order(problem, 0, random);
  result.work = problem.node_count();
  const Bytes peak = peak_of(problem, order);
  if (peak < result.peak) {
    result.order = std::move(order);
    result.peak = peak;
    if (settings.improved) settings.improved(result.order, peak);
  }
  return result;
}

}  // namespace remora
