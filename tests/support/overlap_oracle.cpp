// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "tests/support/device_oracle.hpp"
#include "tests/support/device_rules.hpp"

namespace remora::test {
namespace {

struct Situation : DeviceSituation {
  /// Inputs whose release by the latest step would have been a takeover.
  std::uint32_t blocked = 0;

  friend auto operator<=>(const Situation&, const Situation&) = default;
};

/// When everything is free again; less of any is never worse.
struct Times {
  std::vector<std::int64_t> idle;
  std::vector<std::int64_t> last_start;
  std::vector<std::int64_t> ready;
  std::vector<std::int64_t> read_until;
  std::vector<std::int64_t> first_end;
  /// By device: what comes back, and when; ascending.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> returns;
  /// Of the latest step, and of the last one of all.
  std::int64_t step_end = 0;
  std::int64_t end = 0;
  std::int64_t energy = 0;
};

bool no_later(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](std::int64_t x, std::int64_t y) { return x <= y; });
}

/// At no time more is still to come back.
bool no_more_due(const std::vector<std::pair<std::int64_t, std::int64_t>>& a,
                 const std::vector<std::pair<std::int64_t, std::int64_t>>& b) {
  const auto due = [](const auto& returns, std::int64_t time) {
    std::int64_t bytes = 0;
    for (const auto& [when, amount] : returns) bytes += when > time ? amount : 0;
    return bytes;
  };
  if (due(a, -1) > due(b, -1)) return false;
  for (const auto& [time, amount] : b) {
    if (due(a, time) > due(b, time)) return false;
  }
  return true;
}

class OverlapOracle : DeviceRules {
 public:
  OverlapOracle(const DeviceGraph& graph, const devices::Problem& problem) : DeviceRules(graph, problem) {}

