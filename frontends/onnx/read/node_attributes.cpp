// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/node_attributes.hpp"

#include "frontends/onnx/model/model_proto.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

using onnx::AttributeProto;

ConstantNode from_tensor(const onnx::TensorProto& tensor) {
  return {.type = type_of(tensor), .elements = read_constant(tensor)};
}

ConstantNode from_integers(std::vector<std::int64_t> elements, Shape shape) {
  const TensorType type{.data_type = onnx::TensorProto::INT64, .shape = std::move(shape)};
  return {.type = type, .elements = Constant{.type = type, .integers = std::move(elements)}};
}

ConstantNode from_reals(std::vector<double> elements, Shape shape) {
  const TensorType type{.data_type = onnx::TensorProto::FLOAT, .shape = std::move(shape)};
  return {.type = type, .elements = Constant{.type = type, .reals = std::move(elements)}};
}

std::optional<ConstantNode> read_value(const AttributeProto& attribute) {
  const std::string& name = attribute.name();
  if (name == "value") return from_tensor(attribute.t());
  if (name == "value_int") return from_integers({attribute.i()}, {});
  if (name == "value_ints")
    return from_integers({attribute.ints().begin(), attribute.ints().end()}, {attribute.ints_size()});
  if (name == "value_float") return from_reals({static_cast<double>(attribute.f())}, {});
  if (name == "value_floats") {
    return from_reals({attribute.floats().begin(), attribute.floats().end()}, {attribute.floats_size()});
  }
  if (name == "sparse_value") {
    onnx::TensorProto dense;
    dense.set_data_type(attribute.sparse_tensor().values().data_type());
    *dense.mutable_dims() = attribute.sparse_tensor().dims();
    return ConstantNode{.type = type_of(dense)};
  }
  return std::nullopt;
}

void read_tensor(const onnx::TensorProto& tensor, Attributes& attributes, const std::string& name) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) count = count == 1 ? extent : 0;
  if (count != 1) return;
  const auto constant = read_constant(tensor);
  if (!constant) return;
  if (constant->real()) {
    attributes.set(name, constant->reals.front());
  } else {
    attributes.set(name, constant->integers.front());
  }
}

}  // namespace

Attributes read_attributes(const onnx::NodeProto& node) {
  Attributes attributes;
  for (const AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    switch (attribute.type()) {
      case AttributeProto::INT:
        attributes.set(name, static_cast<std::int64_t>(attribute.i()));
        break;
      case AttributeProto::FLOAT:
        attributes.set(name, static_cast<double>(attribute.f()));
        break;
      case AttributeProto::STRING:
        attributes.set(name, attribute.s());
        break;
      case AttributeProto::INTS:
        attributes.set(name, std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
        break;
      case AttributeProto::FLOATS:
        attributes.set(name, std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
        break;
      case AttributeProto::TENSOR:
        read_tensor(attribute.t(), attributes, name);
        break;
      default:
        break;
    }
  }
  return attributes;
}

std::optional<ConstantNode> read_constant_node(const onnx::NodeProto& node) {
  const bool default_domain = node.domain().empty() || node.domain() == "ai.onnx";
  if (node.op_type() != "Constant" || !default_domain) return std::nullopt;
  for (const AttributeProto& attribute : node.attribute()) {
    try {
      if (auto value = read_value(attribute)) return value;
    } catch (const InputError& error) {
      throw InputError(node_place(node), error.what());
    }
  }
  throw InputError(node_place(node), "has no numeric value");
}

}  // namespace remora::onnx_frontend
