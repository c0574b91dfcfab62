// SPDX-License-Identifier: Apache-2.0
#include "tests/support/order_oracle.hpp"

#include <algorithm>
#include <optional>

#include "model/error.hpp"

namespace remora::test {
namespace {

/// Nodes that have run, a bit each.
using Nodes = unsigned;

constexpr int kMaxOrderNodes = 9;
constexpr int kMaxSetNodes = 16;

bool has(Nodes nodes, NodeId node) {
  return (nodes >> static_cast<unsigned>(node) & 1U) != 0;
}

Nodes with(Nodes nodes, int node) {
  return nodes | 1U << static_cast<unsigned>(node);
}

bool may_run(const OrderProblem& problem, Nodes done, NodeId node) {
  const auto earlier = problem.predecessors(node);
  return !has(done, node) && std::all_of(earlier.begin(), earlier.end(), [&](NodeId k) { return has(done, k); });
}

/// Whether the buffer is there while `node` runs.
bool resident(const OrderProblem& problem, Nodes done, BufferId buffer, NodeId node) {
  const NodeId writer = problem.writer(buffer);
  if (writer.valid() && writer == node) return true;
  if (writer.valid() && !has(done, writer)) return false;
  if (problem.keep(buffer)) return true;
  const auto readers = problem.readers(buffer);
  return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return !has(done, reader); });
}

Bytes memory(const OrderProblem& problem, Nodes done, NodeId node) {
  Bytes bytes = problem.base_memory() + problem.workspace(node);
  for (int b = 0; b < problem.buffer_count(); ++b) {
    if (resident(problem, done, BufferId(b), node)) bytes += problem.size(BufferId(b));
  }
  return bytes;
}

void try_orders(const OrderProblem& problem, Nodes done, Bytes peak, Bytes& least) {
  if (done == with(0, problem.node_count()) - 1) {
    least = std::min(least, peak);
    return;
  }
  for (int i = 0; i < problem.node_count(); ++i) {
    if (!may_run(problem, done, NodeId(i))) continue;
    try_orders(problem, with(done, i), std::max(peak, memory(problem, done, NodeId(i))), least);
  }
}

/// For each set of nodes that can have run, the least peak up to there.
std::vector<std::optional<Bytes>> peaks_by_sets(const OrderProblem& problem) {
  ensure(problem.node_count() <= kMaxSetNodes, "order oracle: the problem is too large");
  std::vector<std::optional<Bytes>> least(with(0, problem.node_count()));
  least[0] = problem.base_memory();
  for (Nodes done = 0; done < least.size(); ++done) {
    if (!least[done]) continue;
    for (int i = 0; i < problem.node_count(); ++i) {
      if (!may_run(problem, done, NodeId(i))) continue;
      const Bytes peak = std::max(*least[done], memory(problem, done, NodeId(i)));
      auto& next = least[with(done, i)];
      next = next ? std::min(*next, peak) : peak;
    }
  }
  return least;
}

}  // namespace

Bytes least_peak(const OrderProblem& problem) {
  ensure(problem.node_count() <= kMaxOrderNodes, "order oracle: the problem is too large");
  Bytes least = Bytes::max();
  try_orders(problem, 0, problem.base_memory(), least);
  return least;
}

Bytes least_peak_by_sets(const OrderProblem& problem) {
  return *peaks_by_sets(problem).back();
}

Bytes node_bound(const OrderProblem& problem) {
  const auto sets = peaks_by_sets(problem);
  std::vector<Bytes> least(static_cast<std::size_t>(problem.node_count()), Bytes::max());
  for (Nodes done = 0; done < sets.size(); ++done) {
    for (std::size_t i = 0; i < least.size(); ++i) {
      if (sets[done] && may_run(problem, done, NodeId(i))) {
        least[i] = std::min(least[i], memory(problem, done, NodeId(i)));
      }
    }
  }
  return std::max(problem.base_memory(), *std::max_element(least.begin(), least.end()));
}

std::vector<bool> fixed(const OrderProblem& problem) {
  const int count = problem.node_count();
  std::vector<Nodes> before(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto& mine = before[static_cast<std::size_t>(i)];
    for (const NodeId earlier : problem.predecessors(NodeId(i))) {
      mine |= with(before[static_cast<std::size_t>(earlier)], earlier);
    }
  }
  std::vector<bool> fixed(static_cast<std::size_t>(count), true);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < i; ++k) {
      if (has(before[static_cast<std::size_t>(i)], NodeId(k))) continue;
      fixed[static_cast<std::size_t>(i)] = false;
      fixed[static_cast<std::size_t>(k)] = false;
    }
  }
  return fixed;
}

}  // namespace remora::test
