// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device_oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "model/error.hpp"

namespace remora::test {
namespace {

struct DeviceState {
  std::uint32_t resident = 0;
  std::uint32_t counts = 0;
  std::uint32_t stage = 0;
  std::uint32_t last = 0;

  [[nodiscard]] std::uint64_t key() const {
    return std::uint64_t{resident} | std::uint64_t{counts} << 32U | std::uint64_t{stage} << 48U |
           std::uint64_t{last} << 52U;
  }
  [[nodiscard]] unsigned count(std::size_t op) const { return counts >> (2 * op) & 3U; }
};

class DeviceOracle {
 public:
  DeviceOracle(const DeviceGraph& graph, const DeviceProblem& problem)
      : graph_(graph), problem_(problem), produced_(produced_tensors(graph.graph)), devices_(graph.devices.size()) {
    ensure(graph.graph.ops.size() <= 7 && graph.graph.tensors.size() * devices_ <= 27 && problem.max_computes <= 3,
           "oracle: the graph is too large");
    for (const Op& op : graph.graph.ops) {
      const int most = op.recompute ? op.max_computes.value_or(problem.max_computes) : 1;
      most_.push_back(static_cast<unsigned>(std::min(most, problem.max_computes)));
    }
  }

  std::optional<std::int64_t> run() {
    DeviceState start;
    for (const TensorId t : graph_.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph_.places[t].home) start.resident |= bit(t, d);
    }
    home_ = start.resident;
    if (fits(start.resident, {})) push({}, start);
    while (!queue_.empty()) {
      const auto [spent, state] = queue_.top();
      queue_.pop();
      const auto& known = best_.at(state.key());
      if (std::find(known.begin(), known.end(), spent) == known.end()) continue;
      if (finished(state)) return spent.cost;
      expand(spent, state);
    }
    return std::nullopt;
  }

 private:
  /// Of the objective, and of the other quantity where that is limited.
  struct Spent {
    std::int64_t cost = 0;
    std::int64_t other = 0;
    friend auto operator<=>(const Spent&, const Spent&) = default;
  };
  struct Entry {
    Spent spent;
    DeviceState state;
    bool operator<(const Entry& other) const { return spent > other.spent; }
  };

  [[nodiscard]] Spent after(const Spent& spent, Duration duration, Energy energy) const {
    const bool fast = problem_.objective == Objective::duration;
    const bool limited = fast ? problem_.energy_limit.has_value() : problem_.duration_limit.has_value();
    const std::int64_t other = fast ? energy.count() : duration.count();
    return {spent.cost + (fast ? duration.count() : energy.count()), limited ? spent.other + other : 0};
  }

  [[nodiscard]] bool within_limits(const Spent& spent) const {
    const bool fast = problem_.objective == Objective::duration;
    const std::int64_t duration = fast ? spent.cost : spent.other;
    const std::int64_t energy = fast ? spent.other : spent.cost;
    return (!problem_.duration_limit || duration <= problem_.duration_limit->count()) &&
           (!problem_.energy_limit || energy <= problem_.energy_limit->count());
  }

  [[nodiscard]] std::uint32_t bit(TensorId t, DeviceId d) const { return 1U << (t.index() * devices_ + d.index()); }
  [[nodiscard]] Bytes size(TensorId t) const { return graph_.graph[t].size; }

  void push(const Spent& spent, const DeviceState& state) {
    if (!within_limits(spent)) return;
    auto& known = best_[state.key()];
    const auto dominates = [](const Spent& a, const Spent& b) { return a.cost <= b.cost && a.other <= b.other; };
    if (std::any_of(known.begin(), known.end(), [&](const Spent& one) { return dominates(one, spent); })) return;
    std::erase_if(known, [&](const Spent& one) { return dominates(spent, one); });
    known.push_back(spent);
    queue_.push({spent, state});
  }

  struct Beside {
    DeviceId device{};
    Bytes bytes{};
  };

  /// Whether what is resident, and what a run takes beside, keeps every budget.
  [[nodiscard]] bool fits(std::uint32_t resident, const Beside& beside) const {
    for (const DeviceId d : graph_.devices.ids()) {
      if (!problem_.budget[d]) continue;
      Bytes here = graph_.devices[d].fixed_memory + (d == beside.device ? beside.bytes : Bytes(0));
      for (const TensorId t : graph_.places.ids()) here += (resident & bit(t, d)) != 0 ? size(t) : Bytes(0);
      if (here > *problem_.budget[d]) return false;
    }
    return true;
  }

