// SPDX-License-Identifier: Apache-2.0
#include "engine/order/list_order.hpp"

#include <tuple>

namespace remora {
namespace {

/// A node that is ready, and since when.
struct Ready {
  NodeId node{};
  int since = 0;
};

class ListScheduler {
 public:
  explicit ListScheduler(const OrderProblem& problem) : problem_(problem) {
    for (int i = 0; i < problem.node_count(); ++i) {
      waiting_.push_back(static_cast<int>(problem.predecessors(NodeId(i)).size()));
      if (waiting_.back() == 0) ready_.push_back({NodeId(i), 0});
    }
    for (int b = 0; b < problem.buffer_count(); ++b) {
      unread_.push_back(static_cast<int>(problem.readers(BufferId(b)).size()));
    }
  }

  std::vector<NodeId> run(double noise, Random& random) {
    std::vector<NodeId> order;
    order.reserve(static_cast<std::size_t>(problem_.node_count()));
    while (!ready_.empty()) {
      const std::size_t best = choose(noise, random);
      const NodeId node = ready_[best].node;
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(best));
      order.push_back(node);
      for (const BufferId buffer : problem_.reads(node)) --unread_[static_cast<std::size_t>(buffer)];
      for (const NodeId later : problem_.successors(node)) {
        if (--waiting_[static_cast<std::size_t>(later)] == 0) ready_.push_back({later, static_cast<int>(order.size())});
      }
    }
    return order;
  }

 private:
  std::size_t choose(double noise, Random& random) const {
    std::size_t best = 0;
    std::tuple<double, Bytes, int> least;
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      Bytes writes;
      Bytes left;
      for (const BufferId buffer : problem_.writes(ready_[i].node)) {
        writes += problem_.size(buffer);
        if (problem_.keep(buffer) || !problem_.readers(buffer).empty()) left += problem_.size(buffer);
      }
      for (const BufferId buffer : problem_.reads(ready_[i].node)) {
        if (unread_[static_cast<std::size_t>(buffer)] == 1 && !problem_.keep(buffer)) left -= problem_.size(buffer);
      }
      const double blur = noise > 0 ? noise * random.unit() * static_cast<double>(writes.count()) : 0;
      const std::tuple<double, Bytes, int> key{static_cast<double>(left.count()) + blur,
                                               writes + problem_.workspace(ready_[i].node), -ready_[i].since};
      if (i == 0 || key < least) {
        best = i;
        least = key;
      }
    }
    return best;
  }

  const OrderProblem& problem_;
  std::vector<int> waiting_;
  std::vector<int> unread_;
  std::vector<Ready> ready_;
};

}  // namespace

std::vector<NodeId> list_order(const OrderProblem& problem, double noise, Random& random) {
  return ListScheduler(problem).run(noise, random);
}

}  // namespace remora
