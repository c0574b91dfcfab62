// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/profile.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::report {
namespace {

class Replayer {
 public:
  Replayer(const DeviceGraph& graph, const DeviceSchedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        produced_(produced_tensors(graph.graph)),
        seen_(graph.graph.ops.size(), false),
        held_(graph.devices.size()),
        streams_(graph),
        stay_(graph.graph.tensors.size() * graph.devices.size(), kAbsent) {
    for (const TensorId t : graph.places.ids()) sizes_.push_back(graph.graph[t].size);
    for (const DeviceId d : graph.devices.ids()) held_[d] = graph.devices[d].fixed_memory;
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) held_[d] += graph.graph[t].size;
    }
    result_.base = result_.peak = held_;
    result_.peak_step.assign(graph.devices.size(), -1);
    result_.memory.resize(graph.devices.size());
    for (const DeviceId d : graph.devices.ids()) {
      const std::size_t lanes = std::max<std::size_t>(graph.devices[d].lanes.size(), 1);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        LaneUse use;
        use.device = d;
        use.lane = LaneId(lane);
        result_.lanes.push_back(use);
      }
    }
    if (schedule.copies == CopyMode::overlap) overlapped_ = overlapped(graph, schedule.steps, schedule.budget);
  }

  DeviceProfile run() {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) step(static_cast<int>(i));
    const int last = static_cast<int>(schedule_.steps.size()) - 1;
    for (const std::ptrdiff_t stay : stay_) {
      if (stay == kAbsent) continue;
      result_.stays[at(stay)].last_step = last;
      result_.stays[at(stay)].to_the_end = true;
    }
    result_.steps = schedule_.steps;
    if (overlapped_) put_in_order();
    result_.times.push_back(overlapped_ ? overlapped_->duration : now_);
    collect();
    return std::move(result_);
  }

 private:
  static constexpr std::ptrdiff_t kAbsent = -1;

  std::ptrdiff_t& stay(TensorId t, DeviceId d) { return stay_[t.index() * graph_.devices.size() + d.index()]; }

  void step(int now) {
    const DeviceStep& step = schedule_.steps[at(now)];
    Bytes beside;
    if (overlapped_) {
      const auto read = [&](TensorId t) {
        const std::ptrdiff_t stay = this->stay(t, step.device);
        if (stay != kAbsent) until_[at(stay)] = std::max(until_[at(stay)], overlapped_->steps[at(now)].end);
      };
      if (step.is_copy()) read(step.copied);
      for (const TensorId t : step.is_copy() ? std::vector<TensorId>{} : graph_.graph[step.op].inputs) read(t);
    }
    if (step.is_copy()) {
      begin(step.copied, step.to, now, Begun::copy);
      copy(step);
      result_.again.push_back(false);
      result_.workspaces.emplace_back();
    } else {
      const bool again = seen_[step.op];
      seen_[step.op] = true;
      beside = run(step, now, again ? Begun::recompute : Begun::first_run);
      spend(step, again);
      result_.again.push_back(again);
    }
    for (const DeviceId d : graph_.devices.ids()) {
      const Bytes here = held_[d] + (d == step.device ? beside : Bytes(0));
      result_.memory[d].push_back(here);
      if (here <= result_.peak[d]) continue;
      result_.peak[d] = here;
      result_.peak_step[d] = now;
    }
    for (const remora::Residence& residence : step.free) release(residence, now);
  }

  /// Allocates the outputs of a run; its memory beyond what is resident.
  Bytes run(const DeviceStep& step, int now, Begun begun) {
    const Op& op = graph_.graph[step.op];
    Bytes beside = result_.workspaces.emplace_back(run_cost(graph_, step.op, step.device)->workspace);
    if (!op.modes) {
      for (const TensorId t : op.outputs) beside += allocate(step, t, now, begun);
      return beside;
    }
    const Mode mode = mode_of(graph_.graph, step.op, step.mode);
    const auto released = [&](TensorId t) {
      const bool goes =
          std::find(step.free.begin(), step.free.end(), remora::Residence{t, step.device}) != step.free.end();
      return goes && produced_[t] ? sizes_[t] : Bytes(0);
    };
    beside = mode.inner.empty() ? mode.workspace : highest_peak(std::span(mode.inner), released);
    result_.workspaces.back() = beside;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId t = op.outputs[i];
      const Bytes older = std::exchange(sizes_[t], mode.output_sizes[i]);
      if (stay(t, step.device) == kAbsent) {
        begin(t, step.device, now, begun);
        continue;
      }
      held_[step.device] += sizes_[t] - older;
      if (older != sizes_[t] || graph_.graph.recompute_allocates == Allocation::all) beside += older;
    }
    return beside;
  }

  void begin(TensorId t, DeviceId d, int now, Begun begun) {
    stay(t, d) = static_cast<std::ptrdiff_t>(result_.stays.size());
    result_.stays.push_back({t, d, now, now, begun, false, sizes_[t]});
    if (overlapped_) until_.push_back(overlapped_->steps[at(now)].end);
    held_[d] += sizes_[t];
  }

  /// The memory of the run beyond what is resident: an older copy of the output, or less by what it takes over.
  Bytes allocate(const DeviceStep& step, TensorId t, int now, Begun begun) {
    const Bytes size = graph_.graph[t].size;
    if (stay(t, step.device) != kAbsent) {
      return graph_.graph.recompute_allocates == Allocation::all ? size : Bytes(0);
    }
    begin(t, step.device, now, begun);
    for (const InPlace& pair : graph_.graph[step.op].in_place) {
      const remora::Residence input{pair.input, step.device};
      const bool released = std::find(step.free.begin(), step.free.end(), input) != step.free.end();
      if (pair.output == t && released && produced_[pair.input]) {
        return Bytes(0) - std::min(size, graph_.graph[pair.input].size);
      }
    }
    return Bytes(0);
  }

  void release(const remora::Residence& residence, int now) {
    std::ptrdiff_t& stay = this->stay(residence.tensor, residence.device);
    ensure(stay != kAbsent, "report: a step frees what is not resident");
    result_.stays[at(stay)].last_step = now;
    if (overlapped_) until_[at(stay)] = std::max(until_[at(stay)], overlapped_->steps[at(now)].end);
    stay = kAbsent;
    held_[residence.device] -= sizes_[residence.tensor];
  }

  static void add(Spent& spent, Duration duration, Energy energy) {
    ++spent.times;
    spent.duration += duration;
    spent.energy += energy;
  }

  void spend(const DeviceStep& step, bool again) {
    const RunCost& cost = *run_cost(graph_, step.op, step.device);
    OpRuns& runs = runs_[{step.op, step.device}];
    LaneUse& lane = result_.lanes[streams_.of_run(cost)];
    const Op& op = graph_.graph[step.op];
    const Duration duration = op.modes ? mode_of(graph_.graph, step.op, step.mode).duration : cost.duration;
    add(runs, duration, cost.energy);
    add(lane, duration, cost.energy);
    runs.again += again ? 1 : 0;
    lane.again += again ? 1 : 0;
    last(duration);
  }

  void last(Duration duration) {
    result_.times.push_back(now_);
    result_.ends.push_back(now_ += duration);
  }

  void copy(const DeviceStep& step) {
    const CopyCost cost = *copy_cost(graph_, step.copied, step.device, step.to);
    Transfer& transfer = transfers_[{step.copied, step.device, step.to}];
    LinkUse& link = links_[{step.device, step.to}];
    for (Spent* spent : {static_cast<Spent*>(&transfer), static_cast<Spent*>(&link)}) {
      add(*spent, cost.duration, cost.energy);
    }
    transfer.bytes += graph_.graph[step.copied].size;
    link.bytes += graph_.graph[step.copied].size;
    last(cost.duration);
  }

  void put_in_order() {
    const std::vector<StepTime>& times = overlapped_->steps;
    std::vector<std::size_t> order(times.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return times[a].start < times[b].start; });
    const std::vector<bool> again = std::exchange(result_.again, {});
    std::vector<int> place(order.size());
    result_.steps.clear();
    result_.times.clear();
    result_.ends.clear();
    for (const std::size_t i : order) {
      place[i] = static_cast<int>(result_.steps.size());
      result_.steps.push_back(schedule_.steps[i]);
      result_.again.push_back(again[i]);
      result_.times.push_back(times[i].start);
      result_.ends.push_back(times[i].end);
    }
    for (std::size_t i = 0; i < result_.stays.size(); ++i) {
      TensorStay& stay = result_.stays[i];
      const auto behind = std::lower_bound(result_.times.begin(), result_.times.end(), until_[i]);
      stay.first_step = place[at(stay.first_step)];
      stay.last_step = stay.to_the_end
                           ? static_cast<int>(order.size()) - 1
                           : std::max(stay.first_step, static_cast<int>(behind - result_.times.begin()) - 1);
    }
    std::stable_sort(result_.stays.begin(), result_.stays.end(),
                     [](const TensorStay& a, const TensorStay& b) { return a.first_step < b.first_step; });
    for (const DeviceId d : graph_.devices.ids()) hold(d);
  }

  /// The device's memory over the times of the replay.
  void hold(DeviceId device) {
    std::vector<MemoryChange> changes = overlapped_->changes[device];
    std::sort(changes.begin(), changes.end());
    std::vector<Bytes>& memory = result_.memory[device];
    result_.peak[device] = overlapped_->peak[device];
    result_.peak_step[device] = -1;
    Bytes held = result_.base[device];
    Bytes most = held;
    std::size_t next = 0;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      // Memory that is returned as the step begins is returned before the step allocates its own.
      const bool is_last = i + 1 == memory.size();
      for (; next < changes.size() && changes[next].time <= result_.times[i]; ++next) held += changes[next].bytes;
      memory[i] = held;
      for (; next < changes.size() && (is_last || changes[next].time < result_.times[i + 1]); ++next) {
        held += changes[next].bytes;
        memory[i] = std::max(memory[i], held);
      }
      if (memory[i] <= most) continue;
      most = memory[i];
      result_.peak_step[device] = static_cast<int>(i);
    }
  }

  void collect() {
    for (auto& [key, runs] : runs_) {
      std::tie(runs.op, runs.device) = key;
      result_.runs.push_back(runs);
    }
    for (auto& [key, transfer] : transfers_) {
      std::tie(transfer.tensor, transfer.from, transfer.to) = key;
      result_.transfers.push_back(transfer);
    }
    const auto longer = [](const Spent& a, const Spent& b) { return a.duration > b.duration; };
    std::stable_sort(result_.runs.begin(), result_.runs.end(), longer);
    std::stable_sort(result_.transfers.begin(), result_.transfers.end(), longer);
    for (auto& [key, link] : links_) {
      std::tie(link.from, link.to) = key;
      result_.links.push_back(link);
    }
    for (const DeviceStep& step : result_.steps) result_.stream.push_back(stream_of(step));
  }

  [[nodiscard]] std::size_t stream_of(const DeviceStep& step) const {
    if (!step.is_copy()) return streams_.of_run(*run_cost(graph_, step.op, step.device));
    const auto link = links_.find({step.device, step.to});
    return result_.lanes.size() + static_cast<std::size_t>(std::distance(links_.begin(), link));
  }

  const DeviceGraph& graph_;
  const DeviceSchedule& schedule_;
  Table<TensorId, bool> produced_;
  /// Sizes of the latest copies.
  Table<TensorId, Bytes> sizes_;
  Table<OpId, bool> seen_;
  Table<DeviceId, Bytes> held_;
  StreamNumbers streams_;
  /// By tensor and device: the number of its stay, or kAbsent.
  std::vector<std::ptrdiff_t> stay_;
  /// Where copies overlap: the replay, and until when each stay is read.
  std::optional<OverlappedTimes> overlapped_;
  std::vector<Duration> until_;
  Duration now_;
  std::map<std::pair<OpId, DeviceId>, OpRuns> runs_;
  std::map<std::tuple<TensorId, DeviceId, DeviceId>, Transfer> transfers_;
  std::map<std::pair<DeviceId, DeviceId>, LinkUse> links_;
  DeviceProfile result_;
};

}  // namespace

