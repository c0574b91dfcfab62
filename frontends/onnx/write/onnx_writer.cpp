// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/onnx_writer.hpp"

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/onnx/model/external_data.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/write/node_copies.hpp"
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

/// What the functions need of operator sets, the model must have too, for their bodies stand in its graph.
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

/// The functions that nodes of the graph call, also through others. Those that only a body calls stay functions.
std::set<FunctionName> called_functions(const onnx::ModelProto& model) {
  std::map<FunctionName, const onnx::FunctionProto*> functions;
  for (const auto& function : model.functions()) {
    functions.emplace(FunctionName(domain_key(function.domain()), function.name()), &function);
  }
  std::set<FunctionName> called;
  std::vector<const onnx::FunctionProto*> open;
  const auto call_all = [&](const auto& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      const auto found = functions.find(FunctionName(domain_key(node.domain()), node.op_type()));
      if (found != functions.end() && called.insert(found->first).second) open.push_back(found->second);
    }
  };
  call_all(model.graph().node());
  while (!open.empty()) {
    const onnx::FunctionProto& function = *open.back();
    open.pop_back();
    call_all(function.node());
  }
  return called;
}

/// Whether the bodies of the calls would mean the same in the graph.
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
    for (const auto& node : function.node()) {
      for (const auto& attribute : node.attribute()) {
        if (!attribute.has_g() && attribute.graphs_size() == 0) continue;
        throw InputError(place, "has control flow; write the model's functions inline first");
      }
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

struct Roles {
  std::vector<NodeRole> roles;
  std::vector<std::string> names;
};

Roles roles_of(const onnx::GraphProto& graph, const Network& network) {
  const auto count = static_cast<std::size_t>(graph.node_size());
  Roles result{.roles = std::vector<NodeRole>(count, NodeRole::other), .names = std::vector<std::string>(count)};
  for (const Node& node : network.nodes) {
    ensure(node.position >= 0 && node.position < graph.node_size(), "rewrite: a node that the model does not have");
    const auto position = static_cast<std::size_t>(node.position);
    result.names[position] = node.name;
    if (!node.constant) result.roles[position] = node.view ? NodeRole::view : NodeRole::op;
  }
  return result;
}

onnx::ModelProto rewrite(std::string_view content, const LoweredModel& lowered, std::span<const OpId> sequence,
                         const ModelFolders& folders) {
  onnx::ModelProto model = parse_model(content);
  prepare_functions(model);
  move_external_data(model, folders.from, folders.to);
  std::vector<std::string> told_before;
  inline_functions(model, told_before);
  onnx::GraphProto& graph = *model.mutable_graph();
  sort_nodes(graph);
  FreshNames fresh(model);
  const Roles roles = roles_of(graph, lowered.network);
  std::vector<int> computes;
  computes.reserve(sequence.size());
  for (const OpId op : sequence) computes.push_back(lowered.network.nodes[lowered.op_nodes[op]].position);
  NodeCopies copies(graph, roles.roles, roles.names, fresh);
  NodeCopies::Nodes nodes = copies.run(computes);
  graph.mutable_node()->Swap(&nodes);
  describe(graph, copies.renamed());
  return model;
}

}  // namespace

std::vector<std::filesystem::path> data_files(std::string_view content, const std::filesystem::path& folder) {
  onnx::ModelProto model = parse_model(content);
  return external_files(model, folder);
}

std::string rewrite_model(std::string_view content, const LoweredModel& lowered, std::span<const OpId> sequence,
                          const ModelFolders& folders) {
  try {
    const onnx::ModelProto model = rewrite(content, lowered, sequence, folders);
    constexpr std::size_t kLimit = std::numeric_limits<int>::max();
    std::string bytes;
    if (model.ByteSizeLong() >= kLimit || !model.SerializeToString(&bytes)) {
      throw InputError("", "the rewritten model would have 2 GiB or more; save the weights as external data");
    }
    return bytes;
  } catch (const InputError& error) {
    throw InputError(lowered.network.source, one_line(error.what()));
  }
}

void check_rewritten(std::string_view rewritten, const std::string& source, const OnnxOptions& options,
                     const Schedule& schedule) {
  OnnxOptions modelled = options;
  // The rewritten model has nodes that nobody measured.
  modelled.costs.reset();
  // The places of its data were found or made right before.
  modelled.allow_external = true;
  const Instance instance(std::make_shared<const Graph>(read_onnx(rewritten, source, modelled).graph), {});
  const Evaluation evaluation = evaluate(instance, input_order(instance));
  ensure(evaluation.peak <= schedule.peak_memory, "rewrite: the rewritten model needs more memory than the schedule");
  ensure(options.costs || evaluation.duration <= schedule.duration,
         "rewrite: the rewritten model takes more time than the schedule");
}

}  // namespace remora::onnx_frontend
