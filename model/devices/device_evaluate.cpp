// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "model/devices/device_schedule.hpp"
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

}  // namespace

DeviceEvaluation evaluate(const DeviceGraph& graph, std::span<const DeviceStep> steps) {
  return Evaluator(graph, steps).run();
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
