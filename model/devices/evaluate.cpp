// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <queue>
#include <utility>

#include "model/devices/schedule.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

class Evaluator {
 public:
  Evaluator(const DeviceGraph& graph, std::span<const DeviceStep> steps)
      : graph_(graph),
        steps_(steps),
        produced_(produced_tensors(graph.graph)),
        devices_(graph.devices.size()),
        latest_(graph.graph.tensors.size() * devices_, kAbsent) {
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) latest(t, d) = kHome;
    }
  }

  DeviceEvaluation run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const bool supplied = steps_[i].is_copy() ? copy(static_cast<int>(i)) : compute(static_cast<int>(i));
      if (supplied) continue;
      result_.unsupplied = static_cast<int>(i);
      return std::move(result_);
    }
    if (!keep()) {
      result_.unsupplied = static_cast<int>(steps_.size());
      return std::move(result_);
    }
    add_memory();
    return std::move(result_);
  }

 private:
  static constexpr int kAbsent = -1;
  static constexpr int kHome = -2;

  int& latest(TensorId t, DeviceId d) { return latest_[t.index() * devices_ + d.index()]; }

  bool use(TensorId t, DeviceId d, int step) {
    const int stay = latest(t, d);
    if (stay == kAbsent) return false;
    if (stay != kHome) {
      result_.stays[at(stay)].last_step = step;
      result_.stays[at(stay)].useful = true;
    }
    return true;
  }

  void begin(TensorId t, DeviceId d, int step) {
    latest(t, d) = static_cast<int>(result_.stays.size());
    result_.stays.push_back({{t, d}, step, step});
  }

  bool compute(int i) {
    const DeviceStep& step = steps_[at(i)];
    for (const TensorId t : graph_.graph[step.op].inputs) {
      if (!use(t, step.device, i)) return false;
    }
    for (const TensorId t : graph_.graph[step.op].outputs) begin(t, step.device, i);
    const RunCost* const cost = run_cost(graph_, step.op, step.device);
    ensure(cost != nullptr, "evaluate: an op on a device where it cannot run");
    result_.duration += cost->duration;
    result_.energy += cost->energy;
    return true;
  }

  bool copy(int i) {
    const DeviceStep& step = steps_[at(i)];
    if (!use(step.copied, step.device, i)) return false;
    ensure(latest(step.copied, step.to) != kHome, "evaluate: a copy to where the tensor is at home");
    begin(step.copied, step.to, i);
    const auto cost = copy_cost(graph_, step.copied, step.device, step.to);
    ensure(cost.has_value(), "evaluate: a copy without a link");
    result_.duration += cost->duration;
    result_.energy += cost->energy;
    return true;
  }

  bool keep() {
    for (const TensorId t : graph_.places.ids()) {
      if (!graph_.graph[t].keep || !produced_[t]) continue;
      int chosen = kAbsent;
      for (const DeviceId d : graph_.devices.ids()) {
        const auto& home = graph_.places[t].home;
        if (!home.empty() && home.front() != d) continue;
        const int stay = latest(t, d);
        if (stay == kAbsent) continue;
        const bool later = chosen == kAbsent || result_.stays[at(stay)].last_step > result_.stays[at(chosen)].last_step;
        if (later) chosen = stay;
      }
      if (chosen == kAbsent) return false;
      Stay& stay = result_.stays[at(chosen)];
      stay.last_step = static_cast<int>(steps_.size()) - 1;
      stay.to_the_end = stay.useful = true;
    }
    return true;
  }

  void add_memory() {
    std::vector<Bytes> base;
    for (const Device& device : graph_.devices) base.push_back(device.fixed_memory);
    for (const TensorId t : graph_.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph_.places[t].home) base[d.index()] += graph_.graph[t].size;
    }
    result_.memory.assign(devices_, std::vector<Bytes>(steps_.size() + 1));
    for (const Stay& stay : result_.stays) {
      auto& memory = result_.memory[stay.residence.device];
      memory[at(stay.first_step)] += graph_.graph[stay.residence.tensor].size;
      memory[at(stay.last_step) + 1] -= graph_.graph[stay.residence.tensor].size;
    }
    for (const DeviceId d : graph_.devices.ids()) {
      auto& memory = result_.memory[d];
      Bytes here = base[d.index()];
      for (Bytes& bytes : memory) bytes = here += bytes;
      memory.pop_back();
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i].is_copy()) result_.memory[steps_[i].device][i] += beside(steps_[i]);
    }
    take_over();
    for (const DeviceId d : graph_.devices.ids()) {
      Bytes peak = base[d.index()];
      for (const Bytes bytes : result_.memory[d]) peak = std::max(peak, bytes);
      result_.peak.push_back(peak);
    }
  }

  [[nodiscard]] Bytes beside(const DeviceStep& step) const { return run_cost(graph_, step.op, step.device)->workspace; }

  /// Where a run ends the stay of an input, an output may take over its storage.
  void take_over() {
    for (const Stay& stay : result_.stays) {
      const DeviceStep& step = steps_[at(stay.last_step)];
      if (stay.to_the_end || step.is_copy() || step.device != stay.residence.device) continue;
      for (const InPlace& pair : graph_.graph[step.op].in_place) {
        if (pair.input != stay.residence.tensor || !produced_[pair.input]) continue;
        result_.memory[step.device][at(stay.last_step)] -=
            std::min(graph_.graph[pair.output].size, graph_.graph[pair.input].size);
      }
    }
  }

  const DeviceGraph& graph_;
  std::span<const DeviceStep> steps_;
  Table<TensorId, bool> produced_;
  std::size_t devices_;
  /// By tensor and device: the latest stay.
  std::vector<int> latest_;
  DeviceEvaluation result_;
};

