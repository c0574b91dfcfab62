// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/replay.hpp"

#include <algorithm>
#include <cstddef>

#include "model/ensure.hpp"

namespace remora::report {
namespace {

class Run {
 public:
  Run(const Graph& graph, std::size_t steps) : graph_(graph), stay_(graph.tensors.size(), kAbsent) {
    computed_.assign(graph.ops.size(), false);
    std::vector<bool> produced(graph.tensors.size(), false);
    for (const Op& op : graph.ops) {
      for (const TensorId t : op.outputs) produced[t] = true;
    }
    memory_ = graph.fixed_memory;
    for (std::size_t t = 0; t < produced.size(); ++t) {
      if (!produced[t]) memory_ += graph.tensors[t].size;
    }
    result_.base = memory_;
    result_.peak = memory_;
    result_.ops.reserve(steps);
    result_.again.reserve(steps);
    result_.memory.reserve(steps);
  }

  void run(const Step& step) {
    const int now = static_cast<int>(result_.ops.size());
    const Op& op = graph_.ops[step.op];
    for (const TensorId t : op.outputs) allocate(t, now);
    result_.ops.push_back(step.op);
    result_.again.push_back(computed_[step.op]);
    computed_[step.op] = true;
    result_.memory.push_back(memory_ + op.workspace);
    result_.duration += op.duration;
    if (result_.memory.back() > result_.peak) {
      result_.peak = result_.memory.back();
      result_.peak_step = now;
    }
    for (const TensorId t : step.free) release(t, now);
  }

  Replay finish() {
    const int last = static_cast<int>(result_.ops.size()) - 1;
    for (const std::ptrdiff_t stay : stay_) {
      if (stay == kAbsent) continue;
      result_.residences[static_cast<std::size_t>(stay)].last_step = last;
      result_.residences[static_cast<std::size_t>(stay)].to_the_end = true;
    }
    return std::move(result_);
  }

 private:
  static constexpr std::ptrdiff_t kAbsent = -1;

  void allocate(TensorId t, int now) {
    if (stay_[t] != kAbsent) return;
    stay_[t] = static_cast<std::ptrdiff_t>(result_.residences.size());
    result_.residences.push_back({.tensor = t, .first_step = now, .last_step = now});
    memory_ += graph_.tensors[t].size;
  }

  void release(TensorId t, int now) {
    ensure(stay_[t] != kAbsent, "replay: a step frees what is not resident");
    result_.residences[static_cast<std::size_t>(stay_[t])].last_step = now;
    stay_[t] = kAbsent;
    memory_ -= graph_.tensors[t].size;
  }

  const Graph& graph_;
  /// Of every tensor, the number of its stay, or kAbsent.
  std::vector<std::ptrdiff_t> stay_;
  std::vector<bool> computed_{};
  Bytes memory_{};
  Replay result_{};
};

}  // namespace

Replay replay(const Graph& graph, std::span<const Step> steps) {
  Run run(graph, steps.size());
  for (const Step& step : steps) run.run(step);
  return run.finish();
}

std::vector<std::size_t> residents(const Graph& graph, const Replay& replay, int step) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < replay.residences.size(); ++i) {
    const Residence& residence = replay.residences[i];
    if (residence.first_step <= step && step <= residence.last_step) found.push_back(i);
  }
  const auto size = [&](std::size_t i) { return graph.tensors[replay.residences[i].tensor].size; };
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return found;
}

}  // namespace remora::report
