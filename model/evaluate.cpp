// SPDX-License-Identifier: Apache-2.0
#include "model/evaluate.hpp"

#include <algorithm>

#include "model/error.hpp"

namespace remora {
namespace {

OpId op_of(OpId step) {
  return step;
}
OpId op_of(const Compute& step) {
  return step.op;
}
ModeNumber mode_of(OpId) {
  return 0;
}
ModeNumber mode_of(const Compute& step) {
  return step.mode;
}

/// An input that a step with inner peaks reads, and the interval that serves it.
struct Reading {
  int step = 0;
  TensorId tensor{};
  int interval = 0;
};

/// `readings`: those of steps with inner peaks, in order.
template <class StepType>
std::vector<RetentionInterval> retention_intervals(const Instance& instance, std::span<const StepType> sequence,
                                                   std::vector<Reading>& readings) {
  std::vector<RetentionInterval> intervals;
  Table<TensorId, std::int32_t> current(instance.tensor_count(), -1);
  const bool reads_differ = instance.reads_differ();
  const bool has_inner = instance.has_inner();
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    const int now = static_cast<int>(step);
    ensure(op_of(sequence[step]).valid() && op_of(sequence[step]) < instance.op_count(), "evaluate: an unknown op");
    for (const TensorId t : instance.inputs(op_of(sequence[step]))) {
      if (reads_differ && !instance.reads(op_of(sequence[step]), mode_of(sequence[step]), t)) continue;
      const int interval = current[t];
      ensure(interval >= 0, "evaluate: an op comes before the producer of its input");
      intervals[at(interval)].last_step = now;
      if (has_inner && !instance.inner(op_of(sequence[step]), mode_of(sequence[step])).empty()) {
        readings.push_back({now, t, interval});
      }
    }
    for (const TensorId t : instance.outputs(op_of(sequence[step]))) {
      current[t] = static_cast<int>(intervals.size());
      intervals.push_back({t, now, now, instance.size(t, mode_of(sequence[step]))});
    }
  }
  for (const TensorId t : instance.kept()) {
    if (current[t] >= 0) intervals[at(current[t])].last_step = static_cast<int>(sequence.size()) - 1;
  }
  return intervals;
}

/// The step's memory beyond all that it reads and writes: its workspace, or its highest inner peak. `readings` of this
/// step (which are subtracted) and later ones. `last`: the last step releases nothing that must be kept.
Bytes workspace_of(const Instance& instance, int step, bool last, const Compute& compute,
                   const std::vector<RetentionInterval>& intervals, std::span<const Reading>& readings) {
  const auto peaks = instance.inner(compute.op, compute.mode);
  if (peaks.empty()) return instance.workspace(compute.op, compute.mode);
  std::size_t count = 0;
  while (count < readings.size() && readings[count].step == step) ++count;
  std::vector<Reading> own(readings.begin(), readings.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::stable_sort(own, {}, &Reading::tensor);
  readings = readings.subspan(count);
  return highest_peak(peaks, [&](TensorId tensor) {
    const auto reading = std::ranges::lower_bound(own, tensor, {}, &Reading::tensor);
    if (reading == own.end() || reading->tensor != tensor) return Bytes(0);
    const RetentionInterval& interval = intervals[at(reading->interval)];
    const bool released = interval.last_step == step && !(last && instance.keep(tensor));
    return released ? interval.size : Bytes(0);
  });
}

template <class StepType>
Evaluation evaluate_steps(const Instance& instance, std::span<const StepType> sequence) {
  Evaluation result;
  std::vector<Reading> readings;
  result.intervals = retention_intervals(instance, sequence, readings);
  const bool has_inner = instance.has_inner();
  std::span<const Reading> readings_left(readings);
  std::vector<Bytes> change(sequence.size() + 1);
  for (const RetentionInterval& interval : result.intervals) {
    change[at(interval.first_step)] += interval.size;
    change[at(interval.last_step) + 1] -= interval.size;
  }
  result.peak = instance.base_memory();
  result.memory.reserve(sequence.size());
  Bytes resident = instance.base_memory();
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    resident += change[step];
    const OpId op = op_of(sequence[step]);
    const Compute compute{op, mode_of(sequence[step])};
    const bool last = step + 1 == sequence.size();
    const Bytes here = resident + (has_inner ? workspace_of(instance, static_cast<int>(step), last, compute,
                                                            result.intervals, readings_left)
                                             : instance.workspace(op, compute.mode));
    result.memory.push_back(here);
    result.duration += instance.duration(op, mode_of(sequence[step]));
    if (here > result.peak) {
      result.peak = here;
      result.peak_step = static_cast<int>(step);
    }
  }
  return result;
}

template <class StepType>
std::vector<Step> written_steps(const Instance& instance, std::span<const StepType> sequence) {
  std::vector<Step> steps(sequence.size());
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    steps[step].op = op_of(sequence[step]);
    steps[step].mode = mode_of(sequence[step]);
  }
  std::vector<Reading> readings;
  for (const RetentionInterval& interval : retention_intervals(instance, sequence, readings)) {
    const bool stays = instance.keep(interval.tensor) && interval.last_step == static_cast<int>(sequence.size()) - 1;
    if (!stays) steps[at(interval.last_step)].free.push_back(interval.tensor);
  }
  return steps;
}

}  // namespace

