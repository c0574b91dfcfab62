// SPDX-License-Identifier: Apache-2.0
#include "engine/order/depth_first_order.hpp"

#include <algorithm>
#include <cstddef>

namespace remora {
namespace {

/// In bytes; what is summed here has shared parts many times, which 64 bits need not hold.
struct Estimate {
  double peak = 0;
  double left = 0;
  /// By what the predecessors come first.
  double key = 0;
};

class DepthFirst {
 public:
  DepthFirst(const OrderProblem& problem, double noise, Random& random)
      : problem_(problem), estimates_(static_cast<std::size_t>(problem.node_count())), done_(estimates_.size()) {
    for (int i = 0; i < problem.node_count(); ++i) estimate(NodeId(i), noise, random);
  }

  std::vector<NodeId> run() {
    order_.reserve(estimates_.size());
    std::vector<NodeId> ends;
    for (int i = 0; i < problem_.node_count(); ++i) {
      if (problem_.successors(NodeId(i)).empty()) ends.emplace_back(i);
    }
    sort(ends);
    for (const NodeId end : ends) visit(end);
    return std::move(order_);
  }

 private:
  [[nodiscard]] const Estimate& of(NodeId node) const { return estimates_[static_cast<std::size_t>(node)]; }

  void sort(std::vector<NodeId>& nodes) const {
    std::stable_sort(nodes.begin(), nodes.end(), [this](NodeId a, NodeId b) { return of(a).key > of(b).key; });
  }

  [[nodiscard]] std::vector<NodeId> sorted_predecessors(NodeId node) const {
    const auto predecessors = problem_.predecessors(node);
    std::vector<NodeId> sorted(predecessors.begin(), predecessors.end());
    sort(sorted);
    return sorted;
  }

  /// Nodes are numbered in a valid order: its predecessors have theirs.
  void estimate(NodeId node, double noise, Random& random) {
    Estimate& here = estimates_[static_cast<std::size_t>(node)];
    double resident = 0;
    for (const NodeId earlier : sorted_predecessors(node)) {
      here.peak = std::max(here.peak, resident + of(earlier).peak);
      resident += of(earlier).left;
    }
    here.left += static_cast<double>(leaving(problem_, node).count());
    here.peak = std::max(here.peak, resident + static_cast<double>(running(problem_, node).count()));
    here.key = (here.peak - here.left) * (noise > 0 ? 1 + noise * random.unit() : 1);
  }

  struct Visit {
    NodeId node{};
    std::vector<NodeId> predecessors{};
    std::size_t next = 0;
  };

  /// Without recursion: graphs may be deep.
  void visit(NodeId end) {
    std::vector<Visit> path;
    const auto enter = [&](NodeId node) {
      if (done_[static_cast<std::size_t>(node)]) return;
      done_[static_cast<std::size_t>(node)] = true;
      path.push_back({node, sorted_predecessors(node)});
    };
    enter(end);
    while (!path.empty()) {
      Visit& last = path.back();
      if (last.next < last.predecessors.size()) {
        enter(last.predecessors[last.next++]);
      } else {
        order_.push_back(last.node);
        path.pop_back();
      }
    }
  }

  const OrderProblem& problem_;
  std::vector<Estimate> estimates_;
  std::vector<bool> done_;
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> depth_first_order(const OrderProblem& problem, double noise, Random& random) {
  return DepthFirst(problem, noise, random).run();
}

}  // namespace remora
