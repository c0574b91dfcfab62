// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/timing.hpp"

#include <algorithm>
#include <set>

namespace remora {
namespace {

using Kind = PipelineTask::Kind;

}  // namespace

ModeAmounts amounts_of(const StageMode& mode, PipelineOrder order) {
  const bool apart = order == PipelineOrder::zero_bubble;
  const std::int64_t weights = mode.weight_gradient.count();
  return {
      .lasts = {mode.forward.count(), mode.backward.count() + (apart ? 0 : weights), weights},
      .saved = mode.saved.count(),
      .held = apart ? mode.held.count() : 0,
      .transient = {mode.forward_transient.count(), mode.backward_transient.count(), mode.weight_transient.count()}};
}

ModeAmounts least_of(const ModeAmounts& a, const ModeAmounts& b) {
  ModeAmounts least = a;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    least.lasts[kind] = std::min(a.lasts[kind], b.lasts[kind]);
    least.transient[kind] = std::min(a.transient[kind], b.transient[kind]);
  }
  least.saved = std::min(a.saved, b.saved);
  least.held = std::min(a.held, b.held);
  return least;
}

PipelineTiming::PipelineTiming(const Pipeline& pipeline)
    : stages_(pipeline.stages.size()), classes_(static_cast<std::size_t>(pipeline.classes)) {
  add_tasks(pipeline);
  ends_.resize(tasks_.size());
  for (std::size_t device = 0; device < pipeline.devices; ++device) add_moments(pipeline, device);
}

void PipelineTiming::add_tasks(const Pipeline& pipeline) {
  for (const LinkedTask& linked : linked_tasks(pipeline)) {
    tasks_.push_back({.variable = choice_index(pipeline, linked.task.stage, linked.task.microbatch),
                      .kind = static_cast<std::uint8_t>(linked.task.kind),
                      .before = linked.before.value_or(kNone),
                      .source = linked.source.value_or(kNone),
                      .send = linked.send.count()});
  }
}

void PipelineTiming::add_moments(const Pipeline& pipeline, std::size_t device) {
  std::vector<int> in_flight(variables(), 0);
  std::vector<int> waiting(variables(), 0);
  std::set<Moment> moments;
  for (const PipelineTask& task : tasks_of(pipeline, device)) {
    const std::size_t variable = choice_index(pipeline, task.stage, task.microbatch);
    if (task.kind == Kind::forward) ++in_flight[variable];
    moments.insert({variable, static_cast<std::uint8_t>(task.kind), in_flight, waiting});
    if (task.kind == Kind::backward) {
      --in_flight[variable];
      ++waiting[variable];
    }
    if (task.kind == Kind::weight_gradient) --waiting[variable];
  }
  moments_.emplace_back(moments.begin(), moments.end());
  std::int64_t fixed = 0;
  std::vector<std::size_t>& here = variables_of_.emplace_back();
  for (std::size_t s = device; s < stages_; s += pipeline.devices) {
    fixed += pipeline.stages[StageId(s)].fixed_memory.count();
    for (std::size_t k = 0; k < classes_; ++k) here.push_back(s * classes_ + k);
  }
  fixed_.push_back(fixed);
}

std::int64_t PipelineTiming::makespan(const std::vector<ModeAmounts>& amounts) const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    std::int64_t start = task.before == kNone ? 0 : ends_[task.before];
    if (task.source != kNone) start = std::max(start, ends_[task.source] + task.send);
    ends_[i] = start + amounts[task.variable].lasts[task.kind];
    last = std::max(last, ends_[i]);
  }
  return last;
}

std::int64_t PipelineTiming::peak(std::size_t device, const std::vector<ModeAmounts>& amounts) const {
  std::int64_t most = fixed_[device];
  for (const Moment& moment : moments_[device]) {
    std::int64_t here = fixed_[device] + amounts[moment.variable].transient[moment.kind];
    for (const std::size_t variable : variables_of_[device]) {
      here += moment.in_flight[variable] * amounts[variable].saved + moment.waiting[variable] * amounts[variable].held;
    }
    most = std::max(most, here);
  }
  return most;
}

}  // namespace remora
