// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of the elementwise ops: arithmetic and activation functions.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

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
