// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "frontends/formats/json_text.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

using json::ObjectText;

constexpr std::size_t kIndentation = 2;

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::loss:
      return "loss";
    case Phase::backward:
      return "backward";
    case Phase::none:
    case Phase::forward:
      break;
  }
  return "forward";
}

class RuntimeSchedule {
 public:
  RuntimeSchedule(const LoweredModel& lowered, const Schedule& schedule)
      : network_(lowered.network),
        graph_(lowered.graph),
        schedule_(schedule),
        op_nodes_(lowered.op_nodes),
        tensor_values_(lowered.tensor_values),
        computes_(graph_.ops.size(), 0),
        resident_(graph_.tensors.size(), true),
        memory_(graph_.fixed_memory) {
    for (const Op& op : graph_.ops) {
      for (const TensorId output : op.outputs) resident_[output] = false;
    }
    for (std::size_t k = 0; k < resident_.size(); ++k) {
      if (resident_[k]) memory_ += graph_.tensors[k].size;
    }
  }

  std::string text() {
    ObjectText object(out_, ",\n  ");
    append_header(object);
    const auto list = [&](std::string_view name, std::size_t count, const auto& append) {
      object.key(name);
      json::append_lines(out_, kIndentation, count, append);
    };
    list("values", network_.values.size(), [&](std::size_t k) { append_value(network_.values[k], ValueId(k)); });
    list("nodes", network_.nodes.size(), [&](std::size_t k) { append_node(network_.nodes[k]); });
    list("steps", schedule_.steps.size(), [&](std::size_t k) { append_step(schedule_.steps[k]); });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  [[nodiscard]] const std::string& name_of(ValueId id) const { return network_.values[id].name; }
  [[nodiscard]] const std::string& name_of(NodeId id) const { return network_.nodes[id].name; }
  [[nodiscard]] const std::string& name_of(TensorId id) const { return name_of(tensor_values_[id]); }

  void append_header(ObjectText& object) const {
    object.string("format", "remora-runtime-schedule");
    object.integer("version", 1);
    object.string("graph", graph_.name);
    if (!schedule_.graph_sha256.empty()) object.string("model_sha256", schedule_.graph_sha256);
    object.string("duration_unit", nlohmann::json::parse(graph_.meta).at("duration_unit").get<std::string>());
    object.integer("budget", schedule_.budget.count());
    object.integer("fixed_memory", graph_.fixed_memory.count());
    object.integer("peak_memory", schedule_.peak_memory.count());
    object.integer("baseline_peak_memory", schedule_.baseline_peak_memory.count());
    object.integer("duration", schedule_.duration.count());
    object.integer("baseline_duration", schedule_.baseline_duration.count());
  }

  [[nodiscard]] std::string_view kind_of(const Value& value) const {
    if (value.gradient_of.valid()) return "gradient";
    switch (value.kind) {
      case ValueKind::input:
        return "input";
      case ValueKind::parameter:
        return "parameter";
      case ValueKind::activation:
        break;
    }
    return "activation";
  }

  void append_value(const Value& value, ValueId id) {
    ObjectText object(out_);
    object.string("name", value.name);
    object.string("kind", kind_of(value));
    object.integer("bytes", byte_size(value.shape, value.type).count());
    if (network_.storage(id) != id) object.string("memory_of", name_of(network_.storage(id)));
    if (value.gradient_of.valid()) object.string("gradient_of", name_of(value.gradient_of));
    if (value.trainable) object.boolean("trainable", true);
    if (value.output) object.boolean("keep", true);
    if (!value.constant.empty()) {
      object.key("elements");
      out_ += nlohmann::json(value.constant).dump();
    }
    object.close();
  }

  void append_names(ObjectText& object, std::string_view name, const std::vector<ValueId>& values) const {
    static const std::string kLeftOut;
    object.names(name, values, [&](ValueId id) -> const std::string& { return id.valid() ? name_of(id) : kLeftOut; });
  }

  void append_node(const Node& node) {
    ObjectText object(out_);
    object.string("name", node.name);
    object.string("type", node.type);
    if (!node.domain.empty()) object.string("domain", node.domain);
    object.string("phase", phase_name(node.phase));
    object.string("runs", node.constant ? "once before" : (node.view ? "as a view" : "in steps"));
    if (node.backward_of.valid()) object.string("backward_of", name_of(node.backward_of));
    append_names(object, "inputs", node.inputs);
    append_names(object, "outputs", node.outputs);
    if (!node.gradients_in_place.empty()) append_names(object, "adds_gradients_of", node.gradients_in_place);
    object.close();
  }

  void append_step(const Step& step) {
    const Op& op = graph_.ops[step.op];
    const Node& node = network_.nodes[op_nodes_[step.op]];
    const int compute = ++computes_[step.op];
    std::vector<TensorId> allocated;
    for (const TensorId output : op.outputs) {
      if (resident_[output]) continue;
      resident_[output] = true;
      memory_ += graph_.tensors[output].size;
      allocated.push_back(output);
    }
    const auto name = [&](TensorId id) -> const std::string& { return name_of(id); };
    ObjectText object(out_);
    object.string("node", node.name);
    object.string("kind", compute > 1 ? "recompute" : phase_name(node.phase));
    object.integer("compute", compute);
    object.integer("duration", op.duration.count());
    object.names("allocate", allocated, name);
    object.names("free", step.free, name);
    object.integer("memory", (memory_ + op.workspace).count());
    object.close();
    for (const TensorId tensor : step.free) {
      resident_[tensor] = false;
      memory_ -= graph_.tensors[tensor].size;
    }
  }

  const Network& network_;
  const Graph& graph_;
  const Schedule& schedule_;
  const std::vector<NodeId>& op_nodes_;
  const std::vector<ValueId>& tensor_values_;
  /// By op: how often it has run until now.
  std::vector<int> computes_;
  /// By tensor.
  std::vector<bool> resident_;
  Bytes memory_;
  std::string out_;
};

}  // namespace

std::string runtime_schedule(const LoweredModel& lowered, const Schedule& schedule) {
  ensure(schedule.has_schedule(), "runtime schedule: there are no steps");
  try {
    return RuntimeSchedule(lowered, schedule).text();
  } catch (const InputError& error) {
    throw InputError(lowered.network.source, error.what());
  }
}

}  // namespace remora::onnx_frontend
