// SPDX-License-Identifier: Apache-2.0
#include "model/pipeline.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/error.hpp"

namespace remora {
namespace {

constexpr std::int64_t kMaxInAll = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxMicrobatches = 1 << 20;
/// A gigabyte, about, and seconds for each look at all of them.
constexpr std::size_t kMaxTasks = std::size_t{1} << 23U;

using Kind = PipelineTask::Kind;

std::string mode_path(StageId stage, std::size_t mode) {
  return "stages[" + std::to_string(stage) + "].modes[" + std::to_string(mode) + "]";
}

void expect_not_negative(std::int64_t amount, const std::string& path) {
  if (amount < 0) throw InputError(path, "must not be negative, but is " + std::to_string(amount));
}

/// The largest of its modes; what a stage can take at most.
void check_mode(const StageMode& mode, const std::string& path, Wide& longest, Wide& largest) {
  expect_not_negative(mode.forward.count(), path + ".forward");
  expect_not_negative(mode.backward.count(), path + ".backward");
  expect_not_negative(mode.weight_gradient.count(), path + ".weight_gradient");
  expect_not_negative(mode.saved.count(), path + ".saved");
  expect_not_negative(mode.held.count(), path + ".held");
  expect_not_negative(mode.forward_transient.count(), path + ".forward_transient");
  expect_not_negative(mode.backward_transient.count(), path + ".backward_transient");
  expect_not_negative(mode.weight_transient.count(), path + ".weight_transient");
  longest = std::max(longest, Wide{mode.forward.count()} + mode.backward.count() + mode.weight_gradient.count());
  const std::int64_t most =
      std::max({mode.forward_transient.count(), mode.backward_transient.count(), mode.weight_transient.count()});
  largest = std::max(largest, Wide{mode.saved.count()} + mode.held.count() + most);
}

/// Interleaved order: which microbatch and chunk the device's k-th forward (or, of chunks from the last, backward) is of.
std::pair<int, std::size_t> interleaved_at(int k, int devices, int chunks) {
  const int group = k / (devices * chunks);
  const int within = k % (devices * chunks);
  return {group * devices + within % devices, static_cast<std::size_t>(within / devices)};
}

class Orders {
 public:
  Orders(const Pipeline& pipeline, std::size_t device)
      : pipeline_(pipeline), device_(device), devices_(static_cast<int>(pipeline.devices)) {}

  std::vector<PipelineTask> run() {
    switch (pipeline_.order) {
      case PipelineOrder::gpipe:
        alternate(pipeline_.microbatches);
        break;
      case PipelineOrder::one_f_one_b:
        alternate(left_of_it());
        break;
      case PipelineOrder::interleaved:
        interleave();
        break;
      case PipelineOrder::zero_bubble:
        fill_bubbles();
        break;
    }
    return std::move(tasks_);
  }

 private:
  /// Devices behind it, and itself.
  [[nodiscard]] int left_of_it() const { return devices_ - static_cast<int>(device_); }

  void add(Kind kind, int microbatch, std::size_t chunk = 0) {
    tasks_.push_back({kind, StageId(chunk * pipeline_.devices + device_), microbatch});
  }

  /// So many forwards first, then a backward and a forward in turn.
  void alternate(int ahead) {
    const int all = pipeline_.microbatches;
    ahead = std::min(ahead, all);
    for (int i = 0; i < ahead; ++i) add(Kind::forward, i);
    for (int i = 0; i < all; ++i) {
      add(Kind::backward, i);
      if (ahead + i < all) add(Kind::forward, ahead + i);
    }
  }

  /// As Megatron-LM orders virtual stages: microbatches in groups as large as the number of devices, chunk by chunk.
  void interleave() {
    const int chunks = static_cast<int>(pipeline_.stages.size()) / devices_;
    const int all = pipeline_.microbatches * chunks;
    const int ahead = std::min(all, 2 * (left_of_it() - 1) + (chunks - 1) * devices_);
    const auto forward = [&](int k) {
      const auto [microbatch, chunk] = interleaved_at(k, devices_, chunks);
      add(Kind::forward, microbatch, chunk);
    };
    for (int i = 0; i < ahead; ++i) forward(i);
    for (int i = 0; i < all; ++i) {
      if (ahead + i < all) forward(ahead + i);
      const auto [microbatch, chunk] = interleaved_at(i, devices_, chunks);
      add(Kind::backward, microbatch, static_cast<std::size_t>(chunks) - 1 - chunk);
    }
  }

