// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/device_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "frontends/formats/document.hpp"
#include "frontends/machine/machine_json.hpp"
#include "frontends/onnx/read/cost.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

constexpr double kNanoseconds = 1e9;

/// Rounded up, within 62 bits.
std::int64_t whole(double amount) {
  constexpr double kMaximum = 4e18;
  return static_cast<std::int64_t>(std::min(std::ceil(amount), kMaximum));
}

Energy energy_of(double power, Duration duration) {
  return Energy(whole(power * static_cast<double>(duration.count())));
}

Link link_of(DeviceId from, DeviceId to, double bandwidth, double latency) {
  const std::int64_t bytes = whole(bandwidth);
  const auto per = static_cast<std::int64_t>(kNanoseconds);
  const std::int64_t common = std::gcd(bytes, per);
  return {.from = from,
          .to = to,
          .latency = Duration(whole(latency * kNanoseconds)),
          .bytes = Bytes(bytes / common),
          .per = Duration(per / common)};
}

/// Weights that ops read, as inputs of the graph.
class MovedWeights {
 public:
  MovedWeights(const LoweredModel& model, DeviceId home, DeviceGraph& graph)
      : model_(model), home_(home), graph_(graph) {}

  /// Their sum.
  Bytes add() {
    for (std::size_t v = 0; v < model_.op_nodes.size(); ++v) {
      Op& op = graph_.graph[OpId(v)];
      for (const ValueId input : model_.network.nodes[model_.op_nodes[v]].inputs) {
        if (!input.valid()) continue;
        const ValueId value = model_.network.storage(input);
        if (model_.network.values[value].kind != ValueKind::parameter) continue;
        const TensorId t = tensor_of(value);
        if (std::find(op.inputs.begin(), op.inputs.end(), t) == op.inputs.end()) op.inputs.push_back(t);
      }
    }
    return sum_;
  }

 private:
  TensorId tensor_of(ValueId value) {
    const auto found = tensors_.find(value);
    if (found != tensors_.end()) return found->second;
    const Value& weight = model_.network.values[value];
    std::string name = weight.name;
    while (has_tensor(name)) name += "_weight";
    const Bytes size = byte_size(weight.shape, weight.type);
    const TensorId t = graph_.graph.add_tensor(name, size);
    graph_.places.push_back({.home = {home_}});
    sum_ += size;
    return tensors_.emplace(value, t).first->second;
  }

  [[nodiscard]] bool has_tensor(const std::string& name) const {
    return std::any_of(graph_.graph.tensors.begin(), graph_.graph.tensors.end(),
                       [&](const Tensor& tensor) { return tensor.name == name; });
  }

  const LoweredModel& model_;
  DeviceId home_;
  DeviceGraph& graph_;
  std::map<ValueId, TensorId> tensors_;
  Bytes sum_{};
};

/// Energy that was measured goes before what the power says.
void add_runs(DeviceGraph& graph, const Graph& lowered, DeviceId device, const DeviceModel& model) {
  for (const OpId v : graph.runs.ids()) {
    const Op& op = lowered[v];
    graph.runs[v].push_back({device, op.duration, op.workspace, energy_of(model.machine.power, op.duration)});
  }
  if (!model.costs) return;
  const interchange::CostNames names = interchange::cost_names(lowered);
  for (const interchange::OpCost& row : model.costs->rows) {
    const auto found = names.find(row.name);
    if (!row.energy || found == names.end() || !found->second.valid()) continue;
    graph.runs[found->second].back().energy = Energy(*row.energy);
  }
}

/// The model's meta for one device, combined for all.
std::string meta_of(const std::string& meta, const std::vector<DeviceModel>& devices) {
  auto object = json::parse(meta);
  object.erase("device");
  for (const DeviceModel& model : devices) {
    nlohmann::ordered_json& entry = object["devices"][model.name];
    if (model.store) {
      entry = "store";
    } else if (model.costs) {
      entry = {{"costs", model.costs->source}};
    } else {
      entry = machine_document(model.machine, true);
    }
  }
  return json::dump(object);
}

/// Links say energy by the copy, not by the byte: where it is known, each tensor has its own.
void add_links(DeviceGraph& graph, const std::vector<JoinedLink>& links) {
  const auto add = [&](DeviceId from, DeviceId to, double bandwidth, const LinkModel& model) {
    graph.links.push_back(link_of(from, to, bandwidth, model.latency));
    if (model.power <= 0) return;
    for (const TensorId t : graph.places.ids()) {
      const Duration duration = copy_cost(graph, t, from, to)->duration;
      graph.places[t].copies.push_back({from, to, {duration, energy_of(model.power, duration)}});
    }
  };
  for (const auto& [first, second, model] : links) {
    add(first, second, model.bandwidth, model);
    add(second, first, model.bandwidth_back, model);
  }
}

}  // namespace

DeviceOnnxResult read_onnx(std::string_view content, const std::string& source, const OnnxOptions& options,
                           const DevicesRequest& request) {
  DeviceOnnxResult result;
  DeviceGraph& graph = result.graph;
  for (const DeviceModel& device : request.devices) graph.devices.push_back({.name = device.name});
  Bytes fixed;
  for (const DeviceId d : graph.devices.ids()) {
    const DeviceModel& device = request.devices[d.index()];
    if (device.store) continue;
    OnnxOptions own = options;
    own.machine = device.machine;
    own.costs = device.costs;
    const LoweredModel model = lower_onnx(content, source, own);
    if (graph.runs.empty()) {
      graph.graph = model.graph;
      fixed = std::exchange(graph.graph.fixed_memory, Bytes(0));
      graph.runs.resize(graph.graph.ops.size());
      graph.places.resize(graph.graph.tensors.size());
      const Table<TensorId, bool> produced = produced_tensors(graph.graph);
      for (const TensorId t : graph.places.ids()) {
        if (!produced[t]) graph.places[t].home = {request.home};
      }
      for (Op& op : graph.graph.ops) {
        op.duration = Duration(0);
        op.workspace = Bytes(0);
        op.extra.clear();
      }
      graph.graph.meta = meta_of(graph.graph.meta, request.devices);
      if (request.move_weights) fixed -= MovedWeights(model, request.home, graph).add();
      for (const std::string& warning : model.network.warnings) result.messages.push_back("warning: " + warning);
    }
    add_runs(graph, model.graph, d, device);
    graph.devices[d].fixed_memory = fixed;
    if (!model.covered.empty()) result.messages.push_back(device.name + ": " + model.covered);
  }
  if (graph.runs.empty()) throw InputError(source, "no op can run: every device is a store");
  add_links(graph, request.links);
  validate(graph);
  return result;
}

}  // namespace remora::onnx_frontend
