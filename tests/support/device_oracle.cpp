// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device_oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tests/support/device_rules.hpp"

namespace remora::test {
namespace {

std::uint64_t key_of(const DeviceSituation& now) {
  return std::uint64_t{now.resident} | std::uint64_t{now.counts} << 32U | std::uint64_t{now.stage} << 48U |
         std::uint64_t{now.last} << 52U;
}

class DeviceOracle : DeviceRules {
 public:
  DeviceOracle(const DeviceGraph& graph, const devices::Problem& problem) : DeviceRules(graph, problem) {}

  std::optional<std::int64_t> run() {
    const DeviceSituation start{.resident = home_};
    if (fits(start.resident, {})) push({}, start);
    while (!queue_.empty()) {
      const auto [spent, state] = queue_.top();
      queue_.pop();
      const auto& known = best_.at(key_of(state));
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
    DeviceSituation state;
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

  void push(const Spent& spent, const DeviceSituation& state) {
    if (!within_limits(spent)) return;
    auto& known = best_[key_of(state)];
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

  void expand(const Spent& spent, const DeviceSituation& state) {
    for (std::uint32_t left = state.resident & ~home_; left != 0; left &= left - 1) {
      DeviceSituation next = state;
      next.resident &= ~(left & (~left + 1));
      push(spent, next);
    }
    for (const TensorId t : graph_.places.ids()) {
      for (const Link& link : graph_.links) {
        if (!may_copy(state, t, link)) continue;
        DeviceSituation next = state;
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

  /// With each choice of inputs that the step releases for outputs to take over.
  void compute(const Spent& spent, const DeviceSituation& state, OpId v, const RunCost& run) {
    const Op& op = graph_.graph[v];
    DeviceSituation computed = state;
    Bytes beside = run.workspace;
    for (const TensorId t : op.outputs) {
      const bool again = (state.resident & bit(t, run.device)) != 0;
      if (again && graph_.graph.recompute_allocates == Allocation::all) beside += size(t);
    }
    count_run(computed, v, run.device);
    for (unsigned choice = 0; choice < 1U << op.in_place.size(); ++choice) {
      DeviceSituation next = computed;
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

  std::priority_queue<Entry> queue_;
  /// What no other way to the state undercuts in both.
  std::unordered_map<std::uint64_t, std::vector<Spent>> best_;
};

}  // namespace

std::optional<std::int64_t> device_optimum(const DeviceGraph& graph, const devices::Problem& problem) {
  return DeviceOracle(graph, problem).run();
}

}  // namespace remora::test