Evaluation evaluate(const Instance& instance, std::span<const OpId> sequence) {
  return evaluate_steps(instance, sequence);
}

Evaluation evaluate(const Instance& instance, std::span<const Compute> sequence) {
  return evaluate_steps(instance, sequence);
}

bool modes_hold(const Instance& instance, std::span<const Compute> sequence) {
  Table<OpId, ModeNumber> latest(instance.op_count(), -1);
  Table<OpId, std::int64_t> weights(instance.op_count(), 0);
  for (const Compute& compute : sequence) {
    if (!instance.offers(compute.op, compute.mode)) return false;
    const OpId leader = instance.leader(compute.op);
    if (leader.valid() && latest[leader] != compute.mode) return false;
    latest[compute.op] = compute.mode;
    weights[compute.op] += instance.computes(compute.op, compute.mode);
    if (weights[compute.op] > instance.most_computes(compute.op)) return false;
  }
  return true;
}

std::vector<Step> steps_of(const Instance& instance, std::span<const OpId> sequence) {
  return written_steps(instance, sequence);
}

std::vector<Step> steps_of(const Instance& instance, std::span<const Compute> sequence) {
  return written_steps(instance, sequence);
}

Schedule schedule_of(const Instance& instance, std::span<const OpId> sequence) {
  return schedule_of(instance, std::span<const Compute>(computes_of(sequence)));
}

Schedule schedule_of(const Instance& instance, std::span<const Compute> sequence) {
  const Evaluation evaluation = evaluate(instance, sequence);
  Schedule schedule;
  schedule.graph = instance.graph().name;
  schedule.status = Status::feasible;
  schedule.order = instance.problem().order;
  schedule.budget = evaluation.peak;
  schedule.duration = evaluation.duration;
  schedule.baseline_duration = instance.baseline_duration();
  schedule.peak_memory = evaluation.peak;
  schedule.baseline_peak_memory = baseline_peak(instance);
  schedule.lower_bound = instance.baseline_duration();
  schedule.steps = steps_of(instance, sequence);
  schedule.solver.max_computes = instance.problem().max_computes;
  schedule.solver.reached_peak = evaluation.peak;
  return schedule;
}

Order input_order(const Instance& instance) {
  const Ids<OpId> ops = instance.ops();
  return {ops.begin(), ops.end()};
}

Bytes baseline_peak(const Instance& instance) {
  return evaluate(instance, input_order(instance)).peak;
}

}  // namespace remora
