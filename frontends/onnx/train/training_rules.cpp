// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training_rules.hpp"

#include <algorithm>
#include <cassert>

namespace remora::onnx_frontend {
namespace {

std::string key_of(std::string_view domain, std::string_view type) {
  // The default domain has two spellings.
  std::string key(domain == "ai.onnx" ? std::string_view() : domain);
  key += ':';
  key += type;
  return key;
}

/// Marks in `read`, one flag a position of `values`, the positions that a rule names and the node has.
void mark(const Positions& named, std::size_t operand, const std::vector<ValueId>& values, std::vector<bool>& read) {
  for (const std::size_t name : named) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool meant = name == kEvery || (name == kOthers && i != operand) || name == i;
      if (meant && values[i].valid()) read[i] = true;
    }
  }
}

Positions marked(const std::vector<bool>& read) {
  Positions positions;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i]) positions.push_back(i);
  }
  return positions;
}

}  // namespace

const OperandRule* find_operand(const Rule& rule, std::size_t position) {
  const OperandRule* every = nullptr;
  for (const OperandRule& operand : rule.operands) {
    if (operand.of == position) return &operand;
    if (operand.of == kEvery) every = &operand;
  }
  return every;
}

Reads reads_of(const Rule& rule, const Node& node, std::span<const std::size_t> wanted) {
  std::vector<bool> inputs(node.inputs.size());
  std::vector<bool> outputs(node.outputs.size());
  for (const std::size_t position : wanted) {
    const OperandRule* operand = find_operand(rule, position);
    assert(operand != nullptr);
    mark(operand->inputs, position, node.inputs, inputs);
    mark(operand->outputs, position, node.outputs, outputs);
  }
  return {.inputs = marked(inputs), .outputs = marked(outputs)};
}

RuleTable RuleTable::standard() {
  RuleTable table;
  add_layer_rules(table);
  add_normalization_rules(table);
  add_pointwise_rules(table);
  add_movement_rules(table);
  add_reduction_rules(table);
  add_stopping_rules(table);
  return table;
}

Rule RuleTable::conservative() {
  return {.operands = {{.of = kEvery, .inputs = {kEvery}, .outputs = {kEvery}}}};
}

bool RuleTable::knows(const Node& node) const {
  return find(node) != nullptr;
}

Rule RuleTable::rule(const Node& node) const {
  const Entry* entry = find(node);
  if (entry == nullptr) return conservative();
  return entry->maker != nullptr ? entry->maker(node) : entry->rule;
}

void RuleTable::add(std::initializer_list<std::string_view> types, const Rule& rule, std::string_view domain) {
  insert(types, domain, {.rule = rule});
}

void RuleTable::add(std::initializer_list<std::string_view> types, Maker maker, std::string_view domain) {
  insert(types, domain, {.maker = maker});
}

const RuleTable::Entry* RuleTable::find(const Node& node) const {
  const auto found = entries_.find(key_of(node.domain, node.type));
  return found == entries_.end() ? nullptr : &found->second;
}

void RuleTable::insert(std::initializer_list<std::string_view> types, std::string_view domain, const Entry& entry) {
  for (const std::string_view type : types) {
    [[maybe_unused]] const bool added = entries_.emplace(key_of(domain, type), entry).second;
    assert(added && "one rule a type");
  }
}

// Gradient rules of the ops that move elements: their gradients move them back, and read indices and masks at most.

namespace {

/// data, indices, updates: overwritten data gets no gradient, added data gets all of it. A product or an extremum of
/// data and updates reads everything.
Rule scatter(const Node& node) {
  const std::string reduction = node.attributes.get("reduction", std::string("none"));
  if (reduction == "add") return {.operands = {{.of = 0}, {.of = 2, .inputs = {1}}}};
  if (reduction == "none") return {.operands = {{.of = 0, .inputs = {1}}, {.of = 2, .inputs = {1}}}};
  return {.operands = {{.of = 0, .inputs = {0, 1, 2}, .outputs = {0}}, {.of = 2, .inputs = {0, 1, 2}, .outputs = {0}}}};
}

/// The indices if they are an output that the network uses; else they are found again.
Rule top_k(const Node& node) {
  if (node.outputs.size() > 1 && node.outputs[1].valid()) return {.operands = {{.of = 0, .outputs = {1}}}};
  return {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {0}}}};
}

}  // namespace

