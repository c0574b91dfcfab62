// SPDX-License-Identifier: Apache-2.0
#include "model/evaluate.hpp"

#include <algorithm>

#include "model/ensure.hpp"

namespace remora {
namespace {

std::vector<RetentionInterval> retention_intervals(const Instance& instance, std::span<const OpId> sequence) {
  std::vector<RetentionInterval> intervals;
  std::vector<int> current(static_cast<std::size_t>(instance.tensor_count()), -1);
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    const int now = static_cast<int>(step);
    for (const TensorId t : instance.inputs(sequence[step])) {
      const int interval = current[static_cast<std::size_t>(t)];
      ensure(interval >= 0, "evaluate: an op comes before the producer of its input");
      intervals[static_cast<std::size_t>(interval)].last_step = now;
    }
    for (const TensorId t : instance.outputs(sequence[step])) {
      current[static_cast<std::size_t>(t)] = static_cast<int>(intervals.size());
      intervals.push_back({t, now, now});
    }
  }
  for (int t = 0; t < instance.tensor_count(); ++t) {
    const int interval = current[static_cast<std::size_t>(t)];
    if (interval >= 0 && instance.keep(TensorId(t))) {
      intervals[static_cast<std::size_t>(interval)].last_step = static_cast<int>(sequence.size()) - 1;
    }
  }
  return intervals;
}

}  // namespace

Evaluation evaluate(const Instance& instance, std::span<const OpId> sequence) {
  Evaluation result;
  result.intervals = retention_intervals(instance, sequence);
  std::vector<Bytes> change(sequence.size() + 1);
  for (const RetentionInterval& interval : result.intervals) {
    const Bytes size = instance.size(interval.tensor);
    change[static_cast<std::size_t>(interval.first_step)] += size;
    change[static_cast<std::size_t>(interval.last_step) + 1] -= size;
  }
  result.peak = instance.base_memory();
  result.memory.reserve(sequence.size());
  Bytes resident = instance.base_memory();
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    resident += change[step];
    const Bytes here = resident + instance.workspace(sequence[step]);
    result.memory.push_back(here);
    result.duration += instance.duration(sequence[step]);
    if (here > result.peak) {
      result.peak = here;
      result.peak_step = static_cast<int>(step);
    }
  }
  return result;
}

std::vector<Step> steps_of(const Instance& instance, std::span<const OpId> sequence) {
  std::vector<Step> steps(sequence.size());
  for (std::size_t step = 0; step < sequence.size(); ++step) steps[step].op = sequence[step];
  for (const RetentionInterval& interval : evaluate(instance, sequence).intervals) {
    const bool stays = instance.keep(interval.tensor) && interval.last_step == static_cast<int>(sequence.size()) - 1;
    if (!stays) steps[static_cast<std::size_t>(interval.last_step)].free.push_back(interval.tensor);
  }
  return steps;
}

std::vector<OpId> input_order(const Instance& instance) {
  std::vector<OpId> order;
  order.reserve(static_cast<std::size_t>(instance.op_count()));
  for (int v = 0; v < instance.op_count(); ++v) order.emplace_back(v);
  return order;
}

Bytes baseline_peak(const Instance& instance) {
  return evaluate(instance, input_order(instance)).peak;
}

}  // namespace remora
