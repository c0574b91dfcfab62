// SPDX-License-Identifier: Apache-2.0
#include "model/schedule_buffers.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "model/error.hpp"

namespace remora {
namespace {

/// Follows the written steps.
class BufferReplay {
 public:
  BufferReplay(const Graph& graph, const Schedule& schedule, Bytes alignment)
      : graph_(graph),
        schedule_(schedule),
        alignment_(alignment),
        resident_since_(graph.tensors.size(), kInput),
        residences_(graph.tensors.size(), 0),
        computes_(graph.ops.size(), 0) {}

  ScheduleBuffers run() {
    const auto end = static_cast<int>(schedule_.steps.size());
    for (const Op& op : graph_.ops) {
      for (const TensorId t : op.outputs) resident_since_[t.index()] = kAbsent;
    }
    for (int step = 0; step < end; ++step) run_step(step);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (resident_since_[t] != kAbsent) close(TensorId(t), end);
    }
    return sorted();
  }

 private:
  static constexpr int kInput = -1;
  static constexpr int kAbsent = -2;

  void run_step(int step) {
    const Step& written = schedule_.steps[static_cast<std::size_t>(step)];
    const Op& op = graph_[written.op];
    for (const TensorId t : op.outputs) {
      // The older copy lasts until the step is over.
      if (resident_since_[t.index()] != kAbsent && graph_.recompute_allocates == Allocation::all) close(t, step + 1);
      if (resident_since_[t.index()] == kAbsent) resident_since_[t.index()] = step;
    }
    const int compute = computes_[written.op.index()]++;
    add(op.name + "#" + std::to_string(compute) + " workspace", {step, TensorId()}, step + 1, op.workspace);
    for (const TensorId t : written.free) close(t, step + 1);
  }

  /// The tensor's residence ends before `end`.
  void close(TensorId t, int end) {
    const int first = std::exchange(resident_since_[t.index()], kAbsent);
    add(graph_[t].name + "#" + std::to_string(residences_[t.index()]++), {first, t}, end, graph_[t].size);
  }

  void add(std::string id, Holder holder, int end, Bytes size) {
    const int first = std::max(holder.step, 0);
    if (size == Bytes() || first == end) return;
    found_.buffers.push_back({.id = std::move(id), .lifespan = {first, end}, .size = size, .alignment = alignment_});
    found_.holders.push_back(holder);
  }

  ScheduleBuffers sorted() {
    std::vector<std::size_t> order(found_.buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return found_.buffers[a].lifespan.lower < found_.buffers[b].lifespan.lower;
    });
    ScheduleBuffers result;
    for (const std::size_t i : order) {
      result.buffers.push_back(std::move(found_.buffers[i]));
      result.holders.push_back(found_.holders[i]);
    }
    return result;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  Bytes alignment_;
  /// Of every tensor the step that allocated it, kInput, or kAbsent.
  std::vector<int> resident_since_;
  std::vector<int> residences_;
  std::vector<int> computes_;
  ScheduleBuffers found_;
};

}  // namespace

ScheduleBuffers buffers_of(const Graph& graph, const Schedule& schedule, Bytes alignment) {
  return BufferReplay(graph, schedule, alignment).run();
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
