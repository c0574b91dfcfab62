// SPDX-License-Identifier: Apache-2.0
//
// Small networks by hand, without protobuf, and questions about a differentiated one.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend::test {

using Names = std::vector<std::string>;

/// Values are 4 x 4 floats unless told otherwise; a node bears the name of its first output, prefixed with "n:".
class NetworkBuilder {
 public:
  ValueId input(const std::string& name, bool floating = true) {
    return network_.add_value({.name = name,
                               .shape = {4, 4},
                               .type = {.bits = floating ? 32 : 64, .floating = floating},
                               .kind = ValueKind::input});
  }
  ValueId parameter(const std::string& name, bool trainable = true, Shape shape = {4, 4}) {
    return network_.add_value(
        {.name = name, .shape = std::move(shape), .kind = ValueKind::parameter, .trainable = trainable});
  }
  ValueId value(const std::string& name, Shape shape = {4, 4}) {
    return network_.add_value({.name = name, .shape = std::move(shape)});
  }

  /// A node with one output, named `output`.
  ValueId op(const std::string& type, std::vector<ValueId> inputs, const std::string& output, Shape shape = {4, 4}) {
    const ValueId result = value(output, std::move(shape));
    node(type, std::move(inputs), {result});
    return result;
  }
  Node& node(const std::string& type, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    const std::string name = "n:" + network_.values[outputs.front()].name;
    const NodeId id =
        network_.add_node({.name = name, .type = type, .inputs = std::move(inputs), .outputs = std::move(outputs)});
    return network_.nodes[id];
  }
  ValueId view(const std::string& type, ValueId input, const std::string& output, Shape shape = {16}) {
    const ValueId result = op(type, {input}, output, std::move(shape));
    network_.values[result].view_of = input;
    network_.nodes.back().view = true;
    return result;
  }
  /// A parameter computed from parameters.
  ValueId derived(const std::string& type, std::vector<ValueId> inputs, const std::string& output) {
    const ValueId result = op(type, std::move(inputs), output);
    network_.values[result].kind = ValueKind::parameter;
    network_.nodes.back().constant = true;
    return result;
  }

  Network build(const std::vector<ValueId>& outputs) {
    for (const ValueId output : outputs) network_.values[output].output = true;
    return network_;
  }

 private:
  Network network_{};
};

inline const Node* find_node(const Network& network, std::string_view name) {
  for (const Node& node : network.nodes) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

inline const Value* find_value(const Network& network, std::string_view name) {
  for (const Value& value : network.values) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

inline Names names_of(const Network& network, const std::vector<ValueId>& values) {
  Names names;
  for (const ValueId value : values) names.push_back(value.valid() ? network.values[value].name : "");
  return names;
}

/// The names of what the node `name` reads or writes; {"no such node"} if there is none.
inline Names inputs_of(const Network& network, std::string_view name) {
  const Node* node = find_node(network, name);
  return node == nullptr ? Names{"no such node"} : names_of(network, node->inputs);
}
inline Names outputs_of(const Network& network, std::string_view name) {
  const Node* node = find_node(network, name);
  return node == nullptr ? Names{"no such node"} : names_of(network, node->outputs);
}

/// The names of all values that the schedule must end with.
inline Names kept_values(const Network& network) {
  Names names;
  for (const Value& value : network.values) {
    if (value.output) names.push_back(value.name);
  }
  return names;
}

inline std::vector<const Node*> nodes_of_type(const Network& network, std::string_view type) {
  std::vector<const Node*> nodes;
  for (const Node& node : network.nodes) {
    if (node.type == type) nodes.push_back(&node);
  }
  return nodes;
}

/// Names are unique, every value has one producer at most, and every node comes after the producers of its inputs and
/// after the node whose gradient it computes.
inline void expect_well_formed(const Network& network) {
  std::set<std::string> value_names;
  for (const Value& value : network.values) EXPECT_TRUE(value_names.insert(value.name).second) << value.name;
  std::vector<bool> available(network.values.size());
  for (std::size_t i = 0; i < network.values.size(); ++i) {
    const Value& value = network.values[i];
    available[i] = value.kind == ValueKind::input || value.kind == ValueKind::parameter;
  }
  std::set<std::string> node_names;
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const Node& node = network.nodes[i];
    EXPECT_TRUE(node_names.insert(node.name).second) << node.name;
    EXPECT_LT(static_cast<std::int64_t>(node.backward_of), static_cast<std::int64_t>(i)) << node.name;
    for (const ValueId input : node.inputs) {
      EXPECT_TRUE(!input.valid() || available[static_cast<std::size_t>(input)]) << node.name;
    }
    for (const ValueId output : node.outputs) {
      if (!output.valid() || node.constant) continue;
      EXPECT_FALSE(available[static_cast<std::size_t>(output)]) << network.values[output].name;
      available[static_cast<std::size_t>(output)] = true;
    }
  }
}

}  // namespace remora::onnx_frontend::test
