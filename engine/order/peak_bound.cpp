// SPDX-License-Identifier: Apache-2.0
#include "engine/order/peak_bound.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/order/least_resident.hpp"

namespace remora {
namespace {

using Nodes = std::vector<bool>;

/// The nodes that `next` leads to from `from`, without it.
template <class Next>
Nodes reached(const OrderProblem& problem, NodeId from, const Next& next) {
  Nodes seen(static_cast<std::size_t>(problem.node_count()));
  std::vector<NodeId> stack{from};
  while (!stack.empty()) {
    const NodeId node = stack.back();
    stack.pop_back();
    for (const NodeId other : next(node)) {
      if (seen[static_cast<std::size_t>(other)]) continue;
      seen[static_cast<std::size_t>(other)] = true;
      stack.push_back(other);
    }
  }
  return seen;
}

Bytes resident_after(const OrderProblem& problem, const Nodes& done) {
  Bytes resident = problem.base_memory();
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    const NodeId writer = problem.writer(buffer);
    if (writer.valid() && !done[static_cast<std::size_t>(writer)]) continue;
    const auto readers = problem.readers(buffer);
    const bool wanted = std::any_of(readers.begin(), readers.end(),
                                    [&](NodeId reader) { return !done[static_cast<std::size_t>(reader)]; });
    if (wanted || problem.keep(buffer)) resident += problem.size(buffer);
  }
  return resident;
}

/// The nodes by their memory in the order, largest first.
std::vector<std::pair<Bytes, NodeId>> by_memory(const OrderProblem& problem, std::span<const NodeId> order) {
  const std::vector<Bytes> memory = memory_of(problem, order);
  std::vector<std::pair<Bytes, NodeId>> nodes;
  nodes.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) nodes.emplace_back(memory[i], order[i]);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return nodes;
}

}  // namespace

Bytes largest_footprint(const OrderProblem& problem) {
  Bytes largest = problem.base_memory();
  for (int i = 0; i < problem.node_count(); ++i) {
    Bytes here = problem.base_memory() + running(problem, NodeId(i));
    for (const BufferId buffer : problem.reads(NodeId(i))) here += problem.size(buffer);
    largest = std::max(largest, here);
  }
  return largest;
}

PeakBound peak_bound(const OrderProblem& problem, std::span<const NodeId> known, const PeakBoundSettings& settings) {
  PeakBound bound{.bytes = largest_footprint(problem)};
  LeastResident least_resident(problem);
  std::vector<NodeId> free;
  for (const auto& [memory, node] : by_memory(problem, known)) {
    if (bound.bytes >= settings.enough || memory <= bound.bytes) break;
    if (settings.work_limit > 0 && bound.work >= settings.work_limit) break;
    if (settings.interrupted && settings.interrupted()) break;
    const Nodes before = reached(problem, node, [&](NodeId k) { return problem.predecessors(k); });
    const Nodes after = reached(problem, node, [&](NodeId k) { return problem.successors(k); });
    free.clear();
    for (int i = 0; i < problem.node_count(); ++i) {
      if (NodeId(i) != node && !before[static_cast<std::size_t>(i)] && !after[static_cast<std::size_t>(i)]) {
        free.emplace_back(i);
      }
    }
    bound.work += static_cast<std::int64_t>(free.size()) + problem.node_count();
    const Bytes least = resident_after(problem, before) + least_resident.find(before, free).change;
    bound.bytes = std::max(bound.bytes, least + running(problem, node));
  }
  return bound;
}

}  // namespace remora