DeviceProfile profile_of(const DeviceGraph& graph, const DeviceSchedule& schedule) {
  return Replayer(graph, schedule).run();
}

std::string link_name(const DeviceGraph& graph, DeviceId from, DeviceId to) {
  return graph.devices[from].name + " -> " + graph.devices[to].name;
}

std::vector<std::string> stream_names(const DeviceGraph& graph, const DeviceProfile& profile) {
  std::vector<std::string> names;
  for (const LaneUse& use : profile.lanes) {
    const Device& device = graph.devices[use.device];
    names.push_back(device.lanes.size() < 2 ? device.name : device.name + ": " + device.lanes[use.lane.index()]);
  }
  for (const LinkUse& use : profile.links) names.push_back(link_name(graph, use.from, use.to));
  return names;
}

Replay replay(const Graph& graph, std::span<const Step> steps) {
  DeviceProfile profile = profile_of(on_one_device(graph), {.steps = on_one_device(steps)});
  const DeviceId only(0);
  Replay result{.again = std::move(profile.again),
                .workspaces = std::move(profile.workspaces),
                .memory = std::move(profile.memory[only]),
                .stays = std::move(profile.stays),
                .base = profile.base[only],
                .peak = profile.peak[only],
                .peak_step = profile.peak_step[only],
                .duration = profile.times.back()};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    result.ops.push_back(steps[i].op);
    result.modes.push_back(steps[i].mode);
    result.durations.push_back(profile.ends[i] - profile.times[i]);
  }
  return result;
}

std::vector<std::size_t> residents(const Replay& replay, int step) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < replay.stays.size(); ++i) {
    const TensorStay& stay = replay.stays[i];
    if (stay.first_step <= step && step <= stay.last_step) found.push_back(i);
  }
  const auto size = [&](std::size_t i) { return replay.stays[i].size; };
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return found;
}

Replay input_order_replay(const std::shared_ptr<const Graph>& graph) {
  const Instance instance(graph, {});
  return replay(*graph, steps_of(instance, input_order(instance)));
}

}  // namespace remora::report