  [[nodiscard]] bool finished(const DeviceState& state) const {
    for (std::size_t v = 0; v < most_.size(); ++v) {
      if (state.count(v) == 0) return false;
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!graph_.graph[t].keep || !produced_[t]) continue;
      std::uint32_t where = 0;
      for (const DeviceId d : graph_.devices.ids()) {
        const auto& home = graph_.places[t].home;
        if (home.empty() || home.front() == d) where |= bit(t, d);
      }
      if ((state.resident & where) == 0) return false;
    }
    return true;
  }

  void expand(const Spent& spent, const DeviceState& state) {
    for (std::uint32_t left = state.resident & ~home_; left != 0; left &= left - 1) {
      DeviceState next = state;
      next.resident &= ~(left & (~left + 1));
      push(spent, next);
    }
    for (const TensorId t : graph_.places.ids()) {
      for (const Link& link : graph_.links) {
        if ((state.resident & bit(t, link.from)) == 0 || (state.resident & bit(t, link.to)) != 0) continue;
        DeviceState next = state;
        next.resident |= bit(t, link.to);
        const CopyCost copy = *copy_cost(graph_, t, link.from, link.to);
        if (fits(next.resident, {})) push(after(spent, copy.duration, copy.energy), next);
      }
    }
    for (const OpId v : graph_.runs.ids()) {
      for (const RunCost& run : graph_.runs[v]) {
        if (may_run(state, v, run.device)) compute(spent, state, v, run);
      }
    }
  }

  [[nodiscard]] std::uint32_t rank(OpId v, DeviceId d) const {
    return static_cast<std::uint32_t>(v.index() * devices_ + d.index() + 1);
  }

  [[nodiscard]] bool may_run(const DeviceState& state, OpId v, DeviceId d) const {
    if (state.count(v.index()) >= most_[v.index()]) return false;
    const Op& op = graph_.graph[v];
    for (const TensorId t : op.inputs) {
      if ((state.resident & bit(t, d)) == 0) return false;
    }
    for (const OpId earlier : op.after) {
      if (state.count(earlier.index()) == 0) return false;
    }
    if (problem_.order == OrderMode::free) return true;
    if (state.count(v.index()) == 0) return v.index() == state.stage;
    return rank(v, d) > state.last;
  }

  /// With each choice of inputs that the step releases for outputs to take over.
  void compute(const Spent& spent, const DeviceState& state, OpId v, const RunCost& run) {
    const Op& op = graph_.graph[v];
    DeviceState computed = state;
    Bytes beside = run.workspace;
    for (const TensorId t : op.outputs) {
      const bool again = (state.resident & bit(t, run.device)) != 0;
      if (again && graph_.graph.recompute_allocates == Allocation::all) beside += size(t);
      computed.resident |= bit(t, run.device);
    }
    computed.counts += 1U << (2 * v.index());
    if (problem_.order == OrderMode::input) {
      const bool first = state.count(v.index()) == 0;
      computed.last = first ? 0 : rank(v, run.device);
      computed.stage += first ? 1 : 0;
    }
    for (unsigned choice = 0; choice < 1U << op.in_place.size(); ++choice) {
      DeviceState next = computed;
      Bytes here = beside;
      bool allowed = true;
      for (std::size_t i = 0; i < op.in_place.size(); ++i) {
        if ((choice >> i & 1U) == 0) continue;
        const InPlace& pair = op.in_place[i];
        allowed = allowed && produced_[pair.input];
        next.resident &= ~bit(pair.input, run.device);
        if ((state.resident & bit(pair.output, run.device)) == 0) here -= std::min(size(pair.output), size(pair.input));
      }
      if (allowed && fits(computed.resident, {run.device, here})) push(after(spent, run.duration, run.energy), next);
    }
  }

  const DeviceGraph& graph_;
  const DeviceProblem& problem_;
  Table<TensorId, bool> produced_;
  std::size_t devices_;
  std::vector<unsigned> most_;
  std::uint32_t home_ = 0;
  std::priority_queue<Entry> queue_;
  /// What no other way to the state undercuts in both.
  std::unordered_map<std::uint64_t, std::vector<Spent>> best_;
};

}  // namespace

std::optional<std::int64_t> device_optimum(const DeviceGraph& graph, const DeviceProblem& problem) {
  return DeviceOracle(graph, problem).run();
}

}  // namespace remora::test
