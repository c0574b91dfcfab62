// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/onnx_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/write/node_copies.hpp"
#include "frontends/onnx/write/slice_writer.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

std::string domain_key(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

/// The model must import the operator sets of its functions, because their bodies are in its graph.
void import_operator_sets(onnx::ModelProto& model, const onnx::FunctionProto& function) {
  for (const auto& needed : function.opset_import()) {
    bool there = false;
    for (const auto& import : model.opset_import()) {
      if (domain_key(import.domain()) != domain_key(needed.domain())) continue;
      there = true;
      if (import.version() == needed.version()) continue;
      throw InputError("function " + printable(function.name()),
                       "is of version " + std::to_string(needed.version()) + " of the operator set \"" +
                           needed.domain() + "\", the model of " + std::to_string(import.version()) +
                           "; convert them to one version first");
    }
    if (!there) *model.add_opset_import() = needed;
  }
}

using FunctionName = std::pair<std::string, std::string>;

/// The functions that nodes of the graph or of bodies in it call, also through others.
std::set<FunctionName> called_functions(const onnx::ModelProto& model) {
  std::map<FunctionName, const onnx::FunctionProto*> functions;
  for (const auto& function : model.functions()) {
    functions.emplace(FunctionName(domain_key(function.domain()), function.name()), &function);
  }
  std::set<FunctionName> called;
  std::vector<const onnx::FunctionProto*> open;
  const auto call_all = [&](const auto& nodes) {
    visit_nodes(nodes, [&](const onnx::NodeProto& node) {
      const auto found = functions.find(FunctionName(domain_key(node.domain()), node.op_type()));
      if (found != functions.end() && called.insert(found->first).second) open.push_back(found->second);
    });
  };
  call_all(model.graph().node());
  while (!open.empty()) {
    const onnx::FunctionProto& function = *open.back();
    open.pop_back();
    call_all(function.node());
  }
  return called;
}

/// Throws InputError if a called function's body could mean something else in the graph; imports its operator sets.
void prepare_functions(onnx::ModelProto& model) {
  const std::set<FunctionName> called = called_functions(model);
  std::set<FunctionName> names;
  for (const auto& function : model.functions()) {
    const FunctionName name(domain_key(function.domain()), function.name());
    if (!called.contains(name)) continue;
    const std::string place = "function " + printable(function.name());
    if (!names.insert(name).second) {
      throw InputError(place, "is there twice; write the model's functions inline first");
    }
    if (onnx::OpSchemaRegistry::Schema(name.second, name.first) != nullptr) {
      throw InputError(place, "has the name of a standard operator, and runtimes differ in which they run; rename it");
    }
    import_operator_sets(model, function);
  }
}

/// States the type of every fresh value whose original has one, and what is known of its quantization.
void describe(onnx::GraphProto& graph, const std::vector<std::pair<std::string, std::string>>& renamed) {
  std::unordered_map<std::string, onnx::ValueInfoProto> types;
  for (const auto& value : graph.output()) types.emplace(value.name(), value);
  for (const auto& value : graph.value_info()) types.insert_or_assign(value.name(), value);
  std::unordered_map<std::string, onnx::TensorAnnotation> annotations;
  for (const auto& annotation : graph.quantization_annotation()) {
    annotations.emplace(annotation.tensor_name(), annotation);
  }
  for (const auto& [name, fresh] : renamed) {
    const auto type = types.find(name);
    if (type != types.end() && type->second.has_type()) {
      onnx::ValueInfoProto& value = *graph.add_value_info();
      value = type->second;
      value.set_name(fresh);
    }
    const auto annotation = annotations.find(name);
    if (annotation == annotations.end()) continue;
    onnx::TensorAnnotation& copy = *graph.add_quantization_annotation();
    copy = annotation->second;
    copy.set_tensor_name(fresh);
  }
}

NodeTable table_of(const onnx::GraphProto& graph, const Network& network) {
  const auto count = static_cast<std::size_t>(graph.node_size());
  NodeTable result{.roles = std::vector<NodeRole>(count, NodeRole::other), .names = std::vector<std::string>(count)};
  for (const Node& node : network.nodes) {
    ensure(node.position >= 0 && node.position < graph.node_size(), "rewrite: a node that the model does not have");
    const auto position = static_cast<std::size_t>(node.position);
    result.names[position] = node.name;
    if (!node.constant) result.roles[position] = node.view ? NodeRole::view : NodeRole::op;
  }
  return result;
}

/// Nodes by op as they are in the model.
SlicedNodes unsliced(const LoweredModel& lowered, NodeTable table) {
  SlicedNodes result{.table = std::move(table), .nodes = Table<OpId, std::vector<int>>(lowered.graph.ops.size())};
  for (const OpId v : result.nodes.ids()) result.nodes[v] = {lowered.network.nodes[lowered.op_nodes[v]].position};
  return result;
}

/// Slices have the extents that the model was read with.
void fix_extents(onnx::GraphProto& graph, const LoweredModel& lowered, const ModelSlices& slices) {
  set_dimensions(graph, slices.dimensions);
  for (const Value& value : lowered.network.values) {
    if (!value.output) continue;
    const auto output = std::ranges::find(*graph.mutable_output(), value.name, &onnx::ValueInfoProto::name);
    if (output == graph.mutable_output()->end() || !output->type().has_tensor_type()) continue;
    auto& shape = *output->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    for (const std::int64_t extent : value.shape) shape.add_dim()->set_dim_value(extent);
  }
}

struct Rewritten {
  onnx::ModelProto model{};
  std::unordered_set<std::string> in_place{};
  Bytes constants{};
};

/// `slices`: none where the sequence is of the model's own ops.
Rewritten rewrite(std::string_view content, const LoweredModel& lowered, const ModelSlices* slices,
                  std::span<const OpId> sequence, const ModelFolders& folders) {
  Rewritten result{.model = parse_model(content)};
  onnx::ModelProto& model = result.model;
  prepare_functions(model);
  move_external_data(model, folders.from, folders.to);
  std::vector<std::string> known_warnings;
  inline_functions(model, known_warnings);
  onnx::GraphProto& graph = *model.mutable_graph();
  sort_nodes(graph);
  FreshNames fresh(model);
  const NodeTable table = table_of(graph, lowered.network);
  SlicedNodes nodes = slices != nullptr ? write_slices(graph, lowered, slices->regions, slices->sliced, table, fresh)
                                        : unsliced(lowered, table);
  if (slices != nullptr) fix_extents(graph, lowered, *slices);
  std::vector<int> computes;
  computes.reserve(sequence.size());
  for (const OpId op : sequence) computes.insert(computes.end(), nodes.nodes[op].begin(), nodes.nodes[op].end());
  NodeCopies copies(graph, nodes.table.roles, nodes.table.names, fresh);
  NodeCopies::Nodes written = copies.run(computes);
  graph.mutable_node()->Swap(&written);
  describe(graph, copies.renamed());
  result.in_place = std::move(nodes.in_place);
  for (const auto& [name, copy] : copies.renamed()) {
    if (result.in_place.contains(name)) result.in_place.insert(copy);
  }
  result.constants = nodes.constants;
  return result;
}

std::string serialized(const onnx::ModelProto& model) {
  constexpr std::size_t kLimit = std::numeric_limits<int>::max();
  std::string bytes;
  if (model.ByteSizeLong() >= kLimit || !model.SerializeToString(&bytes)) {
    throw InputError("", "the rewritten model would have 2 GiB or more; save the weights as external data");
  }
  return bytes;
}

}  // namespace

