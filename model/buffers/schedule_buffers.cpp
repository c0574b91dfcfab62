// SPDX-License-Identifier: Apache-2.0
#include "model/buffers/schedule_buffers.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "model/error.hpp"

namespace remora {
namespace {

/// Follows the written steps. Where they overlap, memory comes back at a time: it is there for the first step from then on that takes
/// memory on the device, which these do in the order of the schedule.
class BufferReplay {
 public:
  /// `devices`: null of a schedule for one.
  BufferReplay(const Graph& graph, const DeviceGraph* devices, const DeviceSchedule& schedule, Bytes alignment)
      : graph_(graph),
        devices_(devices),
        steps_(schedule.steps),
        alignment_(alignment),
        takers_(devices == nullptr ? 1 : devices->devices.size()),
        stays_(graph.tensors.size() * takers_.size()),
        sizes_(graph.tensors.size()),
        residences_(graph.tensors.size(), 0),
        computes_(graph.ops.size(), 0),
        found_(takers_.size()) {
    for (const TensorId t : sizes_.ids()) sizes_[t] = graph[t].size;
    for (std::size_t i = 0; i < steps_.size(); ++i) takers_[place_of(steps_[i])].push_back(static_cast<int>(i));
    if (schedule.copies == CopyMode::overlap) times_ = overlapped(*devices, steps_, schedule.budget).steps;
  }

  /// By device.
  std::vector<ScheduleBuffers> run() {
    const Table<TensorId, bool> produced = produced_tensors(graph_);
    for (const TensorId t : produced.ids()) {
      if (produced[t]) continue;
      if (devices_ == nullptr) stay(t, DeviceId(0)).since = kInput;
      if (devices_ == nullptr) continue;
      for (const DeviceId d : devices_->places[t].home) stay(t, d).since = kInput;
    }
    const int end = static_cast<int>(steps_.size());
    for (int step = 0; step < end; ++step) run_step(step);
    for (const TensorId t : produced.ids()) {
      for (const DeviceId d : takers_.ids()) {
        if (stay(t, d).since != kAbsent) close(t, d, end);
      }
    }
    for (ScheduleBuffers& buffers : found_) sort(buffers);
    return std::move(found_);
  }

 private:
  static constexpr int kInput = -1;
  static constexpr int kAbsent = -2;

  struct Stay {
    /// The step that allocated it, kInput, or kAbsent.
    int since = kAbsent;
    Duration read_until{};
  };

  Stay& stay(TensorId t, DeviceId d) { return stays_[t.index() * found_.size() + d.index()]; }
  static DeviceId place_of(const DeviceStep& step) { return step.is_copy() ? step.to : step.device; }

  /// A tensor that no step reads occupies memory until it is computed.
  void begin(TensorId t, DeviceId d, int step) {
    stay(t, d).since = step;
    read(t, d, step);
  }

  void read(TensorId t, DeviceId d, int step) {
    if (times_.empty()) return;
    Duration& until = stay(t, d).read_until;
    until = std::max(until, times_[at(step)].end);
  }

  void run_step(int i) {
    const DeviceStep& step = steps_[at(i)];
    if (step.is_copy()) {
      read(step.copied, step.device, i);
      begin(step.copied, step.to, i);
    } else {
      const Op& op = graph_[step.op];
      for (const TensorId t : op.inputs) read(t, step.device, i);
      const std::optional<Mode> mode = op.modes ? std::optional(mode_of(graph_, step.op, step.mode)) : std::nullopt;
      for (std::size_t o = 0; o < op.outputs.size(); ++o) {
        const TensorId t = op.outputs[o];
        const Bytes size = mode ? mode->output_sizes[o] : graph_[t].size;
        // The older one lasts until the step is over.
        const bool is_anew = graph_.recompute_allocates == Allocation::all || size != sizes_[t];
        if (stay(t, step.device).since != kAbsent && is_anew) release(t, step.device, i);
        sizes_[t] = size;
        if (stay(t, step.device).since == kAbsent) begin(t, step.device, i);
      }
      add(op.name + "#" + std::to_string(computes_[step.op.index()]++) + " workspace", step.device, {i, TensorId()},
          end_of(i, step.device, Duration()), mode ? workspace_of(*mode) : workspace_of(step));
    }
    for (const auto& [tensor, device] : step.free) release(tensor, device, i);
  }

  [[nodiscard]] Bytes workspace_of(const DeviceStep& step) const {
    return devices_ == nullptr ? graph_[step.op].workspace : run_cost(*devices_, step.op, step.device)->workspace;
  }

