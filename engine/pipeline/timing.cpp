// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/timing.hpp"

#include <algorithm>
#include <optional>

namespace remora {
namespace {

using TaskKind = PipelineTask::Kind;

}  // namespace

ModeAmounts amounts_of(const StageMode& mode, PipelineOrder order) {
  const bool apart = order == PipelineOrder::zero_bubble;
  const std::int64_t weights = mode.weight_gradient.count();
  return {.lasts = {mode.forward.count(), mode.backward.count() + (apart ? 0 : weights), weights},
          .saved = mode.saved.count(),
          .held = apart ? mode.held.count() : 0,
          .transient = {mode.forward_transient.count(), backward_transient_of(mode, order).count(),
                        mode.weight_transient.count()}};
}

PipelineTiming::PipelineTiming(const Pipeline& pipeline)
    : stages_(pipeline.stages.size()),
      classes_(static_cast<std::size_t>(pipeline.classes)),
      send_(pipeline.send.count()),
      tasks_of_(pipeline.devices),
      shortest_(variables()),
      resident_(variables()) {
  const auto place = [](const std::optional<std::size_t>& at) { return at ? static_cast<std::uint32_t>(*at) : kNone; };
  for (const LinkedTask& linked : linked_tasks(pipeline)) {
    const auto variable = static_cast<std::uint32_t>(choice_index(pipeline, linked.task.stage, linked.task.microbatch));
    const DeviceTask what{.variable = variable, .kind = linked.task.kind};
    tasks_.push_back({.what = what,
                      .is_sent = linked.send.count() != 0,
                      .before = place(linked.before),
                      .source = place(linked.source)});
    tasks_of_[linked.device].push_back(what);
  }
  ends_.resize(tasks_.size());
  for (std::size_t device = 0; device < pipeline.devices; ++device) {
    std::int64_t fixed = 0;
    std::vector<std::size_t>& here = variables_of_.emplace_back();
    for (std::size_t s = device; s < stages_; s += pipeline.devices) {
      fixed += pipeline.stages[StageId(s)].fixed_memory.count();
      for (std::size_t k = 0; k < classes_; ++k) here.push_back(s * classes_ + k);
    }
    fixed_.push_back(fixed);
  }
}

std::int64_t PipelineTiming::makespan(const ModesLeft& left) const {
  for (std::size_t variable = 0; variable < left.size(); ++variable) {
    std::array<std::int64_t, 3>& least = shortest_[variable];
    least = left[variable].front().lasts;
    for (const ModeAmounts& mode : left[variable]) {
      for (std::size_t kind = 0; kind < least.size(); ++kind) least[kind] = std::min(least[kind], mode.lasts[kind]);
    }
  }
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    std::int64_t start = task.before == kNone ? 0 : ends_[task.before];
    if (task.source != kNone) start = std::max(start, ends_[task.source] + (task.is_sent ? send_ : 0));
    ends_[i] = start + shortest_[task.what.variable][static_cast<std::size_t>(task.what.kind)];
    last = std::max(last, ends_[i]);
  }
  return last;
}

std::int64_t PipelineTiming::peak(std::size_t device, const ModesLeft& left) const {
  for (const std::size_t variable : variables_of_[device]) resident_[variable] = {};
  std::int64_t now = fixed_[device];
  std::int64_t most = now;
  for (const DeviceTask& task : tasks_of_[device]) {
    Resident& own = resident_[task.variable];
    const std::span<const ModeAmounts> modes = left[task.variable];
    const auto least = [&](const auto& beside) {
      const auto amount = [&](const ModeAmounts& mode) {
        return own.in_flight * mode.saved + own.waiting * mode.held + beside(mode);
      };
      std::int64_t smallest = amount(modes.front());
      for (const ModeAmounts& mode : modes) smallest = std::min(smallest, amount(mode));
      return smallest;
    };
    now -= own.least;
    if (task.kind == TaskKind::forward) ++own.in_flight;
    const auto kind = static_cast<std::size_t>(task.kind);
    most = std::max(most, now + least([&](const ModeAmounts& mode) { return mode.transient[kind]; }));
    if (task.kind == TaskKind::backward) {
      --own.in_flight;
      ++own.waiting;
    }
    if (task.kind == TaskKind::weight_gradient) --own.waiting;
    own.least = least([](const ModeAmounts&) { return 0; });
    now += own.least;
  }
  return most;
}

}  // namespace remora
