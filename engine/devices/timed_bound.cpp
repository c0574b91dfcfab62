// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "engine/devices/timed_state.hpp"

namespace remora::devices {
namespace {

class Following {
 public:
  Following(const TimedInstance& of, const TimedState& state)
      : of_(of),
        instance_(of.instance()),
        graph_(of.graph()),
        state_(state),
        there_(of.place_count(), kNoWay),
        starts_(instance_.op_count(), kNoWay),
        ends_(instance_.op_count(), kNoWay),
        certain_(instance_.op_count(), false),
        tails_(instance_.op_count(), 0) {}

  TimedBound bound() {
    find_earliest();
    if (bound_.duration == kNoWay) return {kNoWay, kNoWay};
    find_certain();
    add_lanes();
    return bound_;
  }

 private:
  [[nodiscard]] bool is_anywhere(TensorId t) const {
    return std::ranges::any_of(graph_.devices.ids(),
                               [&](DeviceId d) { return (state_.resident & of_.bit(t, d)) != 0; });
  }

  /// When what is to come can be on each device.
  void find_earliest() {
    bound_.duration = state_.end;
    for (const TensorId t : graph_.places.ids()) {
      for (const DeviceId d : graph_.devices.ids()) {
        const std::size_t place = instance_.place(t, d);
        if ((state_.resident & of_.bit(t, d)) != 0) there_[place] = state_.ready[place];
      }
      if (!instance_.producer(t).valid()) spread(t);
    }
    for (const OpId v : graph_.runs.ids()) {
      if (state_.count(v) < instance_.most_runs(v)) {
        for (const RunCost& run : graph_.runs[v]) {
          if (instance_.has_room(v, run)) add_run(v, run);
        }
      }
      for (const TensorId t : instance_.op(v).outputs) spread(t);
      if (state_.count(v) == 0) bound_.duration = std::max(bound_.duration, ends_[v]);
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!graph_.graph[t].keep || !instance_.producer(t).valid()) continue;
      std::int64_t least = kNoWay;
      for (const DeviceId d : graph_.devices.ids()) {
        const auto& home = graph_.places[t].home;
        if (home.empty() || home.front() == d) least = std::min(least, there_[instance_.place(t, d)]);
      }
      bound_.duration = std::max(bound_.duration, least);
    }
  }

  void add_run(OpId v, const RunCost& run) {
    std::int64_t start = std::max(state_.idle[of_.streams().of_run(run)], state_.last_start[run.device.index()]);
    for (const TensorId t : instance_.op(v).inputs) start = std::max(start, there_[instance_.place(t, run.device)]);
    for (const OpId w : instance_.op(v).after) {
      start = std::max(start, state_.count(w) > 0 ? state_.first_end[w.index()] : ends_[w]);
    }
    if (start == kNoWay) return;
    const std::int64_t end = start + run.duration.count();
    starts_[v] = std::min(starts_[v], start);
    ends_[v] = std::min(ends_[v], end);
    for (const TensorId t : instance_.op(v).outputs) {
      std::int64_t& there = there_[instance_.place(t, run.device)];
      there = std::min(there, end);
    }
  }

  /// Over links.
  void spread(TensorId t) {
    for (std::size_t round = 1; round < graph_.devices.size(); ++round) {
      for (const Link& link : graph_.links) {
        const std::int64_t from = there_[instance_.place(t, link.from)];
        if (from == kNoWay) continue;
        const std::int64_t start = std::max(
            {from, state_.idle[of_.streams().of_copy(link.from, link.to)], state_.last_start[link.to.index()]});
        std::int64_t& there = there_[instance_.place(t, link.to)];
        there = std::min(there, start + copy_cost(graph_, t, link.from, link.to)->duration.count());
      }
    }
  }

  /// Runs that are certain to come, and what follows each at least. Readers come after what they read.
  void find_certain() {
    for (OpId v(instance_.op_count() - 1); v.valid(); v = OpId(v - 1)) {
      certain_[v] = certain_[v] || state_.count(v) == 0;
      for (const TensorId t : instance_.op(v).outputs) {
        if (is_anywhere(t)) continue;
        certain_[v] = certain_[v] || graph_.graph[t].keep;
        for (const OpId reader : instance_.readers(t)) {
          if (!certain_[reader]) continue;
          certain_[v] = true;
          tails_[v] = std::max(tails_[v], of_.shortest(reader) + tails_[reader]);
        }
      }
      if (certain_[v]) energy_ += of_.least_energy(v);
    }
    bound_.energy = state_.energy + energy_;
  }

  void add_lanes() {
    std::vector<std::vector<OpId>> lanes(of_.streams().size());
    for (const OpId v : graph_.runs.ids()) {
      if (certain_[v] && graph_.runs[v].size() == 1) lanes[of_.streams().of_run(graph_.runs[v].front())].push_back(v);
    }
    for (const auto& lane : lanes) {
      for (const OpId head : lane) {
        for (const OpId tail : lane) {
          std::int64_t load = 0;
          bool any = false;
          for (const OpId v : lane) {
            if (starts_[v] < starts_[head] || tails_[v] < tails_[tail]) continue;
            any = true;
            load += of_.shortest(v);
          }
          if (any) bound_.duration = std::max(bound_.duration, starts_[head] + load + tails_[tail]);
        }
      }
    }
  }

  const TimedInstance& of_;
  const Instance& instance_;
  const DeviceGraph& graph_;
  const TimedState& state_;
  /// By place: when it can be read there.
  std::vector<std::int64_t> there_;
  /// The earliest start of each op's next run.
  Table<OpId, std::int64_t> starts_;
  Table<OpId, std::int64_t> ends_;
  Table<OpId, bool> certain_;
  Table<OpId, std::int64_t> tails_;
  std::int64_t energy_ = 0;
  TimedBound bound_;
};

}  // namespace

TimedBound bound_after(const TimedInstance& of, const TimedState& state) {
  return Following(of, state).bound();
}

}  // namespace remora::devices