std::vector<std::filesystem::path> data_files(std::string_view content, const std::filesystem::path& folder) {
  onnx::ModelProto model = parse_model(content);
  return external_files(model, folder);
}

std::string rewrite_model(std::string_view content, const LoweredModel& lowered, std::span<const OpId> sequence,
                          const ModelFolders& folders) {
  try {
    return serialized(rewrite(content, lowered, nullptr, sequence, folders).model);
  } catch (const InputError& error) {
    throw InputError(lowered.network.source, one_line(error.what()));
  }
}

SlicedModel rewrite_in_slices(std::string_view content, const LoweredModel& lowered, const ModelSlices& slices,
                              std::span<const OpId> sequence, const ModelFolders& folders) {
  try {
    Rewritten result = rewrite(content, lowered, &slices, sequence, folders);
    return {serialized(result.model), std::move(result.in_place), result.constants};
  } catch (const UnevenSlices& error) {
    throw UnevenSlices(lowered.network.source, one_line(error.what()), error.ops());
  } catch (const InputError& error) {
    throw InputError(lowered.network.source, one_line(error.what()));
  }
}

namespace {

LoweredModel read_rewritten(std::string_view rewritten, const std::string& source, const OnnxOptions& options) {
  OnnxOptions modelled = options;
  // The rewritten model has nodes that nobody measured.
  modelled.costs.reset();
  modelled.axes = AxesWanted::none;
  // The places of its data were found or made right before.
  modelled.allow_external = true;
  return lower_onnx(rewritten, source, modelled);
}

Evaluation evaluate_in_order(Graph graph) {
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  return evaluate(instance, input_order(instance));
}

}  // namespace

