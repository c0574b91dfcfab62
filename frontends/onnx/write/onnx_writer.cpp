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

#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/write/node_copies.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

// Weights outside the model's file: their places are relative to the folder that the file is in, and must not leave it.

/// The files that the model's data is in, read from the folder `from`; one that several tensors share may be there more
/// than once. They need not exist.
std::vector<std::filesystem::path> external_files(onnx::ModelProto& model, const std::filesystem::path& from);

namespace {
namespace fs = std::filesystem;

/// Calls `visit` with every tensor of a model, wherever it stands.
template <class Visit>
class TensorVisitor {
 public:
  explicit TensorVisitor(const Visit& visit) : visit_(visit) {}

  void visit_graph(onnx::GraphProto& graph) {  // NOLINT(misc-no-recursion)
    for (auto& tensor : *graph.mutable_initializer()) visit_(tensor);
    for (auto& tensor : *graph.mutable_sparse_initializer()) visit_sparse(tensor);
    for (auto& node : *graph.mutable_node()) visit_node(node);
  }

  void visit_node(onnx::NodeProto& node) {  // NOLINT(misc-no-recursion)
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) visit_(*attribute.mutable_t());
      for (auto& tensor : *attribute.mutable_tensors()) visit_(tensor);
      if (attribute.has_sparse_tensor()) visit_sparse(*attribute.mutable_sparse_tensor());
      for (auto& tensor : *attribute.mutable_sparse_tensors()) visit_sparse(tensor);
      if (attribute.has_g()) visit_graph(*attribute.mutable_g());
      for (auto& body : *attribute.mutable_graphs()) visit_graph(body);
    }
  }

 private:
  void visit_sparse(onnx::SparseTensorProto& tensor) {
    visit_(*tensor.mutable_values());
    visit_(*tensor.mutable_indices());
  }

  const Visit& visit_;
};

bool leaves(const fs::path& relative) {
  return relative.empty() || relative.is_absolute() || *relative.begin() == "..";
}

/// Without symbolic links, whether it is there or not.
fs::path resolved(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(path));
  return whole.has_filename() ? whole : whole.parent_path();
}

/// The place relative to `to` of what has the place `location` relative to `from`.
std::string moved(const std::string& name, const std::string& location, const fs::path& from,
                  const std::optional<fs::path>& to) {
  if (!to) {
    throw InputError(
        "initializer " + printable(name),
        "has its data in " + quote(location) + ", to be found from the model's folder; write the model to a file (-o)");
  }
  if (resolved(from) == resolved(*to)) return location;
  const fs::path named = from / location;
  const fs::path folder = resolved(*to);
  // By its own name first: a link stays where it is while what it points to may come and go.
  const fs::path beside = (resolved(named.parent_path()) / named.filename()).lexically_relative(folder);
  if (!leaves(beside)) return beside.generic_string();
  const fs::path file = resolved(named);
  const fs::path relative = file.lexically_relative(folder);
  if (leaves(relative)) {
    throw InputError("initializer " + printable(name),
                     "has its data in " + file.string() +
                         ", which is not below the folder of the output; write the model beside "
                         "the one it is made from");
  }
  return relative.generic_string();
}

/// Calls `visit` with the name of every tensor that has its data outside the file, and the place of the data.
template <class Visit>
void visit_places(onnx::ModelProto& model, const Visit& visit) {
  const auto visit_tensor = [&](onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    for (auto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == "location") visit(tensor.name(), *entry.mutable_value());
    }
  };
  TensorVisitor visitor(visit_tensor);
  visitor.visit_graph(*model.mutable_graph());
  for (auto& function : *model.mutable_functions()) {
    for (auto& node : *function.mutable_node()) visitor.visit_node(node);
  }
  for (auto& training : *model.mutable_training_info()) {
    if (training.has_initialization()) visitor.visit_graph(*training.mutable_initialization());
    if (training.has_algorithm()) visitor.visit_graph(*training.mutable_algorithm());
  }
}

}  // namespace

void move_external_data(onnx::ModelProto& model, const fs::path& from, const std::optional<fs::path>& to) {
  visit_places(model,
               [&](const std::string& name, std::string& location) { location = moved(name, location, from, to); });
}

std::vector<fs::path> external_files(onnx::ModelProto& model, const fs::path& from) {
  std::vector<fs::path> files;
  visit_places(model,
               [&](const std::string& /*name*/, const std::string& location) { files.push_back(from / location); });
  return files;
}

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
  const Instance instance(std::make_shared<const Graph>(read_onnx(rewritten, source, modelled).graph), {});
  const Evaluation evaluation = evaluate(instance, input_order(instance));
  ensure(evaluation.peak <= schedule.peak_memory, "rewrite: the rewritten model needs more memory than the schedule");
  ensure(options.costs || evaluation.duration <= schedule.duration,
         "rewrite: the rewritten model takes more time than the schedule");
}

}  // namespace remora::onnx_frontend
