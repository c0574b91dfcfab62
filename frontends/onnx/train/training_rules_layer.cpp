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

}  // namespace remora::onnx_frontend
