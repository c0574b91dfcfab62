// SPDX-License-Identifier: Apache-2.0
//
// ONNX models in memory, a line a node.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/error.hpp"
#include "onnx/onnx_pb.h"
#include "tests/support/refusal.hpp"

namespace remora::onnx_frontend::test {

using Dimension = std::variant<std::int64_t, std::string>;
using Dimensions = std::vector<Dimension>;
using Strings = std::vector<std::string>;

inline constexpr int kFloat = onnx::TensorProto::FLOAT;
inline constexpr int kInt64 = onnx::TensorProto::INT64;
inline constexpr int kBool = onnx::TensorProto::BOOL;

/// A number is an extent, a string a symbolic name, an empty string an extent that is left open.
inline Dimension extent(std::int64_t value) {
  return value;
}
inline Dimension symbol(std::string name) {
  return name;
}

/// Says that the tensor's data is in a file, at that place from the model's folder.
inline void put_outside(onnx::TensorProto& tensor, const std::string& location) {
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value(location);
}

class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 17) {
    model_.set_ir_version(8);
    model_.mutable_graph()->set_name("test");
    model_.add_opset_import()->set_version(opset);
  }

  ModelBuilder& input(const std::string& name, const Dimensions& shape, int type = kFloat) {
    describe(*model_.mutable_graph()->add_input(), name, shape, type);
    return *this;
  }
  /// A weight without data: dims are enough.
  ModelBuilder& weight(const std::string& name, const Shape& shape, int type = kFloat) {
    auto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const std::int64_t one : shape) tensor.add_dims(one);
    return *this;
  }
  /// A vector of integers.
  ModelBuilder& integers(const std::string& name, const std::vector<std::int64_t>& elements) {
    weight(name, {static_cast<std::int64_t>(elements.size())}, kInt64);
    auto& tensor = *model_.mutable_graph()->mutable_initializer()->rbegin();
    for (const std::int64_t element : elements) tensor.add_int64_data(element);
    return *this;
  }
  ModelBuilder& integer(const std::string& name, std::int64_t element) {
    weight(name, {}, kInt64);
    model_.mutable_graph()->mutable_initializer()->rbegin()->add_int64_data(element);
    return *this;
  }
  ModelBuilder& reals(const std::string& name, const std::vector<float>& elements) {
    weight(name, {static_cast<std::int64_t>(elements.size())});
    auto& tensor = *model_.mutable_graph()->mutable_initializer()->rbegin();
    for (const float element : elements) tensor.add_float_data(element);
    return *this;
  }
  ModelBuilder& flag(const std::string& name, bool element) {
    weight(name, {}, kBool);
    model_.mutable_graph()->mutable_initializer()->rbegin()->add_int32_data(element ? 1 : 0);
    return *this;
  }
  ModelBuilder& value_info(const std::string& name, const Dimensions& shape, int type = kFloat) {
    describe(*model_.mutable_graph()->add_value_info(), name, shape, type);
    return *this;
  }
  ModelBuilder& output(const std::string& name) {
    model_.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  /// The last node is the one that `set` speaks of.
  ModelBuilder& node(const std::string& type, const Strings& inputs, const Strings& outputs,
                     const std::string& name = "") {
    auto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(type);
    node.set_name(name);
    for (const std::string& one : inputs) node.add_input(one);
    for (const std::string& one : outputs) node.add_output(one);
    return *this;
  }
  ModelBuilder& domain(const std::string& name) {
    last().set_domain(name);
    return *this;
  }
  ModelBuilder& set(const std::string& name, std::int64_t value) {
    auto& attribute = add_attribute(name, onnx::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  ModelBuilder& set(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& attribute = add_attribute(name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  ModelBuilder& set(const std::string& name, const std::string& value) {
    add_attribute(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }

  /// A body of the last node: the graph of another model.
  ModelBuilder& body(const std::string& name, const ModelBuilder& inside) {
    *add_attribute(name, onnx::AttributeProto::GRAPH).mutable_g() = inside.model_.graph();
    return *this;
  }

  onnx::ModelProto& proto() { return model_; }
  [[nodiscard]] std::string bytes() const { return model_.SerializeAsString(); }

  [[nodiscard]] Network network(const OnnxOptions& options = {}) const {
    return build_network(bytes(), "test.onnx", options);
  }
  /// What reading complains of; empty if it does not.
  [[nodiscard]] std::string complaint(const OnnxOptions& options = {}) const {
    return remora::test::refusal_of([&] { read_onnx(bytes(), "test.onnx", options); });
  }
  [[nodiscard]] Graph graph(const OnnxOptions& options = {}) const {
    return read_onnx(bytes(), "test.onnx", options).graph;
  }

 private:
  static void describe(onnx::ValueInfoProto& value, const std::string& name, const Dimensions& shape, int type) {
    value.set_name(name);
    auto& tensor = *value.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const Dimension& dimension : shape) {
      auto& one = *tensor.mutable_shape()->add_dim();
      if (const auto* const number = std::get_if<std::int64_t>(&dimension)) {
        one.set_dim_value(*number);
      } else if (!std::get<std::string>(dimension).empty()) {
        one.set_dim_param(std::get<std::string>(dimension));
      }
    }
  }
  onnx::NodeProto& last() { return *model_.mutable_graph()->mutable_node()->rbegin(); }
  onnx::AttributeProto& add_attribute(const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto& attribute = *last().add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::ModelProto model_;
};

/// Throws if there is none of that name.
inline const Value& value_named(const Network& network, std::string_view name) {
  for (const Value& value : network.values) {
    if (value.name == name) return value;
  }
  throw std::runtime_error("no value " + std::string(name));
}

inline const Node& node_named(const Network& network, std::string_view name) {
  for (const Node& node : network.nodes) {
    if (node.name == name) return node;
  }
  throw std::runtime_error("no node " + std::string(name));
}

inline NodeId id_of(const Network& network, std::string_view name) {
  return NodeId(static_cast<std::size_t>(&node_named(network, name) - network.nodes.data()));
}

inline Strings node_names(const Network& network) {
  Strings names;
  for (const Node& node : network.nodes) names.push_back(node.name);
  return names;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace remora::onnx_frontend::test