void add_movement_rules(RuleTable& table) {
  const Rule linear{.operands = {{.of = 0}}};
  table.add({"Reshape",  "Flatten", "Squeeze", "Unsqueeze", "Identity",      "Transpose",    "Slice",
             "Split",    "Pad",     "Tile",    "Expand",    "DepthToSpace",  "SpaceToDepth", "Resize",
             "Upsample", "CumSum",  "Trilu",   "Crop",      "CenterCropPad", "Col2Im",       "AffineGrid"},
            linear);
  table.add({"Concat"}, {.operands = {{.of = kEvery}}});
  table.add({"Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence"},
            {.operands = {{.of = 0, .inputs = {1}}}});
  table.add({"ScatterND", "ScatterElements", "Scatter"}, scatter);
  table.add({"TopK"}, top_k);
  table.add({"GridSample"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0, 1}}}});
  table.add({"Dropout"}, {.operands = {{.of = 0, .outputs = {1}}}, .differentiable_outputs = 1, .mask = 1});
}

// Gradient rules of the normalizations and of softmax.
//
// A normalization's backward needs the statistics of its forward (mean and inverse deviation, a few bytes a row or a
// channel). Where the network has them as outputs they are read; where it doesn't, they are found again from the input:
// outputs so small are not worth a tensor of their own in the schedule.

void add_normalization_rules(RuleTable& table) {
  table.add({"LayerNormalization"}, {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {1, 2}},
                                                  {.of = 1, .inputs = {0}, .outputs = {1, 2}},
                                                  {.of = 2}},
                                     .differentiable_outputs = 1});
  // Training uses the statistics of the batch: the running ones (inputs 3 and 4) are neither read nor differentiated.
  // Outputs 3 and 4 are the saved statistics of opsets before 14.
  table.add({"BatchNormalization"}, {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {3, 4}},
                                                  {.of = 1, .inputs = {0}, .outputs = {3, 4}},
                                                  {.of = 2}},
                                     .differentiable_outputs = 1});
  table.add({"InstanceNormalization", "GroupNormalization"},
            {.operands = {{.of = 0, .inputs = {0, 1}}, {.of = 1, .inputs = {0}}, {.of = 2}}});
  const Rule root_mean_square{
      .operands = {{.of = 0, .inputs = {0, 1}, .outputs = {1}}, {.of = 1, .inputs = {0}, .outputs = {1}}},
      .differentiable_outputs = 1};
  table.add({"RMSNormalization", "SimplifiedLayerNormalization"}, root_mean_square);
  table.add({"MeanVarianceNormalization"}, {.operands = {{.of = 0, .inputs = {0}}}});
  table.add({"LpNormalization", "LRN"}, {.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}});
  table.add({"Softmax", "LogSoftmax"}, {.operands = {{.of = 0, .outputs = {0}}}});
}

// Gradient rules of the reductions. The axes (input 1 of newer opsets) are known integers and get no gradient.

void add_reduction_rules(RuleTable& table) {
  table.add({"ReduceSum", "ReduceMean"}, {.operands = {{.of = 0}}});
  table.add({"ReduceL1", "ReduceSumSquare"}, {.operands = {{.of = 0, .inputs = {0}}}});
  // y = ln(sum x): grad x = grad y * exp(-y)
  table.add({"ReduceLogSum"}, {.operands = {{.of = 0, .outputs = {0}}}});
  table.add({"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp"},
            {.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}});
}

// Ops that no gradient flows through: their derivative is zero almost everywhere, or their result doesn't depend on the
// values of their inputs. Ops with integer results alone need no entry, for integers carry no gradient, but the usual
// ones are listed so that they never look unknown.

void add_stopping_rules(RuleTable& table) {
  const Rule stop{};
  table.add({"Sign", "Floor", "Ceil", "Round", "Hardmax"}, stop);
  table.add({"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf",
             "NonZero", "NonMaxSuppression"},
            stop);
  table.add({"Not", "And", "Or", "Xor", "BitShift", "BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}, stop);
  table.add({"Shape", "Size", "Constant", "ConstantOfShape", "EyeLike", "Range", "OneHot"}, stop);
  table.add({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"},
            stop);
  table.add({"HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"}, stop);
  // Quantized inference: there is no straight-through estimator here.
  table.add({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
             "MatMulInteger", "ConvInteger"},
            stop);
}

namespace {

// Gradient rules of the layers that hold weights, of pooling and of losses.

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