  /// ZB-H1: device d makes weight gradients d microbatches late, so that all devices have as many in flight as the first.
  void fill_bubbles() {
    const int all = pipeline_.microbatches;
    const int late = static_cast<int>(device_);
    int ahead = std::min(left_of_it(), all);
    for (int i = 0; i < ahead; ++i) add(Kind::forward, i);
    for (int i = 0; i < all; ++i) {
      add(Kind::backward, i);
      if (i >= late) add(Kind::weight_gradient, i - late);
      if (ahead < all) add(Kind::forward, ahead++);
    }
    for (int i = std::max(0, all - late); i < all; ++i) add(Kind::weight_gradient, i);
  }

  const Pipeline& pipeline_;
  std::size_t device_;
  int devices_;
  std::vector<PipelineTask> tasks_;
};

/// The task whose result this task reads; none for the first stage's forward task.
std::optional<PipelineTask> source_of(const Pipeline& pipeline, const PipelineTask& task) {
  const bool is_last = task.stage.index() + 1 == pipeline.stages.size();
  if (task.kind == Kind::weight_gradient) return PipelineTask{Kind::backward, task.stage, task.microbatch};
  if (task.kind == Kind::backward && is_last) return PipelineTask{Kind::forward, task.stage, task.microbatch};
  if (task.kind == Kind::backward) return PipelineTask{Kind::backward, StageId(task.stage + 1), task.microbatch};
  if (task.stage == 0) return std::nullopt;
  return PipelineTask{Kind::forward, StageId(task.stage - 1), task.microbatch};
}

Duration lasts(const Pipeline& pipeline, const StageMode& mode, Kind kind) {
  if (kind == Kind::forward) return mode.forward;
  if (kind == Kind::weight_gradient) return mode.weight_gradient;
  return pipeline.order == PipelineOrder::zero_bubble ? mode.backward : mode.backward + mode.weight_gradient;
}

/// The peak of a device with these tasks.
Bytes peak_of(const Pipeline& pipeline, const ModeChoice& choice, std::size_t device,
              const std::vector<TimedTask>& tasks) {
  Bytes now;
  for (std::size_t s = device; s < pipeline.stages.size(); s += pipeline.devices) {
    now += pipeline.stages[StageId(s)].fixed_memory;
  }
  Bytes most = now;
  for (const auto& [task, start, end] : tasks) {
    const StageMode& mode = mode_of(pipeline, choice, task);
    if (task.kind == Kind::forward) {
      now += mode.saved;
      most = std::max(most, now + mode.forward_transient);
    } else if (task.kind == Kind::backward) {
      most = std::max(most, now + backward_transient_of(mode, pipeline.order));
      now -= mode.saved;
      if (pipeline.order == PipelineOrder::zero_bubble) now += mode.held;
    } else {
      most = std::max(most, now + mode.weight_transient);
      now -= mode.held;
    }
  }
  return most;
}

}  // namespace

void validate(const Pipeline& pipeline) {
  if (pipeline.stages.empty()) throw InputError("stages", "must have at least one stage");
  if (pipeline.devices == 0 || pipeline.stages.size() % pipeline.devices != 0) {
    throw InputError("devices", std::to_string(pipeline.devices) + " do not divide the " +
                                    std::to_string(pipeline.stages.size()) + " stages");
  }
  const bool interleaved = pipeline.order == PipelineOrder::interleaved;
  if (!interleaved && pipeline.stages.size() != pipeline.devices) {
    throw InputError("devices", "only an interleaved pipeline has several stages on a device");
  }
  if (pipeline.microbatches < 1 || pipeline.microbatches > kMaxMicrobatches) {
    throw InputError("microbatches", "must be from 1 to 2^20, not " + std::to_string(pipeline.microbatches));
  }
  if (interleaved && static_cast<std::size_t>(pipeline.microbatches) % pipeline.devices != 0) {
    throw InputError("microbatches", "of an interleaved pipeline must be a multiple of the devices");
  }
  const std::size_t kinds = pipeline.order == PipelineOrder::zero_bubble ? 3 : 2;
  if (const Wide tasks = Wide{pipeline.microbatches} * pipeline.stages.size() * kinds; tasks > kMaxTasks) {
    throw InputError("microbatches", std::to_string(pipeline.microbatches) + " through " +
                                         std::to_string(pipeline.stages.size()) +
                                         " stages are more than 2^23 tasks, the most that can be planned");
  }
  if (pipeline.classes < 1 || pipeline.classes > pipeline.microbatches) {
    throw InputError("classes",
                     "must be from 1 to the number of microbatches, not " + std::to_string(pipeline.classes));
  }
  if (pipeline.budget.size() != pipeline.devices) throw InputError("budget", "needs an entry for each device");
  expect_not_negative(pipeline.send.count(), "send");
  Wide bytes = 0;
  Wide time = 0;
  for (const StageId s : pipeline.stages.ids()) {
    const PipelineStage& stage = pipeline.stages[s];
    const std::string path = "stages[" + std::to_string(s) + "]";
    if (stage.modes.empty()) throw InputError(path + ".modes", "must have at least one");
    expect_not_negative(stage.fixed_memory.count(), path + ".fixed_memory");
    Wide longest = 0;
    Wide largest = 0;
    for (std::size_t i = 0; i < stage.modes.size(); ++i) check_mode(stage.modes[i], mode_path(s, i), longest, largest);
    bytes += stage.fixed_memory.count() + largest * pipeline.microbatches;
    time += (longest + 2 * Wide{pipeline.send.count()}) * pipeline.microbatches;
    if (bytes > kMaxInAll || time > kMaxInAll) throw InputError(path, "all microbatches together exceed 64 bits");
  }
}

std::size_t choice_index(const Pipeline& pipeline, StageId stage, int microbatch) {
  const auto classes = static_cast<std::size_t>(pipeline.classes);
  return stage.index() * classes + static_cast<std::size_t>(microbatch) % classes;
}

Bytes backward_transient_of(const StageMode& mode, PipelineOrder order) {
  if (order == PipelineOrder::zero_bubble) return mode.backward_transient;
  return std::max(mode.backward_transient, mode.weight_transient);
}

const StageMode& mode_of(const Pipeline& pipeline, const ModeChoice& choice, const PipelineTask& task) {
  const int mode = choice[choice_index(pipeline, task.stage, task.microbatch)];
  return pipeline.stages[task.stage].modes[static_cast<std::size_t>(mode)];
}

std::vector<PipelineTask> tasks_of(const Pipeline& pipeline, std::size_t device) {
  return Orders(pipeline, device).run();
}

std::vector<LinkedTask> linked_tasks(const Pipeline& pipeline) {
  std::vector<LinkedTask> linked;
  // By kind, stage and microbatch: where in the list it stands.
  constexpr auto kNotYet = static_cast<std::size_t>(-1);
  const std::size_t count = pipeline.stages.size() * static_cast<std::size_t>(pipeline.microbatches);
  std::vector<std::size_t> places(3 * count, kNotYet);
  const auto place_of = [&](const PipelineTask& task) -> std::size_t& {
    const std::size_t row = task.stage.index() * static_cast<std::size_t>(pipeline.microbatches);
    return places[static_cast<std::size_t>(task.kind) * count + row + static_cast<std::size_t>(task.microbatch)];
  };
  std::vector<std::vector<PipelineTask>> orders;
  for (std::size_t device = 0; device < pipeline.devices; ++device) orders.push_back(tasks_of(pipeline, device));
  std::vector<std::size_t> next(pipeline.devices, 0);
  std::vector<std::optional<std::size_t>> last(pipeline.devices);
  const auto add = [&](std::size_t device) {
    const PipelineTask& task = orders[device][next[device]];
    LinkedTask added{.task = task, .device = device, .before = last[device]};
    if (const auto source = source_of(pipeline, task)) {
      const std::size_t place = place_of(*source);
      if (place == kNotYet) return false;
      added.source = place;
      if (source->stage != task.stage) added.send = pipeline.send;
    }
    place_of(task) = linked.size();
    last[device] = linked.size();
    linked.push_back(added);
    ++next[device];
    return true;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t device = 0; device < pipeline.devices; ++device) {
      while (next[device] < orders[device].size() && add(device)) goes_on = true;
    }
  }
  for (std::size_t device = 0; device < pipeline.devices; ++device) {
    ensure(next[device] == orders[device].size(), "pipeline: an order that waits for itself");
  }
  return linked;
}

PipelineRun replay(const Pipeline& pipeline, const ModeChoice& choice) {
  PipelineRun run{.tasks = std::vector<std::vector<TimedTask>>(pipeline.devices)};
  std::vector<Duration> ends;
  for (const LinkedTask& linked : linked_tasks(pipeline)) {
    Duration start;
    if (linked.before) start = ends[*linked.before];
    if (linked.source) start = std::max(start, ends[*linked.source] + linked.send);
    ends.push_back(start + lasts(pipeline, mode_of(pipeline, choice, linked.task), linked.task.kind));
    run.tasks[linked.device].push_back({linked.task, start, ends.back()});
    run.makespan = std::max(run.makespan, ends.back());
  }
  for (std::size_t device = 0; device < pipeline.devices; ++device) {
    run.peak.push_back(peak_of(pipeline, choice, device, run.tasks[device]));
  }
  return run;
}

}  // namespace remora