/// Steps in the order of the schedule; each waits for steps before it alone, so that one pass has all times.
class Overlap {
 public:
  Overlap(const DeviceGraph& graph, std::span<const DeviceStep> steps,
          const Table<DeviceId, std::optional<Bytes>>& budget)
      : graph_(graph),
        steps_(steps),
        budget_(budget),
        produced_(produced_tensors(graph.graph)),
        devices_(graph.devices.size()),
        streams_(graph),
        idle_(streams_.size()),
        first_ends_(graph.graph.ops.size()),
        stays_(graph.graph.tensors.size() * devices_),
        memory_(devices_) {
    for (const DeviceId d : graph.devices.ids()) memory_[d].held = graph.devices[d].fixed_memory;
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) {
        stay(t, d).resident = true;
        memory_[d].held += graph.graph[t].size;
      }
    }
    for (const Memory& memory : memory_) result_.peak.push_back(memory.held);
    result_.changes.resize(devices_);
    result_.steps.reserve(steps.size());
  }

  OverlappedTimes run() {
    for (const DeviceId d : memory_.ids()) {
      // Permanently allocated memory leaves no room for anything.
      if (budget_[d] && memory_[d].held > *budget_[d] && !steps_.empty()) result_.stuck = 0;
    }
    for (std::size_t i = 0; i < steps_.size() && !result_.stuck; ++i) {
      const DeviceStep& step = steps_[i];
      const bool started = step.is_copy() ? copy(step) : compute(step);
      if (!started) {
        result_.stuck = static_cast<int>(i);
        break;
      }
      result_.steps.push_back(now_);
      result_.duration = std::max(result_.duration, now_.end);
      for (const Residence& residence : step.free) release(step, residence);
    }
    return std::move(result_);
  }

 private:
  /// A tensor on a device: from when on it is there, and until when it is read.
  struct TimedStay {
    Duration ready{};
    Duration read_until{};
    bool resident = false;
  };
  struct Memory {
    /// Bytes allocated by the steps so far, less those returned up to the last one's start.
    Bytes held{};
    Duration last_start{};
    /// Bytes returned later, the earliest first.
    std::priority_queue<MemoryChange, std::vector<MemoryChange>, std::greater<>> returns{};
  };

  TimedStay& stay(TensorId t, DeviceId d) { return stays_[t.index() * devices_ + d.index()]; }

  /// Starts a step on the stream, not before `earliest`; false if its memory is never free.
  bool start(std::size_t stream, DeviceId device, Duration earliest, Duration lasts, Bytes bytes) {
    Memory& memory = memory_[device];
    Duration begin = std::max({earliest, idle_[stream], memory.last_start});
    const auto come_back = [&] {
      while (!memory.returns.empty() && memory.returns.top().time <= begin) {
        memory.held -= memory.returns.top().bytes;
        memory.returns.pop();
      }
    };
    come_back();
    while (budget_[device] && memory.held + bytes > *budget_[device]) {
      if (memory.returns.empty()) return false;
      begin = memory.returns.top().time;
      come_back();
    }
    memory.held += bytes;
    memory.last_start = begin;
    now_ = {begin, begin + lasts};
    idle_[stream] = now_.end;
    result_.peak[device] = std::max(result_.peak[device], memory.held);
    result_.changes[device].push_back({begin, bytes});
    return true;
  }

  void give_back(DeviceId device, Duration time, Bytes bytes) {
    memory_[device].returns.push({time, bytes});
    result_.changes[device].push_back({time, Bytes(0) - bytes});
  }

  void read(TimedStay& stay) const { stay.read_until = std::max(stay.read_until, now_.end); }

  bool copy(const DeviceStep& step) {
    const std::size_t stream = streams_.of_copy(step.device, step.to);
    TimedStay& source = stay(step.copied, step.device);
    const Duration lasts = copy_cost(graph_, step.copied, step.device, step.to)->duration;
    if (!start(stream, step.to, source.ready, lasts, graph_.graph[step.copied].size)) return false;
    read(source);
    stay(step.copied, step.to) = {now_.end, now_.end, true};
    return true;
  }

  bool compute(const DeviceStep& step) {
    const Op& op = graph_.graph[step.op];
    const DeviceId d = step.device;
    const RunCost& cost = *run_cost(graph_, step.op, d);
    Duration earliest;
    for (const TensorId t : op.inputs) earliest = std::max(earliest, stay(t, d).ready);
    for (const OpId v : op.after) earliest = std::max(earliest, first_ends_[v].value_or(Duration(0)));
    taken_over_.clear();
    Bytes bytes = cost.workspace;
    const bool all = graph_.graph.recompute_allocates == Allocation::all;
    for (const TensorId t : op.outputs) {
      if (stay(t, d).resident && !all) continue;
      bytes += graph_.graph[t].size;
      const Bytes taken = stay(t, d).resident ? Bytes(0) : taken_over(step, t, earliest);
      bytes -= taken;
    }
    if (!start(streams_.of_run(cost), d, earliest, cost.duration, bytes)) return false;
    if (!first_ends_[step.op]) first_ends_[step.op] = now_.end;
    for (const TensorId t : op.inputs) read(stay(t, d));
    if (cost.workspace > Bytes(0)) give_back(d, now_.end, cost.workspace);
    for (const TensorId t : op.outputs) {
      TimedStay& here = stay(t, d);
      if (here.resident && !all) continue;
      if (here.resident) give_back(d, std::max(here.read_until, now_.end), graph_.graph[t].size);
      here = {now_.end, now_.end, true};
    }
    return true;
  }

  /// Bytes of an input that the output takes over, if the step releases it; the step waits for earlier readers.
  Bytes taken_over(const DeviceStep& step, TensorId output, Duration& earliest) {
    for (const InPlace& pair : graph_.graph[step.op].in_place) {
      const Residence input{pair.input, step.device};
      if (pair.output != output || !produced_[pair.input]) continue;
      if (std::find(step.free.begin(), step.free.end(), input) == step.free.end()) continue;
      earliest = std::max(earliest, stay(pair.input, step.device).read_until);
      const Bytes bytes = std::min(graph_.graph[output].size, graph_.graph[pair.input].size);
      taken_over_.push_back({pair.input, bytes});
      return bytes;
    }
    return Bytes(0);
  }

  void release(const DeviceStep& step, const Residence& residence) {
    const auto [t, d] = residence;
    Bytes bytes = graph_.graph[t].size;
    for (const auto& [input, taken] : taken_over_) {
      if (!step.is_copy() && input == t && d == step.device) bytes -= taken;
    }
    give_back(d, std::max(stay(t, d).read_until, now_.end), bytes);
    stay(t, d).resident = false;
  }

  const DeviceGraph& graph_;
  std::span<const DeviceStep> steps_;
  const Table<DeviceId, std::optional<Bytes>>& budget_;
  Table<TensorId, bool> produced_;
  std::size_t devices_;
  StreamNumbers streams_;
  /// By stream: when it has ended its last step.
  std::vector<Duration> idle_;
  Table<OpId, std::optional<Duration>> first_ends_;
  /// By tensor and device.
  std::vector<TimedStay> stays_;
  Table<DeviceId, Memory> memory_;
  /// Takeovers of the latest run.
  std::vector<std::pair<TensorId, Bytes>> taken_over_;
  StepTime now_;
  OverlappedTimes result_;
};

}  // namespace

OverlappedTimes overlapped(const DeviceGraph& graph, std::span<const DeviceStep> steps,
                           const Table<DeviceId, std::optional<Bytes>>& budget) {
  return Overlap(graph, steps, budget).run();
}

DeviceEvaluation evaluate(const DeviceGraph& graph, std::span<const DeviceStep> steps) {
  return Evaluator(graph, steps).run();
}

std::vector<DeviceStep> on_one_device(std::span<const Step> steps) {
  std::vector<DeviceStep> result;
  result.reserve(steps.size());
  for (const Step& step : steps) {
    result.push_back({.op = step.op, .device = DeviceId(0), .mode = step.mode});
    for (const TensorId t : step.free) result.back().free.push_back({t, DeviceId(0)});
  }
  return result;
}

std::vector<DeviceStep> with_releases(const DeviceEvaluation& evaluation, std::span<const DeviceStep> steps) {
  std::vector<DeviceStep> result(steps.begin(), steps.end());
  for (DeviceStep& step : result) step.free.clear();
  for (const Stay& stay : evaluation.stays) {
    if (!stay.to_the_end) result[at(stay.last_step)].free.push_back(stay.residence);
  }
  return result;
}

}  // namespace remora
