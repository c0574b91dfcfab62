// SPDX-License-Identifier: Apache-2.0
//
// A problem over several devices.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "model/devices/schedule.hpp"

namespace remora::devices {

/// A price that nothing has: there is no way.
inline constexpr std::int64_t kNoWay = std::numeric_limits<std::int64_t>::max();

struct Problem {
  /// By device; nothing where there is no limit.
  Table<DeviceId, std::optional<Bytes>> budget{};
  Objective objective = Objective::duration;
  /// Where copies overlap, `duration` is the time until the last step has ended.
  CopyMode copies = CopyMode::sequential;
  std::optional<Duration> duration_limit{};
  std::optional<Energy> energy_limit{};
  /// Maximum of an op's runs on all devices together; at least 1.
  int max_computes = 2;
  OrderMode order = OrderMode::input;
};

/// In the objective's unit.
inline std::int64_t price(const Problem& problem, Duration duration, Energy energy) {
  return problem.objective == Objective::duration ? duration.count() : energy.count();
}

/// How often the op may run, on all devices together.
int most_runs(const DeviceGraph& graph, const Problem& problem, OpId op);

bool reads(const Op& op, TensorId tensor);
bool writes(const Op& op, TensorId tensor);

/// Permanently resident memory on each device: its fixed memory and the inputs of the graph that are at home there.
Table<DeviceId, Bytes> base_memory(const DeviceGraph& graph);

/// True if an op may run first on a device.
using Allowed = std::function<bool(OpId, DeviceId)>;

/// Graph and problem, indexed. Both must outlive it.
class Instance {
 public:
  Instance(const DeviceGraph& graph, const Problem& problem);

  [[nodiscard]] const DeviceGraph& graph() const { return graph_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const Op& op(OpId v) const { return graph_.graph[v]; }
  [[nodiscard]] Bytes size(TensorId t) const { return graph_.graph[t].size; }
  [[nodiscard]] int op_count() const { return static_cast<int>(graph_.runs.size()); }
  [[nodiscard]] int device_count() const { return static_cast<int>(graph_.devices.size()); }
  /// The place of a tensor on a device, from 0.
  [[nodiscard]] std::size_t place(TensorId t, DeviceId d) const {
    return t.index() * graph_.devices.size() + d.index();
  }
  /// None for an input of the graph.
  [[nodiscard]] OpId producer(TensorId t) const { return producers_[t]; }
  [[nodiscard]] const std::vector<OpId>& readers(TensorId t) const { return readers_[t]; }
  [[nodiscard]] bool at_home(TensorId t, DeviceId d) const { return home_[place(t, d)]; }
  /// True if what an op writes must be there at the end.
  [[nodiscard]] bool kept_at(TensorId t, DeviceId d) const {
    const auto& home = graph_.places[t].home;
    return graph_.graph[t].keep && producers_[t].valid() && !home.empty() && home.front() == d;
  }
  [[nodiscard]] Bytes base(DeviceId d) const { return base_[d]; }
  [[nodiscard]] Bytes budget(DeviceId d) const { return problem_.budget[d].value_or(Bytes::max()); }
  /// Inputs, outputs and workspace beside what is always there, less what is taken over.
  [[nodiscard]] Bytes footprint(OpId v, const RunCost& run) const;
  [[nodiscard]] bool has_room(OpId v, const RunCost& run) const { return footprint(v, run) <= budget(run.device); }
  [[nodiscard]] int most_runs(OpId v) const { return most_runs_[v]; }
  /// In the objective's unit: the cheapest copy of the tensor to the device; a run of the op there; or kNoWay.
  [[nodiscard]] std::int64_t copy_price(TensorId t, DeviceId d) const { return copy_prices_[place(t, d)]; }
  [[nodiscard]] std::int64_t run_price(OpId v, DeviceId d) const {
    return run_prices_[v.index() * graph_.devices.size() + d.index()];
  }
  /// True if the tensor can be copied from the device.
  [[nodiscard]] bool leaves(TensorId t, DeviceId d) const { return leaves_[place(t, d)]; }
  /// Devices on which some op can run.
  [[nodiscard]] const std::vector<DeviceId>& computing() const { return computing_; }

 private:
  const DeviceGraph& graph_;
  const Problem& problem_;
  Table<TensorId, OpId> producers_;
  Table<TensorId, std::vector<OpId>> readers_;
  std::vector<bool> home_;
  Table<DeviceId, Bytes> base_;
  Table<OpId, int> most_runs_;
  std::vector<std::int64_t> copy_prices_;
  std::vector<std::int64_t> run_prices_;
  std::vector<bool> leaves_;
  std::vector<DeviceId> computing_;
};

}  // namespace remora::devices
