// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of the layers that hold weights, of pooling and of losses.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {
namespace {

bool has_output(const Node& node, std::size_t position) {
  return position < node.outputs.size() && node.outputs[position].valid();
}

/// The indices of the maxima, where the forward op saves them, say all; otherwise the maxima are found again by
/// comparing the input with the output.
Rule max_pool(const Node& node) {
  if (has_output(node, 1)) return {.operands = {{.of = 0, .outputs = {1}}}};
  return {.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}};
}

/// grad(scores) = softmax(scores) - labels: from the saved log-probabilities or else from the scores.
Rule softmax_cross_entropy(const Node& node) {
  // The second output is a by-product for the backward pass and gets no gradient itself.
  if (has_output(node, 1)) {
    return {.operands = {{.of = 0, .inputs = {1, 2}, .outputs = {1}}}, .differentiable_outputs = 1};
  }
  return {.operands = {{.of = 0, .inputs = {0, 1, 2}}}, .differentiable_outputs = 1};
}

void add_products(RuleTable& table) {
  const Rule product{.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0}}, {.of = 2}}};
  table.add({"Conv", "ConvTranspose", "Gemm"}, product);
  table.add({"MatMul"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0}}}});
  table.add({"FusedMatMul"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0}}}}, "com.microsoft");
  table.add({"Einsum"}, {.operands = {{.of = kEvery, .inputs = {kOthers}}}});
  // X, W, offset, B, mask: the offsets' gradient differentiates the interpolation of X.
  table.add({"DeformConv"}, {.operands = {{.of = 0, .inputs = {1, 2, 4}},
                                          {.of = 1, .inputs = {0, 2, 4}},
                                          {.of = 2, .inputs = {0, 1, 2, 4}},
                                          {.of = 3},
                                          {.of = 4, .inputs = {0, 1, 2}}}});
}

void add_sequence_layers(RuleTable& table) {
  // The gates are recomputed from inputs and states; without their formulas in hand, everything is read.
  table.add({"LSTM", "GRU", "RNN"}, RuleTable::conservative());
  // Q, K, V, mask, past key, past value. Blockwise attention recomputes the probabilities and reads the output for the
  // row sums of grad * output (Dao et al. 2022, section 3.1).
  const Positions operands{0, 1, 2, 3, 4, 5};
  Rule attention;
  for (const std::size_t position : operands) {
    attention.operands.push_back({.of = position, .inputs = operands, .outputs = {0}});
  }
  table.add({"Attention"}, attention);
  // A rotation by angles from the caches and position ids.
  const Rule rotation{.operands = {{.of = 0, .inputs = {1, 2, 3}}}};
  table.add({"RotaryEmbedding"}, rotation);
  table.add({"RotaryEmbedding"}, rotation, "com.microsoft");
}

void add_pooling(RuleTable& table) {
  const Rule shape_only{.operands = {{.of = 0}}};
  const Rule input_and_output{.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}};
  table.add({"AveragePool", "GlobalAveragePool"}, shape_only);
  table.add({"MaxPool"}, max_pool);
  table.add({"GlobalMaxPool", "LpPool", "GlobalLpPool"}, input_and_output);
  table.add({"MaxUnpool"}, {.operands = {{.of = 0, .inputs = {1}}}});
  table.add({"RoiAlign"}, {.operands = {{.of = 0, .inputs = {1, 2}}}});
  table.add({"MaxRoiPool"}, {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {0}}}});
}

}  // namespace

void add_layer_rules(RuleTable& table) {
  add_products(table);
  add_sequence_layers(table);
  add_pooling(table);
  table.add({"SoftmaxCrossEntropyLoss"}, softmax_cross_entropy);
  table.add({"NegativeLogLikelihoodLoss"}, {.operands = {{.of = 0, .inputs = {1, 2}}}});
}

// Gradient rules of the elementwise ops: arithmetic and activation functions.

namespace {

Rule from_nothing() {
  return {.operands = {{.of = 0}}};
}
Rule from_input() {
  return {.operands = {{.of = 0, .inputs = {0}}}};
}
Rule from_output() {
  return {.operands = {{.of = 0, .outputs = {0}}}};
}

/// The output's sign tells on which side of the kink the input was, but only if the left branch is not turned upwards.
Rule kinked(const Node& node, double default_alpha) {
  return node.attributes.get("alpha", default_alpha) >= 0 ? from_output() : from_input();
}

Rule leaky_relu(const Node& node) {
  return kinked(node, 0.01);
}
Rule elu(const Node& node) {
  return kinked(node, 1.0);
}

void add_arithmetic(RuleTable& table) {
  table.add({"Add", "Sub", "Sum", "Mean"}, {.operands = {{.of = kEvery}}});
  table.add({"Mul"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0}}}});
  // grad b = -grad y * a / b^2
  table.add({"Div"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0, 1}}}});
  // grad exponent = grad y * y * ln(base)
  table.add({"Pow"}, {.operands = {{.of = 0, .inputs = {0, 1}}, {.of = 1, .inputs = {0}, .outputs = {0}}}});
  // a mod b = a - b * trunc(a / b)
  table.add({"Mod"}, {.operands = {{.of = 0}, {.of = 1, .inputs = {0, 1}}}});
  // The operands are compared with each other: for two of them the result adds nothing.
  table.add({"Max", "Min"}, {.operands = {{.of = kEvery, .inputs = {kEvery}}}});
  table.add({"Where"}, {.operands = {{.of = 1, .inputs = {0}}, {.of = 2, .inputs = {0}}}});
  table.add({"Neg"}, from_nothing());
  table.add({"Abs", "Log", "Erf", "Sin", "Cos", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"},
            from_input());
  table.add({"Sqrt", "Exp", "Reciprocal", "Tan"}, from_output());
  // To an integer type it stops the gradient because the output is no floating-point value.
  table.add({"Cast", "CastLike"}, from_nothing());
}

void add_activations(RuleTable& table) {
  table.add({"Relu", "Sigmoid", "Tanh", "Selu", "Softplus", "Softsign", "HardSigmoid"}, from_output());
  table.add({"LeakyRelu", "ThresholdedRelu"}, leaky_relu);
  table.add({"Elu", "Celu"}, elu);
  table.add({"Gelu", "HardSwish", "Mish", "Swish", "Shrink"}, from_input());
  // Bounds are inputs or, in old opsets, attributes; they are not trained.
  table.add({"Clip"}, {.operands = {{.of = 0, .inputs = {0, 1, 2}}}});
  table.add({"PRelu"}, {.operands = {{.of = 0, .inputs = {0, 1}}, {.of = 1, .inputs = {0}}}});

  table.add({"Gelu", "QuickGelu"}, from_input(), "com.microsoft");
  // X and an optional bias, added before the activation.
  table.add({"FastGelu", "BiasGelu"}, {.operands = {{.of = 0, .inputs = {0, 1}}, {.of = 1, .inputs = {0, 1}}}},
            "com.microsoft");
}

}  // namespace

void add_pointwise_rules(RuleTable& table) {
  add_arithmetic(table);
  add_activations(table);
}

}  // namespace remora::onnx_frontend
