// SPDX-License-Identifier: Apache-2.0
#include "tests/support/oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/ensure.hpp"

namespace remora::test {
namespace {

constexpr std::size_t kMostOps = 8;
constexpr std::size_t kMostTensors = 16;
constexpr int kMostComputes = 3;

struct State {
  /// First computes done so far: the next one is op `stage`.
  unsigned stage = 0;
  /// One more than the op recomputed last in this stage; 0 if none was.
  unsigned last = 0;
  unsigned resident = 0;
  /// Two bits an op.
  unsigned counts = 0;

  [[nodiscard]] std::uint64_t key() const {
    return (std::uint64_t{stage} << 48U) | (std::uint64_t{last} << 40U) | (std::uint64_t{resident} << 16U) | counts;
  }
  [[nodiscard]] unsigned count(unsigned op) const { return (counts >> (2 * op)) & 3U; }
};

class Oracle {
 public:
  Oracle(const Graph& graph, Bytes budget, int max_computes) : graph_(graph), budget_(budget) {
    ensure(graph.ops.size() <= kMostOps && graph.tensors.size() <= kMostTensors && max_computes <= kMostComputes,
           "oracle: the graph is too large");
    for (const Op& op : graph.ops) {
      for (const TensorId t : op.outputs) produced_ |= bit(t);
      const int own = std::min(op.recompute ? op.max_computes.value_or(max_computes) : 1, max_computes);
      limits_.push_back(static_cast<unsigned>(own));
    }
  }

  std::optional<Duration> run() {
    State start;
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if ((produced_ & (1U << t)) == 0) start.resident |= 1U << t;
    }
    push(0, start);
    while (!queue_.empty()) {
      const auto [cost, state] = queue_.top();
      queue_.pop();
      if (best_.at(state.key()) < cost) continue;
      if (finished(state)) return Duration(cost);
      expand(cost, state);
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::int64_t cost;
    State state;
    bool operator<(const Entry& other) const { return cost > other.cost; }
  };

  static unsigned bit(TensorId t) { return 1U << static_cast<unsigned>(std::int32_t{t}); }

  void push(std::int64_t cost, const State& state) {
    const auto [at, fresh] = best_.try_emplace(state.key(), cost);
    if (!fresh && at->second <= cost) return;
    at->second = cost;
    queue_.push({cost, state});
  }

  [[nodiscard]] bool finished(const State& state) const {
    if (state.stage < graph_.ops.size()) return false;
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].keep && (state.resident & (1U << t)) == 0) return false;
    }
    return true;
  }

  [[nodiscard]] Bytes memory(unsigned resident) const {
    Bytes total = graph_.fixed_memory;
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if ((resident & (1U << t)) != 0) total += graph_.tensors[t].size;
    }
    return total;
  }

  void expand(std::int64_t cost, const State& state) {
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      const unsigned mask = 1U << t;
      if ((state.resident & produced_ & mask) == 0) continue;
      State next = state;
      next.resident &= ~mask;
      push(cost, next);
    }
    // The stage's recomputes follow the input order; its first compute ends it.
    for (unsigned op = state.last; op < state.stage; ++op) compute(cost, state, op);
    if (state.stage < graph_.ops.size()) compute(cost, state, state.stage);
  }

  void compute(std::int64_t cost, const State& state, unsigned id) {
    const Op& op = graph_.ops[id];
    if (state.count(id) >= limits_[id]) return;
    for (const TensorId t : op.inputs) {
      if ((state.resident & bit(t)) == 0) return;
    }
    State next = state;
    for (const TensorId t : op.outputs) next.resident |= bit(t);
    if (memory(next.resident) + op.workspace > budget_) return;
    next.counts += 1U << (2 * id);
    if (id == state.stage) {
      ++next.stage;
      next.last = 0;
    } else {
      next.last = id + 1;
    }
    push(cost + op.duration.count(), next);
  }

  const Graph& graph_;
  Bytes budget_;
  unsigned produced_ = 0;
  std::vector<unsigned> limits_;
  std::priority_queue<Entry> queue_;
  std::unordered_map<std::uint64_t, std::int64_t> best_;
};

}  // namespace

std::optional<Duration> staged_optimum(const Graph& graph, Bytes budget, int max_computes) {
  return Oracle(graph, budget, max_computes).run();
}

}  // namespace remora::test
