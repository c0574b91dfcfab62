// SPDX-License-Identifier: Apache-2.0
#include "tests/support/order_oracle.hpp"

#include <algorithm>
#include <vector>

#include "model/ensure.hpp"

namespace remora::test {
namespace {

class AllOrders {
 public:
  explicit AllOrders(const OrderProblem& problem)
      : problem_(problem), done_(static_cast<std::size_t>(problem.node_count())) {}

  Bytes least() {
    extend(0, problem_.base_memory());
    return least_;
  }

 private:
  [[nodiscard]] bool done(NodeId node) const { return done_[static_cast<std::size_t>(node)]; }

  /// Whether the buffer is there while `node` runs.
  [[nodiscard]] bool resident(BufferId buffer, NodeId node) const {
    const NodeId writer = problem_.writer(buffer);
    if (writer.valid() && writer == node) return true;
    if (writer.valid() && !done(writer)) return false;
    if (problem_.keep(buffer)) return true;
    const auto readers = problem_.readers(buffer);
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return !done(reader); });
  }

  void extend(int count, Bytes peak) {
    if (count == problem_.node_count()) {
      least_ = std::min(least_, peak);
      return;
    }
    for (int i = 0; i < problem_.node_count(); ++i) {
      const NodeId node(i);
      const auto earlier = problem_.predecessors(node);
      if (done(node) || !std::all_of(earlier.begin(), earlier.end(), [&](NodeId k) { return done(k); })) continue;
      Bytes memory = problem_.base_memory() + problem_.workspace(node);
      for (int b = 0; b < problem_.buffer_count(); ++b) {
        if (resident(BufferId(b), node)) memory += problem_.size(BufferId(b));
      }
      done_[static_cast<std::size_t>(i)] = true;
      extend(count + 1, std::max(peak, memory));
      done_[static_cast<std::size_t>(i)] = false;
    }
  }

  const OrderProblem& problem_;
  std::vector<bool> done_;
  Bytes least_ = Bytes::max();
};

}  // namespace

Bytes least_peak(const OrderProblem& problem) {
  ensure(problem.node_count() <= 9, "order oracle: the problem is too large");
  return AllOrders(problem).least();
}

}  // namespace remora::test