  std::optional<std::int64_t> run() {
    Situation start;
    start.resident = home_;
    for (const DeviceId d : graph_.devices.ids()) {
      std::int64_t always = graph_.devices[d].fixed_memory.count();
      for (const TensorId t : graph_.places.ids()) always += (home_ & bit(t, d)) != 0 ? size(t) : 0;
      if (problem_.budget[d] && always > problem_.budget[d]->count()) return std::nullopt;
    }
    Times times;
    times.idle.assign(devices_ * (devices_ + kMaxLanes), 0);
    times.last_start.assign(devices_, 0);
    times.ready.assign(graph_.graph.tensors.size() * devices_, 0);
    times.read_until = times.ready;
    times.first_end.assign(graph_.graph.ops.size(), 0);
    times.returns.resize(devices_);
    push(start, times);
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      const Times now = labels_.at(entry.number);
      const auto& known = best_.at(entry.situation);
      if (std::find(known.begin(), known.end(), entry.number) == known.end()) continue;
      if (finished(entry.situation)) return entry.cost;
      expand(entry.situation, now);
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMaxLanes = 8;

  struct Entry {
    std::int64_t cost = 0;
    std::size_t number = 0;
    Situation situation;
    bool operator<(const Entry& other) const { return cost > other.cost; }
  };

  [[nodiscard]] std::int64_t size(TensorId t) const { return DeviceRules::size(t).count(); }

  [[nodiscard]] bool dominates(const Times& a, const Times& b) const {
    if (a.end > b.end || a.step_end > b.step_end) return false;
    if ((problem_.energy_limit || problem_.objective == Objective::energy) && a.energy > b.energy) return false;
    if (!no_later(a.idle, b.idle) || !no_later(a.last_start, b.last_start) || !no_later(a.ready, b.ready) ||
        !no_later(a.read_until, b.read_until) || !no_later(a.first_end, b.first_end)) {
      return false;
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      if (!no_more_due(a.returns[d], b.returns[d])) return false;
    }
    return true;
  }

  /// Nothing starts before the last start on its device, so what is free by the least of these is as good as free then.
  void settle(Times& times) const {
    const std::int64_t now = *std::min_element(times.last_start.begin(), times.last_start.end());
    for (auto* of : {&times.idle, &times.ready, &times.read_until, &times.first_end}) {
      for (std::int64_t& time : *of) time = std::max(time, now);
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      std::erase_if(times.returns[d], [&](const auto& back) { return back.first <= times.last_start[d]; });
    }
  }

  void push(const Situation& situation, Times times) {
    settle(times);
    if (problem_.duration_limit && times.end > problem_.duration_limit->count()) return;
    if (problem_.energy_limit && times.energy > problem_.energy_limit->count()) return;
    auto& known = best_[situation];
    if (std::any_of(known.begin(), known.end(), [&](std::size_t one) { return dominates(labels_[one], times); }))
      return;
    std::erase_if(known, [&](std::size_t one) { return dominates(times, labels_[one]); });
    known.push_back(labels_.size());
    queue_.push({problem_.objective == Objective::duration ? times.end : times.energy, labels_.size(), situation});
    labels_.push_back(std::move(times));
    ensure(labels_.size() < 3'000'000, "oracle: too many ways");
  }

  void give_back(Times& times, DeviceId d, std::int64_t when, std::int64_t bytes) const {
    if (bytes == 0) return;
    auto& returns = times.returns[d.index()];
    returns.insert(std::upper_bound(returns.begin(), returns.end(), std::pair{when, bytes}), {when, bytes});
  }

  /// The start of a step that takes so much on the device while `resident` is what is there before; nothing if it never fits.
  std::optional<std::int64_t> start(Times& times, std::uint32_t resident, DeviceId d, std::size_t stream,
                                    std::int64_t earliest, std::int64_t bytes) const {
    std::int64_t begin = std::max({earliest, times.idle[stream], times.last_start[d.index()]});
    auto& returns = times.returns[d.index()];
    std::int64_t held = graph_.devices[d].fixed_memory.count() + bytes;
    for (const TensorId t : graph_.places.ids()) held += (resident & bit(t, d)) != 0 ? size(t) : 0;
    for (const auto& [when, amount] : returns) held += amount;
    while (!returns.empty()) {
      const bool fits = !problem_.budget[d] || held <= problem_.budget[d]->count();
      if (returns.front().first > begin) {
        if (fits) break;
        begin = returns.front().first;
      }
      held -= returns.front().second;
      returns.erase(returns.begin());
    }
    if (problem_.budget[d] && held > problem_.budget[d]->count()) return std::nullopt;
    times.last_start[d.index()] = begin;
    return begin;
  }

  static void end_step(Times& times, std::size_t stream, std::int64_t end, Energy energy) {
    times.idle[stream] = times.step_end = end;
    times.end = std::max(times.end, end);
    times.energy += energy.count();
  }

  void expand(const Situation& situation, const Times& times) {
    for (std::uint32_t left = situation.resident & ~home_ & ~situation.blocked; left != 0; left &= left - 1) {
      const auto position = static_cast<std::size_t>(__builtin_ctz(left));
      Situation next = situation;
      next.resident &= ~(1U << position);
      Times then = times;
      give_back(then, DeviceId(position % devices_), std::max(times.step_end, times.read_until[position]),
                size(TensorId(position / devices_)));
      then.ready[position] = then.read_until[position] = 0;
      push(next, then);
    }
    for (const TensorId t : graph_.places.ids()) {
      for (const Link& link : graph_.links) {
        if (may_copy(situation, t, link)) copy(situation, times, t, link);
      }
    }
    for (const OpId v : graph_.runs.ids()) {
      for (const RunCost& run : graph_.runs[v]) {
        if (may_run(situation, v, run.device)) compute(situation, times, v, run);
      }
    }
  }

  void copy(Situation situation, Times times, TensorId t, const Link& link) {
    const CopyCost cost = *copy_cost(graph_, t, link.from, link.to);
    const std::size_t stream = devices_ * kMaxLanes + link.from.index() * devices_ + link.to.index();
    const auto begin = start(times, situation.resident, link.to, stream, times.ready[place(t, link.from)], size(t));
    if (!begin) return;
    const std::int64_t end = *begin + cost.duration.count();
    end_step(times, stream, end, cost.energy);
    std::int64_t& read_until = times.read_until[place(t, link.from)];
    read_until = std::max(read_until, end);
    times.ready[place(t, link.to)] = times.read_until[place(t, link.to)] = end;
    situation.resident |= bit(t, link.to);
    situation.blocked = 0;
    push(situation, times);
  }

  void compute(const Situation& situation, const Times& times, OpId v, const RunCost& run) {
    const Op& op = graph_.graph[v];
    const DeviceId d = run.device;
    const auto was_there = [&](TensorId t) { return (situation.resident & bit(t, d)) != 0; };
    Situation next = situation;
    next.blocked = 0;
    count_run(next, v, d);
    for (const InPlace& pair : op.in_place) {
      if (produced_[pair.input] && !was_there(pair.output)) next.blocked |= bit(pair.input, d);
    }
    for (unsigned choice = 0; choice < 1U << op.in_place.size(); ++choice) {
      Situation then = next;
      Times later = times;
      std::int64_t earliest = 0;
      for (const TensorId t : op.inputs) earliest = std::max(earliest, times.ready[place(t, d)]);
      for (const OpId w : op.after) earliest = std::max(earliest, times.first_end[w.index()]);
      std::int64_t bytes = run.workspace.count();
      const bool all = graph_.graph.recompute_allocates == Allocation::all;
      for (const TensorId t : op.outputs) bytes += all || !was_there(t) ? size(t) : 0;
      bool allowed = true;
      std::vector<std::pair<TensorId, std::int64_t>> taken;
      for (std::size_t i = 0; i < op.in_place.size(); ++i) {
        if ((choice >> i & 1U) == 0) continue;
        const InPlace& pair = op.in_place[i];
        allowed = allowed && produced_[pair.input] && !was_there(pair.output);
        if (!allowed) break;
        taken.emplace_back(pair.input, std::min(size(pair.output), size(pair.input)));
        bytes -= taken.back().second;
        earliest = std::max(earliest, times.read_until[place(pair.input, d)]);
      }
      if (!allowed) continue;
      const std::size_t stream = d.index() * kMaxLanes + run.lane.index();
      const auto begin = start(later, situation.resident, d, stream, earliest, bytes);
      if (!begin) continue;
      const std::int64_t end = *begin + run.duration.count();
      end_step(later, stream, end, run.energy);
      if (situation.count(v.index()) == 0) later.first_end[v.index()] = end;
      give_back(later, d, end, run.workspace.count());
      for (const TensorId t : op.inputs) later.read_until[place(t, d)] = std::max(later.read_until[place(t, d)], end);
      for (const TensorId t : op.outputs) {
        if (was_there(t) && !all) continue;
        if (was_there(t)) give_back(later, d, std::max(end, times.read_until[place(t, d)]), size(t));
        later.ready[place(t, d)] = later.read_until[place(t, d)] = end;
      }
      for (const auto& [input, amount] : taken) {
        then.resident &= ~bit(input, d);
        give_back(later, d, end, size(input) - amount);
        later.ready[place(input, d)] = later.read_until[place(input, d)] = 0;
      }
      push(then, later);
    }
  }

  std::priority_queue<Entry> queue_;
  std::vector<Times> labels_;
  /// What no other way to the situation undercuts.
  std::map<Situation, std::vector<std::size_t>> best_;
};

}  // namespace

std::optional<std::int64_t> overlapped_optimum(const DeviceGraph& graph, const devices::Problem& problem) {
  return OverlapOracle(graph, problem).run();
}

}  // namespace remora::test
