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

}  // namespace remora::onnx_frontend
