// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/problem.hpp"

#include <algorithm>

namespace remora::devices {

bool reads(const Op& op, TensorId tensor) {
  return std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
}

bool writes(const Op& op, TensorId tensor) {
  return std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
}

int most_runs(const DeviceGraph& graph, const Problem& problem, OpId op) {
  const Op& of = graph.graph[op];
  return of.recompute ? std::min(of.max_computes.value_or(problem.max_computes), problem.max_computes) : 1;
}

Table<DeviceId, Bytes> base_memory(const DeviceGraph& graph) {
  Table<DeviceId, Bytes> base;
  for (const Device& device : graph.devices) base.push_back(device.fixed_memory);
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  for (const TensorId t : graph.places.ids()) {
    if (produced[t]) continue;
    for (const DeviceId d : graph.places[t].home) base[d] += graph.graph[t].size;
  }
  return base;
}

Instance::Instance(const DeviceGraph& graph, const Problem& problem)
    : graph_(graph),
      problem_(problem),
      producers_(graph.graph.tensors.size()),
      readers_(graph.graph.tensors.size()),
      home_(graph.graph.tensors.size() * graph.devices.size(), false),
      base_(base_memory(graph)),
      copy_prices_(home_.size(), kNoWay),
      run_prices_(graph.runs.size() * graph.devices.size(), kNoWay),
      leaves_(home_.size(), false) {
  Table<DeviceId, bool> computes(graph.devices.size(), false);
  for (const OpId v : graph.runs.ids()) {
    for (const TensorId t : op(v).outputs) producers_[t] = v;
    for (const TensorId t : op(v).inputs) {
      if (readers_[t].empty() || readers_[t].back() != v) readers_[t].push_back(v);
    }
    most_runs_.push_back(devices::most_runs(graph, problem, v));
    for (const RunCost& run : graph.runs[v]) {
      run_prices_[v.index() * graph.devices.size() + run.device.index()] = price(problem, run.duration, run.energy);
      computes[run.device] = true;
    }
  }
  for (const DeviceId d : computes.ids()) {
    if (computes[d]) computing_.push_back(d);
  }
  for (const TensorId t : graph.places.ids()) {
    for (const Link& link : graph.links) {
      const CopyCost cost = *copy_cost(graph, t, link.from, link.to);
      std::int64_t& least = copy_prices_[place(t, link.to)];
      least = std::min(least, price(problem, cost.duration, cost.energy));
      leaves_[place(t, link.from)] = true;
    }
    if (producers_[t].valid()) continue;
    for (const DeviceId d : graph.places[t].home) home_[place(t, d)] = true;
  }
}

Bytes Instance::footprint(OpId v, const RunCost& run) const {
  Bytes needed = base(run.device) + run.workspace;
  std::vector<TensorId> inputs = op(v).inputs;
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  for (const TensorId t : inputs) needed += at_home(t, run.device) ? Bytes(0) : size(t);
  for (const TensorId t : op(v).outputs) needed += size(t);
  for (const InPlace& pair : op(v).in_place) {
    if (producer(pair.input).valid()) needed -= std::min(size(pair.output), size(pair.input));
  }
  return needed;
}

}  // namespace remora::devices
