// SPDX-License-Identifier: Apache-2.0
//
// Writes an ONNX graph node by node.
//
// A Value is the name of a tensor and its shape, so that a layer can size its weights by what it is given. Names follow
// the scopes that are open, and a node's first output is called as the node is:
//
//     GraphBuilder graph("net");
//     const Value image = graph.input("image", ElementType::float32, {kSymbolicBatch, 3, 32, 32});
//     {
//       const auto scope = graph.scope("layer1");
//       const Value weight = graph.weight("conv/weight", {8, 3, 3, 3});     // layer1/conv/weight
//       const Value y = graph.node("Conv", "conv", {image, weight}, {kSymbolicBatch, 8, 30, 30});
//       graph.output(y);                                                    // layer1/conv
//     }
//     const onnx::ModelProto model = std::move(graph).finish();
//
// A weight takes no space in the file: it is a ConstantOfShape node on a shape that all weights of that shape share.
// Shapes are for the layers' own use. Only those of the model's inputs and outputs reach the file; the rest is left to
// shape inference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <onnx/onnx_pb.h>

namespace remora::zoo {

/// Extents, outermost first.
using Shape = std::vector<std::int64_t>;

/// Stands in a shape for the batch size of a model that leaves it open: the dimension parameter "batch".
inline constexpr std::int64_t kSymbolicBatch = -1;

enum class ElementType { float32, int32, int64 };

/// A tensor of the graph under construction.
struct Value {
  std::string name{};
  Shape shape{};
};

/// An attribute of a node: whole number, real number or list of whole numbers.
struct Attribute {
  std::string_view name{};
  std::variant<std::int64_t, float, std::vector<std::int64_t>> value{};
};

class GraphBuilder {
 public:
  /// Names made while it lives begin with the scope's name and a slash.
  class Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { prefix_.resize(length_); }

   private:
    friend class GraphBuilder;
    Scope(std::string& prefix, std::string_view name);

    std::string& prefix_;
    std::size_t length_;
  };

  explicit GraphBuilder(const std::string& name);

  /// Opens a scope inside those that are open; it must not outlive the builder.
  [[nodiscard]] Scope scope(std::string_view name) { return {prefix_, name}; }

  /// An input of the model, named without scope.
  Value input(const std::string& name, ElementType type, const Shape& shape);

  /// A parameter that training updates: every element is `fill`.
  Value weight(std::string_view name, const Shape& shape, float fill = 0.02F);

  /// A tensor that is no parameter (running statistics, a mask): every element is `fill`.
  Value filled(std::string_view name, ElementType type, const Shape& shape, double fill);

  /// A number, as a Constant node shared by all its users, as exporters write it.
  Value scalar(float number);
  Value scalar(std::int64_t number);

  /// A list of whole numbers (a target shape, slice bounds), as an initializer shared by all its users.
  Value list(const std::vector<std::int64_t>& numbers);

  /// One node with one output of shape `shape`.
  Value node(const std::string& type, std::string_view name, const std::vector<Value>& inputs, const Shape& shape,
             const std::vector<Attribute>& attributes = {});

  /// One node whose outputs are `outputs`, named inside the node's own scope.
  std::vector<Value> node_with_outputs(const std::string& type, std::string_view name, const std::vector<Value>& inputs,
                                       const std::vector<Value>& outputs,
                                       const std::vector<Attribute>& attributes = {});

  /// Makes `value` an output of the model; it keeps its name.
  void output(const Value& value, ElementType type = ElementType::float32);

  /// Elements of all weights.
  [[nodiscard]] std::int64_t parameter_count() const { return parameter_count_; }

  /// The model: IR version 8, opset 17. The builder is used up.
  onnx::ModelProto finish() &&;

 private:
  [[nodiscard]] std::string unique(std::string name);
  onnx::NodeProto& append(const std::string& type, const std::string& name, const std::vector<Value>& inputs,
                          const std::vector<Attribute>& attributes);
  Value constant(const std::string& name, const onnx::TensorProto& tensor);

  onnx::ModelProto model_;
  std::string prefix_;
  std::unordered_set<std::string> names_;
  std::int64_t parameter_count_ = 0;
};

}  // namespace remora::zoo
