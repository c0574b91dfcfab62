// SPDX-License-Identifier: Apache-2.0
//
// Random problems over several devices, small enough for brute force.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/devices/plan.hpp"

namespace remora::test {

inline int draw(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

inline bool chance(std::mt19937& random, int percent) {
  return draw(random, 0, 99) < percent;
}

inline std::vector<RunCost> draw_runs(std::mt19937& random, int devices) {
  std::vector<RunCost> runs;
  for (int d = 0; d < devices; ++d) {
    if (!chance(random, 60)) continue;
    const Bytes workspace(chance(random, 20) ? draw(random, 1, 3) : 0);
    runs.push_back({DeviceId(d), Duration(draw(random, 0, 9)), workspace, Energy(draw(random, 0, 9))});
  }
  if (runs.empty()) runs.push_back({DeviceId(draw(random, 0, devices - 1)), Duration(draw(random, 1, 9))});
  return runs;
}

/// Everything that the format can say, over `devices` devices.
inline DeviceGraph random_device_graph(std::mt19937& random, int devices, int most_ops) {
  DeviceGraph graph;
  graph.graph.name = "random";
  if (chance(random, 50)) graph.graph.recompute_allocates = Allocation::all;
  for (int d = 0; d < devices; ++d) {
    graph.devices.push_back({.name = "d" + std::to_string(d), .fixed_memory = Bytes(chance(random, 20) ? 2 : 0)});
    for (int e = 0; e < devices; ++e) {
      if (d == e || chance(random, 8)) continue;
      graph.links.push_back({.from = DeviceId(d),
                             .to = DeviceId(e),
                             .latency = Duration(draw(random, 0, 2)),
                             .bytes = Bytes(draw(random, 1, 3)),
                             .per = Duration(draw(random, 0, 2)),
                             .energy = Energy(draw(random, 0, 4))});
    }
  }
  std::vector<TensorId> available;
  const auto add_tensor = [&](const std::string& name, bool keep) {
    const TensorId t = graph.graph.add_tensor(name, Bytes(draw(random, 0, 5)), keep);
    graph.places.push_back({});
    if (!graph.links.empty() && chance(random, 10)) {
      const Link& link = graph.links[random() % graph.links.size()];
      graph.places[t].copies.push_back({link.from, link.to, {Duration(draw(random, 0, 4)), Energy(1)}});
    }
    return t;
  };
  if (chance(random, 50)) {
    available.push_back(add_tensor("x", false));
    graph.places[available.back()].home.push_back(DeviceId(draw(random, 0, devices - 1)));
  }
  const int ops = draw(random, 1, most_ops);
  for (int v = 0; v < ops; ++v) {
    Op op{.name = "op" + std::to_string(v)};
    for (int i = draw(random, 0, 2); i > 0 && !available.empty(); --i) {
      op.inputs.push_back(available[random() % available.size()]);
    }
    op.recompute = !chance(random, 10);
    if (v > 0 && chance(random, 10)) op.after.emplace_back(draw(random, 0, v - 1));
    const int outputs = chance(random, 15) && devices < 3 ? 2 : 1;
    for (int i = 0; i < outputs; ++i) {
      op.outputs.push_back(add_tensor("t" + std::to_string(v) + "_" + std::to_string(i), chance(random, 20)));
      const bool at_home = graph.graph[op.outputs.back()].keep && chance(random, 50);
      if (at_home) graph.places[op.outputs.back()].home.push_back(DeviceId(draw(random, 0, devices - 1)));
    }
    if (!op.inputs.empty() && chance(random, 40)) op.in_place = {{op.outputs.front(), op.inputs.front()}};
    available.insert(available.end(), op.outputs.begin(), op.outputs.end());
    graph.graph.add_op(std::move(op));
    graph.runs.push_back(draw_runs(random, devices));
  }
  validate(graph);
  return graph;
}

inline devices::Problem draw_problem(std::mt19937& random, const DeviceGraph& graph, OrderMode order) {
  devices::Problem problem{.objective = chance(random, 30) ? Objective::energy : Objective::duration,
                           .max_computes = draw(random, 1, 2),
                           .order = order};
  for (const Bytes base : devices::base_memory(graph)) {
    problem.budget.push_back(std::nullopt);
    if (chance(random, 75)) problem.budget[DeviceId(problem.budget.size() - 1)] = base + Bytes(draw(random, 5, 20));
    if (problem.budget[DeviceId(problem.budget.size() - 1)] < Bytes(0))
      problem.budget[DeviceId(problem.budget.size() - 1)] = Bytes(0);
  }
  return problem;
}

/// Puts the ops of each device on lanes, up to so many.
inline void draw_lanes(std::mt19937& random, DeviceGraph& graph, int most) {
  for (Device& device : graph.devices) {
    for (int lane = draw(random, 2, most); lane > 0; --lane) device.lanes.push_back("lane" + std::to_string(lane));
  }
  for (auto& runs : graph.runs) {
    for (RunCost& run : runs) {
      run.lane = LaneId(draw(random, 0, static_cast<int>(graph.devices[run.device].lanes.size()) - 1));
    }
  }
  validate(graph);
}

/// Some limits on duration and energy.
inline void draw_limits(std::mt19937& random, const DeviceGraph& graph, devices::Problem& problem) {
  const int ops = static_cast<int>(graph.runs.size());
  if (chance(random, 20)) problem.duration_limit = Duration(draw(random, 2 * ops, 12 * ops));
  if (chance(random, 20)) problem.energy_limit = Energy(draw(random, 2 * ops, 10 * ops));
}

}  // namespace remora::test