void check_rewritten(std::string_view rewritten, const std::string& source, const OnnxOptions& options,
                     const Schedule& schedule) {
  const Evaluation evaluation = evaluate_in_order(read_rewritten(rewritten, source, options).graph);
  ensure(evaluation.peak <= schedule.peak_memory, "rewrite: the rewritten model needs more memory than the schedule");
  ensure(options.costs || evaluation.duration <= schedule.duration,
         "rewrite: the rewritten model takes more time than the schedule");
}

void check_rewritten(const SlicedModel& rewritten, const std::string& source, const OnnxOptions& options,
                     const Schedule& schedule) {
  OnnxOptions fixed = options;
  fixed.dimensions.clear();
  LoweredModel lowered = read_rewritten(rewritten.bytes, source, fixed);
  for (const OpId v : Ids<OpId>(lowered.graph.ops.size())) {
    Op& op = lowered.graph.ops[v.index()];
    const Node& node = lowered.network.nodes[lowered.op_nodes[v]];
    for (const TensorId output : op.outputs) {
      const std::string& name = lowered.network.values[lowered.tensor_values[output]].name;
      if (!rewritten.in_place.contains(name)) continue;
      const ValueId first = lowered.network.storage(node.inputs[0]);
      for (const TensorId input : op.inputs) {
        if (lowered.tensor_values[input] == first) op.in_place.push_back({output, input});
      }
    }
  }
  validate(lowered.graph);
  const Evaluation evaluation = evaluate_in_order(std::move(lowered.graph));
  ensure(evaluation.peak <= schedule.peak_memory + rewritten.constants,
         "rewrite: the model in slices needs more memory than the schedule");
}

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
    object.string("duration_unit", json::parse(graph_.meta).at("duration_unit").get<std::string>());
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
      out_ += json::dump(value.constant);
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
  for (const Node& node : lowered.network.nodes) {
    if (node.phase != Phase::forward || node.position >= 0 || node.constant || node.view) continue;
    throw InputError(lowered.network.source,
                     "node " + printable(node.name) +
                         " is of a round of a loop or of a branch, which are ops of their own in a training step: the "
                         "model has no nodes to name in a schedule");
  }
  try {
    return RuntimeSchedule(lowered, schedule).text();
  } catch (const InputError& error) {
    throw InputError(lowered.network.source, error.what());
  }
}

}  // namespace remora::onnx_frontend
