// SPDX-License-Identifier: Apache-2.0
#include "tests/examples/zoo_model.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

namespace remora::zoo {

namespace {

std::string shape_text(const onnx::TypeProto& type) {
  std::string text;
  for (const onnx::TensorShapeProto_Dimension& dimension : type.tensor_type().shape().dim()) {
    if (!text.empty()) text.push_back('x');
    if (dimension.has_dim_value()) {
      text.append(std::to_string(dimension.dim_value()));
    } else {
      text.append(dimension.has_dim_param() ? dimension.dim_param() : "?");
    }
  }
  return text;
}

}  // namespace

Model make(const std::string& name, const Given& given, std::int64_t batch) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return build_model(architecture, Settings(architecture.parameters, given), batch);
  }
  throw std::logic_error("no architecture " + name);
}

std::int64_t count_parameters(const onnx::ModelProto& model) {
  std::map<std::string, std::int64_t> elements;
  for (const onnx::TensorProto& shape : model.graph().initializer()) {
    std::int64_t product = 1;
    for (const std::int64_t extent : shape.int64_data()) product *= extent;
    elements[shape.name()] = product;
  }
  std::set<std::string> statistics;
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() == "BatchNormalization") statistics.insert({node.input(3), node.input(4)});
  }
  std::int64_t count = 0;
  for (const onnx::NodeProto& node : model.graph().node()) {
    const bool weight = node.op_type() == "ConstantOfShape" && node.attribute(0).t().float_data_size() == 1;
    if (weight && !statistics.contains(node.output(0))) count += elements.at(node.input(0));
  }
  return count;
}

std::map<std::string, std::string> infer_shapes(const onnx::ModelProto& model) {
  onnx::ModelProto copy = model;
  for (onnx::ValueInfoProto& output : *copy.mutable_graph()->mutable_output()) {
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  const onnx::ShapeInferenceOptions strict(/*check_type_val=*/true, /*strict_mode_val=*/1, /*data_prop_val=*/true);
  onnx::shape_inference::InferShapes(copy, onnx::OpSchemaRegistry::Instance(), strict);
  std::map<std::string, std::string> shapes;
  for (const auto* const values : {&copy.graph().value_info(), &copy.graph().output()}) {
    for (const onnx::ValueInfoProto& value : *values) {
      const std::string text = shape_text(value.type());
      if (value.type().tensor_type().has_shape() && text.find('?') == std::string::npos) shapes[value.name()] = text;
    }
  }
  return shapes;
}

std::vector<std::string> stated_output_shapes(const onnx::ModelProto& model) {
  std::vector<std::string> shapes;
  for (const onnx::ValueInfoProto& output : model.graph().output()) shapes.push_back(shape_text(output.type()));
  return shapes;
}

}  // namespace remora::zoo
