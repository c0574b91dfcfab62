// SPDX-License-Identifier: Apache-2.0
//
// What both oracles over several devices (device_oracle.hpp) go by: which runs and copies are possible, and when all is done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/devices/plan.hpp"
#include "model/error.hpp"

namespace remora::test {

/// What is the case after some steps: what is resident where, how often each op ran, in the staged form the stage and its latest recompute.
struct DeviceSituation {
  std::uint32_t resident = 0;
  std::uint32_t counts = 0;
  std::uint32_t stage = 0;
  std::uint32_t last = 0;

  friend auto operator<=>(const DeviceSituation&, const DeviceSituation&) = default;
  [[nodiscard]] unsigned count(std::size_t op) const { return counts >> (2 * op) & 3U; }
};

class DeviceRules {
 protected:
  DeviceRules(const DeviceGraph& graph, const devices::Problem& problem)
      : graph_(graph), problem_(problem), produced_(produced_tensors(graph.graph)), devices_(graph.devices.size()) {
    ensure(graph.graph.ops.size() <= 7 && graph.graph.tensors.size() * devices_ <= 27 && problem.max_computes <= 3,
           "oracle: the graph is too large");
    for (const Op& op : graph.graph.ops) {
      const int most = op.recompute ? op.max_computes.value_or(problem.max_computes) : 1;
      most_.push_back(static_cast<unsigned>(std::min(most, problem.max_computes)));
    }
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) home_ |= bit(t, d);
    }
  }

  [[nodiscard]] std::size_t place(TensorId t, DeviceId d) const { return t.index() * devices_ + d.index(); }
  [[nodiscard]] std::uint32_t bit(TensorId t, DeviceId d) const { return 1U << place(t, d); }
  [[nodiscard]] Bytes size(TensorId t) const { return graph_.graph[t].size; }
  /// Recomputes of a stage ascend by it.
  [[nodiscard]] std::uint32_t rank(OpId v, DeviceId d) const {
    return static_cast<std::uint32_t>(v.index() * devices_ + d.index() + 1);
  }

  [[nodiscard]] bool may_run(const DeviceSituation& now, OpId v, DeviceId d) const {
    if (now.count(v.index()) >= most_[v.index()]) return false;
    const Op& op = graph_.graph[v];
    for (const TensorId t : op.inputs) {
      if ((now.resident & bit(t, d)) == 0) return false;
    }
    for (const OpId earlier : op.after) {
      if (now.count(earlier.index()) == 0) return false;
    }
    if (problem_.order == OrderMode::free) return true;
    if (now.count(v.index()) == 0) return v.index() == now.stage;
    return rank(v, d) > now.last;
  }

  [[nodiscard]] bool may_copy(const DeviceSituation& now, TensorId t, const Link& link) const {
    return (now.resident & bit(t, link.from)) != 0 && (now.resident & bit(t, link.to)) == 0;
  }

  /// The op has run: its outputs are there. Nothing is released yet.
  void count_run(DeviceSituation& now, OpId v, DeviceId d) const {
    if (problem_.order == OrderMode::input) {
      const bool first = now.count(v.index()) == 0;
      now.last = first ? 0 : rank(v, d);
      now.stage += first ? 1 : 0;
    }
    now.counts += 1U << (2 * v.index());
    for (const TensorId t : graph_.graph[v].outputs) now.resident |= bit(t, d);
  }

  [[nodiscard]] bool finished(const DeviceSituation& now) const {
    for (std::size_t v = 0; v < most_.size(); ++v) {
      if (now.count(v) == 0) return false;
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!graph_.graph[t].keep || !produced_[t]) continue;
      std::uint32_t where = 0;
      for (const DeviceId d : graph_.devices.ids()) {
        const auto& home = graph_.places[t].home;
        if (home.empty() || home.front() == d) where |= bit(t, d);
      }
      if ((now.resident & where) == 0) return false;
    }
    return true;
  }

  const DeviceGraph& graph_;
  const devices::Problem& problem_;
  Table<TensorId, bool> produced_;
  std::size_t devices_;
  std::vector<unsigned> most_;
  /// What is resident from the start, throughout.
  std::uint32_t home_ = 0;
};

}  // namespace remora::test
