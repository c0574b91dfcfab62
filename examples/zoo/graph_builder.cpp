// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/graph_builder.hpp"

#include <array>
#include <charconv>
#include <functional>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;

std::string join(const Shape& numbers, char separator) {
  std::ostringstream text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text << separator;
    text << numbers[i];
  }
  return text.str();
}

onnx::TensorProto_DataType data_type(ElementType type) {
  switch (type) {
    case ElementType::int32:
      return onnx::TensorProto_DataType_INT32;
    case ElementType::int64:
      return onnx::TensorProto_DataType_INT64;
    case ElementType::float32:
      break;
  }
  return onnx::TensorProto_DataType_FLOAT;
}

/// A tensor of one element; `rank` 0 makes it a scalar, 1 a list of one.
onnx::TensorProto single(ElementType type, double number, int rank) {
  onnx::TensorProto tensor;
  tensor.set_data_type(data_type(type));
  if (rank == 1) tensor.add_dims(1);
  switch (type) {
    case ElementType::float32:
      tensor.add_float_data(static_cast<float>(number));
      break;
    case ElementType::int32:
      tensor.add_int32_data(static_cast<std::int32_t>(number));
      break;
    case ElementType::int64:
      tensor.add_int64_data(static_cast<std::int64_t>(number));
      break;
  }
  return tensor;
}

void describe(onnx::ValueInfoProto& info, const std::string& name, ElementType type, const Shape& shape) {
  info.set_name(name);
  onnx::TypeProto_Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(data_type(type));
  onnx::TensorShapeProto& dimensions = *tensor.mutable_shape();
  for (const std::int64_t extent : shape) {
    onnx::TensorShapeProto_Dimension& dimension = *dimensions.add_dim();
    if (extent == kSymbolicBatch) {
      dimension.set_dim_param("batch");
    } else {
      dimension.set_dim_value(extent);
    }
  }
}

void set_value(onnx::AttributeProto& attribute, std::int64_t value) {
  attribute.set_type(onnx::AttributeProto_AttributeType_INT);
  attribute.set_i(value);
}

void set_value(onnx::AttributeProto& attribute, float value) {
  attribute.set_type(onnx::AttributeProto_AttributeType_FLOAT);
  attribute.set_f(value);
}

void set_value(onnx::AttributeProto& attribute, const std::vector<std::int64_t>& value) {
  attribute.set_type(onnx::AttributeProto_AttributeType_INTS);
  attribute.mutable_ints()->Add(value.begin(), value.end());
}

void set_tensor(onnx::NodeProto& node, const onnx::TensorProto& tensor) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto_AttributeType_TENSOR);
  *attribute.mutable_t() = tensor;
}

}  // namespace

GraphBuilder::Scope::Scope(std::string& prefix, std::string_view name) : prefix_(prefix), length_(prefix.size()) {
  prefix_.append(name).append("/");
}

GraphBuilder::GraphBuilder(const std::string& name) {
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("remora_zoo");
  model_.mutable_graph()->set_name(name);
  onnx::OperatorSetIdProto& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
}

std::string GraphBuilder::unique(std::string name) {
  if (!names_.insert(name).second) throw std::logic_error("two tensors are called " + name);
  return name;
}

Value GraphBuilder::input(const std::string& name, ElementType type, const Shape& shape) {
  describe(*model_.mutable_graph()->add_input(), unique(name), type, shape);
  return {name, shape};
}

Value GraphBuilder::weight(std::string_view name, const Shape& shape, float fill) {
  parameter_count_ += std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return filled(name, ElementType::float32, shape, fill);
}

Value GraphBuilder::filled(std::string_view name, ElementType type, const Shape& shape, double fill) {
  const std::string full_name = unique(prefix_ + std::string(name));
  onnx::NodeProto& node = append("ConstantOfShape", full_name, {list(shape)}, {});
  node.add_output(full_name);
  set_tensor(node, single(type, fill, 1));
  return {full_name, shape};
}

Value GraphBuilder::scalar(float number) {
  std::array<char, 32> digits{};  // the shortest text that reads back as this number, so that names tell numbers apart
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return constant("constant/" + std::string(digits.data(), written.ptr), single(ElementType::float32, number, 0));
}

Value GraphBuilder::scalar(std::int64_t number) {
  return constant(text("constant/int64/", number), single(ElementType::int64, static_cast<double>(number), 0));
}

Value GraphBuilder::constant(const std::string& name, const onnx::TensorProto& tensor) {
  if (names_.insert(name).second) {
    onnx::NodeProto& node = append("Constant", name, {}, {});
    node.add_output(name);
    set_tensor(node, tensor);
  }
  return {name, {}};
}

Value GraphBuilder::list(const std::vector<std::int64_t>& numbers) {
  const std::string name = "list/" + join(numbers, 'x');
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (names_.insert(name).second) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto_DataType_INT64);
    tensor.add_dims(count);
    tensor.mutable_int64_data()->Add(numbers.begin(), numbers.end());
  }
  return {name, {count}};
}

onnx::NodeProto& GraphBuilder::append(const std::string& type, const std::string& name,
                                      const std::vector<Value>& inputs, const std::vector<Attribute>& attributes) {
  onnx::NodeProto& node = *model_.mutable_graph()->add_node();
  node.set_op_type(type);
  node.set_name(name);
  for (const Value& value : inputs) node.add_input(value.name);
  for (const Attribute& attribute : attributes) {
    onnx::AttributeProto& written = *node.add_attribute();
    written.set_name(std::string(attribute.name));
    std::visit([&written](const auto& value) { set_value(written, value); }, attribute.value);
  }
  return node;
}

Value GraphBuilder::node(const std::string& type, std::string_view name, const std::vector<Value>& inputs,
                         const Shape& shape, const std::vector<Attribute>& attributes) {
  const std::string full_name = unique(prefix_ + std::string(name));
  append(type, full_name, inputs, attributes).add_output(full_name);
  return {full_name, shape};
}

std::vector<Value> GraphBuilder::node_with_outputs(const std::string& type, std::string_view name,
                                                   const std::vector<Value>& inputs, const std::vector<Value>& outputs,
                                                   const std::vector<Attribute>& attributes) {
  const std::string full_name = unique(prefix_ + std::string(name));
  onnx::NodeProto& node = append(type, full_name, inputs, attributes);
  std::vector<Value> results;
  for (const Value& output : outputs) {
    results.push_back({unique(full_name + "/" + output.name), output.shape});
    node.add_output(results.back().name);
  }
  return results;
}

void GraphBuilder::output(const Value& value, ElementType type) {
  describe(*model_.mutable_graph()->add_output(), value.name, type, value.shape);
}

onnx::ModelProto GraphBuilder::finish() && {
  return std::move(model_);
}

}  // namespace remora::zoo
