// SPDX-License-Identifier: Apache-2.0
//
// FLOPs by op type: a table of formulas for what multiplies matrices, and a table of FLOPs an element for the rest.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/read/cost.hpp"
#include "model/types.hpp"

namespace remora::onnx_frontend {
namespace {

struct Operands {
  const Network& network;
  const Node& node;

  /// Null if the node has no such input.
  [[nodiscard]] const Shape* input(std::size_t k) const { return shape(node.inputs, k); }
  [[nodiscard]] const Shape* output(std::size_t k) const { return shape(node.outputs, k); }
  [[nodiscard]] std::int64_t outputs_elements() const { return elements(node.outputs); }
  [[nodiscard]] std::int64_t first_input_elements() const { return input(0) == nullptr ? 0 : element_count(*input(0)); }

 private:
  [[nodiscard]] const Shape* shape(const std::vector<ValueId>& list, std::size_t k) const {
    return k < list.size() && list[k].valid() ? &network.values[list[k]].shape : nullptr;
  }
  [[nodiscard]] std::int64_t elements(const std::vector<ValueId>& list) const {
    std::int64_t total = 0;
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (const Shape* const one = shape(list, k)) total = saturating_sum(total, element_count(*one));
    }
    return total;
  }
};

std::int64_t product_from(const Shape& shape, std::size_t first) {
  std::int64_t product = 1;
  for (std::size_t axis = first; axis < shape.size(); ++axis) product = saturating_product(product, shape[axis]);
  return product;
}

/// Weights (M, C / groups, kernel...): each output element takes C / groups · kernel volume multiplications.
std::int64_t convolution(const Operands& operands, std::size_t weights) {
  const Shape* const shape = operands.input(weights);
  const Shape* const output = operands.output(0);
  if (shape == nullptr || output == nullptr) return 0;
  return saturating_product(2, saturating_product(element_count(*output), product_from(*shape, 1)));
}

/// Weights (C, M / groups, kernel...): each input element is spread over M / groups · kernel volume places.
std::int64_t transposed_convolution(const Operands& operands) {
  const Shape* const weights = operands.input(1);
  return weights == nullptr
             ? 0
             : saturating_product(2, saturating_product(operands.first_input_elements(), product_from(*weights, 1)));
}

/// Each output element is a scalar product along the last axis of the left operand (transposed: the one before).
std::int64_t matrix_product(const Operands& operands) {
  const Shape* const left = operands.input(0);
  const Shape* const output = operands.output(0);
  if (left == nullptr || left->empty() || output == nullptr) return 0;
  const bool transposed = operands.node.attributes.get("transA", std::int64_t{0}) != 0 && left->size() > 1;
  const std::int64_t inner = transposed ? (*left)[left->size() - 2] : left->back();
  return saturating_product(2, saturating_product(element_count(*output), inner));
}

/// A bound: one multiplication and one addition an operand for each combination of all labels, as if the operands were
/// not multiplied pair by pair.
std::int64_t einsum(const Operands& operands) {
  std::vector<const Shape*> shapes;
  for (std::size_t k = 0; k < operands.node.inputs.size(); ++k) {
    if (operands.input(k) == nullptr) return 0;
    shapes.push_back(operands.input(k));
  }
  const std::string equation = operands.node.attributes.get("equation", std::string());
  return saturating_product(static_cast<std::int64_t>(shapes.size()), einsum_combinations(equation, shapes));
}

/// Query times key, and that times value, as PyTorch counts them (the softmax between is no product); shapes as opset 23
/// gives them, heads an axis or folded into the last one.
std::int64_t attention(const Operands& operands) {
  const Shape* const query = operands.input(0);
  const Shape* const value = operands.input(2);
  const Shape* const output = operands.output(0);
  if (query == nullptr || value == nullptr || output == nullptr || query->size() < 3 || value->size() < 3) return 0;
  const Shape* const past = operands.input(4);
  const std::int64_t own_length = (*value)[value->size() - 2];
  const std::int64_t length = saturating_sum(own_length, past != nullptr && past->size() == 4 ? (*past)[2] : 0);
  return saturating_product(2,
                            saturating_product(length, saturating_sum(element_count(*query), element_count(*output))));
}

/// `gates` products of the input and of the state with their weights, at each step, in each direction. The weights are
/// (directions, gates · hidden, input) and (directions, gates · hidden, hidden).
std::int64_t recurrent(const Operands& operands) {
  const Shape* const input = operands.input(0);
  const Shape* const weights = operands.input(1);
  const Shape* const state_weights = operands.input(2);
  if (input == nullptr || input->size() != 3 || weights == nullptr || state_weights == nullptr) return 0;
  const std::int64_t steps = saturating_product((*input)[0], (*input)[1]);
  return saturating_product(
      2, saturating_product(steps, saturating_sum(product_from(*weights, 0), product_from(*state_weights, 0))));
}

/// Each output element looks at the whole window.
std::int64_t pooling(const Operands& operands) {
  const Shape kernel = operands.node.attributes.get("kernel_shape", Shape{});
  const Shape* const output = operands.output(0);
  return output == nullptr ? 0 : saturating_product(element_count(*output), product_from(kernel, 0));
}

struct Formula {
  std::int64_t (*count)(const Operands&) = nullptr;
  /// The inputs whose gradients each take as much as the forward op; empty for ops that are not products.
  std::vector<std::int64_t> operands{};
  OpClass op_class = OpClass::memory;
};

const Formula* find_formula(std::string_view type) {
  static const std::map<std::string_view, Formula, std::less<>> kTable{
      {"Conv", {[](const Operands& operands) { return convolution(operands, 1); }, {0, 1}, OpClass::convolution}},
      {"ConvInteger",
       {[](const Operands& operands) { return convolution(operands, 1); }, {0, 1}, OpClass::convolution}},
      {"DeformConv", {[](const Operands& operands) { return convolution(operands, 1); }, {0, 1}, OpClass::convolution}},
      {"FusedConv", {[](const Operands& operands) { return convolution(operands, 1); }, {0, 1}, OpClass::convolution}},
      {"QLinearConv",
       {[](const Operands& operands) { return convolution(operands, 3); }, {0, 3}, OpClass::convolution}},
      {"ConvTranspose", {transposed_convolution, {0, 1}, OpClass::convolution}},
      {"Gemm", {matrix_product, {0, 1}, OpClass::product}},
      {"MatMul", {matrix_product, {0, 1}, OpClass::product}},
      {"MatMulInteger", {matrix_product, {0, 1}, OpClass::product}},
      {"QLinearMatMul", {matrix_product, {0, 3}, OpClass::product}},
      {"FusedMatMul", {matrix_product, {0, 1}, OpClass::product}},
      {"FusedGemm", {matrix_product, {0, 1}, OpClass::product}},
      {"MatMulNBits", {matrix_product, {0}, OpClass::product}},
      {"Einsum", {einsum, {0, 1, 2, 3, 4, 5, 6, 7}, OpClass::product}},
      {"Attention", {attention, {0, 1, 2}, OpClass::attention}},
      {"LSTM", {recurrent, {0, 1}, OpClass::product}},
      {"GRU", {recurrent, {0, 1}, OpClass::product}},
      {"RNN", {recurrent, {0, 1}, OpClass::product}},
      {"MaxPool", {pooling, {}}},
      {"AveragePool", {pooling, {}}},
      {"LpPool", {pooling, {}}},
  };
  const auto found = kTable.find(type);
  return found == kTable.end() ? nullptr : &found->second;
}

/// FLOPs for each element of the outputs, or of the first input where that is larger (reductions).
std::int64_t flops_per_element(std::string_view type) {
  static const std::map<std::string_view, std::int64_t, std::less<>> kTable{
      {"Identity", 0},
      {"Reshape", 0},
      {"Transpose", 0},
      {"Concat", 0},
      {"Split", 0},
      {"Slice", 0},
      {"Gather", 0},
      {"GatherElements", 0},
      {"GatherND", 0},
      {"ScatterND", 0},
      {"Expand", 0},
      {"Tile", 0},
      {"Pad", 0},
      {"Cast", 0},
      {"Flatten", 0},
      {"Squeeze", 0},
      {"Unsqueeze", 0},
      {"DepthToSpace", 0},
      {"SpaceToDepth", 0},
      {"ScatterElements", 0},
      {"Sigmoid", 4},
      {"Tanh", 6},
      {"Exp", 4},
      {"Log", 4},
      {"Erf", 8},
      {"Gelu", 12},
      {"FastGelu", 12},
      {"QuickGelu", 6},
      {"BiasGelu", 13},
      {"Mish", 12},
      {"Swish", 5},
      {"HardSwish", 4},
      {"Elu", 5},
      {"Selu", 6},
      {"Celu", 6},
      {"Softplus", 6},
      {"Softsign", 3},
      {"Softmax", 5},
      {"LogSoftmax", 6},
      {"Pow", 8},
      {"Sqrt", 2},
      {"LRN", 12},
      {"BatchNormalization", 4},
      {"InstanceNormalization", 8},
      {"LayerNormalization", 8},
      {"GroupNormalization", 8},
      {"RMSNormalization", 5},
      {"SimplifiedLayerNormalization", 5},
      {"SkipLayerNormalization", 9},
      {"SkipSimplifiedLayerNormalization", 6},
      {"LpNormalization", 4},
      {"MeanVarianceNormalization", 8},
      {"RotaryEmbedding", 3},
      {"Resize", 7},
      {"Upsample", 7},
      {"GridSample", 11},
      {"Dropout", 2},
      {"Clip", 2},
      {"LeakyRelu", 2},
      {"PRelu", 2},
      {"Loss", 8},
  };
  const auto found = kTable.find(type);
  return found == kTable.end() ? 1 : found->second;
}

std::int64_t forward_flops(const Network& network, const Node& node) {
  if (node.inner) return node.inner->flops;
  const Operands operands{network, node};
  if (const Formula* const formula = find_formula(node.type)) return formula->count(operands);
  const std::int64_t elements = std::max(operands.outputs_elements(), operands.first_input_elements());
  return saturating_product(flops_per_element(node.type), elements);
}

/// How often the forward node's FLOPs a backward node takes.
std::int64_t backward_factor(const Node& forward, const Node& backward) {
  constexpr std::int64_t kOther = 2;
  const std::int64_t stated = backward.attributes.get("duration_factor", std::int64_t{0});
  if (stated > 0) return stated;
  const Formula* const formula = find_formula(forward.type);
  if (formula == nullptr || formula->operands.empty()) return kOther;
  if (!backward.attributes.has("gradient_of")) return kOther;
  const auto positions = backward.attributes.get("gradient_of", std::vector<std::int64_t>{});
  return std::count_if(positions.begin(), positions.end(), [&](std::int64_t position) {
    return std::find(formula->operands.begin(), formula->operands.end(), position) != formula->operands.end();
  });
}

}  // namespace

OpClass op_class(const Network& network, NodeId id) {
  const Node& node = network.nodes[id];
  const Formula* const formula =
      find_formula(node.backward_of.valid() ? network.nodes[node.backward_of].type : node.type);
  return formula == nullptr ? OpClass::memory : formula->op_class;
}

std::int64_t flops(const Network& network, NodeId id) {
  const Node& node = network.nodes[id];
  if (node.view || node.unknown) return 0;
  if (!node.backward_of.valid()) return forward_flops(network, node);
  const Node& forward = network.nodes[node.backward_of];
  // Even where no operand's gradient is wanted, a bias gradient sums what arrives: one addition an element.
  const std::int64_t factor = backward_factor(forward, node);
  if (factor == 0) return Operands{network, forward}.outputs_elements();
  return saturating_product(factor, forward_flops(network, forward));
}

}  // namespace remora::onnx_frontend