  /// Of inner peaks the highest, as if nothing were released before.
  static Bytes workspace_of(const Mode& mode) {
    if (mode.inner.empty()) return mode.workspace;
    return std::max(Bytes(0), highest_peak(std::span(mode.inner), [](TensorId) { return Bytes(0); }));
  }

  /// The first step that may use what comes back at `time`, but not before `step` has ended.
  [[nodiscard]] int end_of(int step, DeviceId device, Duration time) const {
    const std::vector<int>& takers = takers_[device];
    auto next = std::upper_bound(takers.begin(), takers.end(), step);
    if (!times_.empty()) {
      time = std::max(time, times_[at(step)].end);
      next = std::partition_point(next, takers.end(), [&](int taker) { return times_[at(taker)].start < time; });
    }
    return next == takers.end() ? static_cast<int>(steps_.size()) : *next;
  }

  void release(TensorId t, DeviceId d, int step) { close(t, d, end_of(step, d, stay(t, d).read_until)); }

  /// The tensor's residence ends before `end`.
  void close(TensorId t, DeviceId d, int end) {
    const Holder holder{std::exchange(stay(t, d), {}).since, t};
    const Tensor& tensor = graph_[t];
    add(tensor.name + "#" + std::to_string(residences_[t.index()]++), d, holder, end, sizes_[t]);
  }

  void add(std::string id, DeviceId device, Holder holder, int end, Bytes size) {
    const int first = std::max(holder.step, 0);
    if (size == Bytes() || first == end) return;
    ScheduleBuffers& here = found_[device.index()];
    here.buffers.push_back({.id = std::move(id), .lifespan = {first, end}, .size = size, .alignment = alignment_});
    here.holders.push_back(holder);
  }

  static void sort(ScheduleBuffers& found) {
    std::vector<std::size_t> order(found.buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return found.buffers[a].lifespan.lower < found.buffers[b].lifespan.lower;
    });
    ScheduleBuffers result;
    for (const std::size_t i : order) {
      result.buffers.push_back(std::move(found.buffers[i]));
      result.holders.push_back(found.holders[i]);
    }
    found = std::move(result);
  }

  const Graph& graph_;
  const DeviceGraph* devices_;
  const std::vector<DeviceStep>& steps_;
  Bytes alignment_;
  /// By device: the steps that take memory there.
  Table<DeviceId, std::vector<int>> takers_;
  /// Where steps overlap.
  std::vector<StepTime> times_{};
  /// By tensor and device.
  std::vector<Stay> stays_;
  /// Of the latest copies.
  Table<TensorId, Bytes> sizes_;
  std::vector<int> residences_;
  std::vector<int> computes_;
  std::vector<ScheduleBuffers> found_;
};

}  // namespace

ScheduleBuffers buffers_of(const Graph& graph, const Schedule& schedule, Bytes alignment) {
  const DeviceSchedule steps{.steps = on_one_device(schedule.steps)};
  return BufferReplay(graph, nullptr, steps, alignment).run().front();
}

std::vector<ScheduleBuffers> buffers_of(const DeviceGraph& graph, const DeviceSchedule& schedule, Bytes alignment) {
  return BufferReplay(graph.graph, &graph, schedule, alignment).run();
}

Arena make_arena(const Schedule& schedule, const ScheduleBuffers& buffers, std::span<const Bytes> offsets,
                 Bytes alignment) {
  Arena arena{.alignment = alignment, .size = arena_of(buffers.buffers, offsets)};
  arena.steps.resize(schedule.steps.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Holder& holder = buffers.holders[i];
    if (holder.step < 0) {
      arena.inputs.emplace_back(holder.tensor, offsets[i]);
      continue;
    }
    Arena::Allocations& step = arena.steps[static_cast<std::size_t>(holder.step)];
    if (holder.tensor.valid()) {
      step.outputs.emplace_back(holder.tensor, offsets[i]);
    } else {
      step.workspace = offsets[i];
    }
  }
  return arena;
}

std::vector<Bytes> offsets_in(const Arena& arena, const ScheduleBuffers& buffers) {
  std::vector<Bytes> offsets;
  offsets.reserve(buffers.buffers.size());
  for (const Holder& holder : buffers.holders) {
    const bool is_input = holder.step < 0;
    const Arena::Allocations* const step = is_input ? nullptr : &arena.steps.at(static_cast<std::size_t>(holder.step));
    if (!holder.tensor.valid()) {
      offsets.push_back(step->workspace.value());
      continue;
    }
    const Arena::Offsets& given = is_input ? arena.inputs : step->outputs;
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& entry) { return entry.first == holder.tensor; });
    ensure(found != given.end(), "arena: an allocation has no offset");
    offsets.push_back(found->second);
  }
  return offsets;
}

}  // namespace remora
