// SPDX-License-Identifier: Apache-2.0
#include "engine/order/first_orders.hpp"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <tuple>

namespace remora {

namespace {

/// A node that is ready; `version` tells whether what it leaves is still known rightly.
struct Ready {
  double left = 0;
  Bytes needs;
  int since = 0;
  NodeId node{};
  int version = 0;

  [[nodiscard]] auto key() const { return std::tuple{left, needs, -since, std::int32_t{node}}; }
};

struct Later {
  bool operator()(const Ready& a, const Ready& b) const { return a.key() > b.key(); }
};

class ListScheduler {
 public:
  ListScheduler(const OrderProblem& problem, double noise, Random& random)
      : problem_(problem), noise_(noise), random_(random) {
    const auto nodes = static_cast<std::size_t>(problem.node_count());
    since_.resize(nodes);
    versions_.resize(nodes);
    waiting_.reserve(nodes);
    unread_.reserve(static_cast<std::size_t>(problem.buffer_count()));
    for (int b = 0; b < problem.buffer_count(); ++b) {
      unread_.push_back(static_cast<int>(problem.readers(BufferId(b)).size()));
    }
    for (int i = 0; i < problem.node_count(); ++i) {
      waiting_.push_back(static_cast<int>(problem.predecessors(NodeId(i)).size()));
      if (waiting_.back() == 0) push(NodeId(i));
    }
  }

  std::vector<NodeId> run() {
    std::vector<NodeId> order;
    order.reserve(static_cast<std::size_t>(problem_.node_count()));
    while (!ready_.empty()) {
      const Ready best = ready_.top();
      ready_.pop();
      if (best.version != versions_[static_cast<std::size_t>(best.node)]) continue;
      order.push_back(best.node);
      waiting_[static_cast<std::size_t>(best.node)] = -1;
      for (const BufferId buffer : problem_.reads(best.node)) {
        if (--unread_[static_cast<std::size_t>(buffer)] == 1) push_last_reader(buffer);
      }
      for (const NodeId later : problem_.successors(best.node)) {
        if (--waiting_[static_cast<std::size_t>(later)] > 0) continue;
        since_[static_cast<std::size_t>(later)] = static_cast<int>(order.size());
        push(later);
      }
    }
    return order;
  }

 private:
  void push(NodeId node) {
    const Bytes needs = running(problem_, node);
    Bytes left = leaving(problem_, node);
    for (const BufferId buffer : problem_.reads(node)) {
      if (unread_[static_cast<std::size_t>(buffer)] == 1 && !problem_.keep(buffer)) left -= problem_.size(buffer);
    }
    const Bytes writes = needs - problem_.workspace(node);
    const double blur = noise_ > 0 ? noise_ * random_.unit() * static_cast<double>(writes.count()) : 0;
    ready_.push({static_cast<double>(left.count()) + blur, needs, since_[static_cast<std::size_t>(node)], node,
                 ++versions_[static_cast<std::size_t>(node)]});
  }

  /// One node is left to read the buffer: it frees it.
  void push_last_reader(BufferId buffer) {
    for (const NodeId reader : problem_.readers(buffer)) {
      if (waiting_[static_cast<std::size_t>(reader)] == 0) push(reader);
    }
  }

  const OrderProblem& problem_;
  double noise_;
  Random& random_;
  /// Predecessors that have not run; -1 for a node that has.
  std::vector<int> waiting_;
  std::vector<int> unread_;
  std::vector<int> since_;
  std::vector<int> versions_;
  std::priority_queue<Ready, std::vector<Ready>, Later> ready_;
};

}  // namespace

std::vector<NodeId> list_order(const OrderProblem& problem, double noise, Random& random) {
  return ListScheduler(problem, noise, random).run();
}

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
