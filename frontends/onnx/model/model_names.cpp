// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/model/model_proto.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

std::string one_line(std::string_view text) {
  std::string line;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    const bool blank = std::isspace(byte) != 0 || std::iscntrl(byte) != 0;
    if (!blank) {
      line += character;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

namespace {

using Visit = std::function<void(std::string&)>;
/// Names that the bodies around a node define, the outermost first.
using Scopes = std::vector<std::unordered_set<std::string>>;

std::unordered_set<std::string> defined_in(const onnx::GraphProto& body) {
  std::unordered_set<std::string> names;
  for (const auto& input : body.input()) names.insert(input.name());
  for (const auto& initializer : body.initializer()) names.insert(initializer.name());
  for (const auto& initializer : body.sparse_initializer()) names.insert(initializer.values().name());
  for (const auto& node : body.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

/// Bodies stand in bodies; how deep, the parser limits (100 messages within each other).
class ReadVisitor {
 public:
  explicit ReadVisitor(const Visit& visit) : visit_(visit) {}

  void visit_node(onnx::NodeProto& node) {  // NOLINT(misc-no-recursion)
    for (std::string& input : *node.mutable_input()) visit_name(input);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) visit_body(*attribute.mutable_g());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) visit_body(body);
    }
  }

 private:
  void visit_body(onnx::GraphProto& body) {  // NOLINT(misc-no-recursion)
    scopes_.push_back(defined_in(body));
    for (onnx::NodeProto& node : *body.mutable_node()) visit_node(node);
    for (onnx::ValueInfoProto& output : *body.mutable_output()) visit_name(*output.mutable_name());
    scopes_.pop_back();
  }

  void visit_name(std::string& name) {
    const bool inner =
        std::any_of(scopes_.begin(), scopes_.end(), [&](const auto& scope) { return scope.contains(name); });
    if (!name.empty() && !inner) visit_(name);
  }

  const Visit& visit_;
  Scopes scopes_;
};

}  // namespace

bool has_bodies(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& attribute) { return attribute.has_g() || attribute.graphs_size() > 0; });
}

void visit_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,  // NOLINT(misc-no-recursion)
                 const std::function<void(const onnx::NodeProto&)>& visit) {
  for (const onnx::NodeProto& node : nodes) {
    visit(node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) visit_nodes(attribute.g().node(), visit);
      for (const onnx::GraphProto& body : attribute.graphs()) visit_nodes(body.node(), visit);
    }
  }
}

void visit_reads(onnx::NodeProto& node, const Visit& visit) {
  ReadVisitor(visit).visit_node(node);
}

FreshNames::FreshNames(const onnx::ModelProto& model) {
  take(model.graph());
  for (const auto& function : model.functions()) {
    taken_.insert(function.input().begin(), function.input().end());
    taken_.insert(function.output().begin(), function.output().end());
    take_nodes(function.node());
  }
  for (const auto& training : model.training_info()) {
    take(training.initialization());
    take(training.algorithm());
  }
}

template <class Nodes>
void FreshNames::take_nodes(const Nodes& nodes) {  // NOLINT(misc-no-recursion)
  for (const onnx::NodeProto& node : nodes) {
    take(node.name());
    taken_.insert(node.input().begin(), node.input().end());
    taken_.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) take(attribute.g());
      for (const onnx::GraphProto& body : attribute.graphs()) take(body);
    }
  }
}

void FreshNames::take(const onnx::GraphProto& graph) {  // NOLINT(misc-no-recursion)
  for (const auto* const values : {&graph.input(), &graph.output(), &graph.value_info()}) {
    for (const auto& value : *values) take(value.name());
  }
  for (const auto& initializer : graph.initializer()) take(initializer.name());
  for (const auto& initializer : graph.sparse_initializer()) {
    take(initializer.values().name());
    take(initializer.indices().name());
  }
  take_nodes(graph.node());
}

std::string FreshNames::make(const std::string& wanted) {
  return taken_.insert(wanted).second ? wanted : make(wanted, 2);
}

std::string FreshNames::make(const std::string& wanted, int number) {
  for (;; ++number) {
    std::string name = wanted + "#" + std::to_string(number);
    if (taken_.insert(name).second) return name;
  }
}

}  // namespace remora::onnx_frontend
