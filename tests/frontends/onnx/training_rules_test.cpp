// SPDX-License-Identifier: Apache-2.0
//
// Every rule against what the formula of its gradient mentions, written down once more.
#include "frontends/onnx/train/training_rules.hpp"

#include <ostream>

#include <gtest/gtest.h>

namespace remora::onnx_frontend {
namespace {

/// An op with so many inputs and outputs, all present; the gradients of `wanted` must read exactly `inputs`, `outputs`.
struct Case {
  std::string type{};
  std::size_t input_count = 1;
  std::size_t output_count = 1;
  Positions wanted{};
  Positions inputs{};
  Positions outputs{};
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.type;
}

Node node_of(const std::string& type, std::size_t inputs, std::size_t outputs) {
  Node node{.type = type};
  for (std::size_t i = 0; i < inputs; ++i) node.inputs.push_back(ValueId(i));
  for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(ValueId(inputs + i));
  return node;
}

class ReadsOfRule : public testing::TestWithParam<Case> {};

TEST_P(ReadsOfRule, AreExactlyWhatTheGradientMentions) {
  const Case& c = GetParam();
  const RuleTable table = RuleTable::standard();
  const Node node = node_of(c.type, c.input_count, c.output_count);
  ASSERT_TRUE(table.knows(node)) << c.type;
  const Rule rule = table.rule(node);
  for (const std::size_t position : c.wanted) ASSERT_NE(find_operand(rule, position), nullptr) << c.type << position;
  const Reads reads = reads_of(rule, node, c.wanted);
  EXPECT_EQ(reads.inputs, c.inputs) << c.type;
  EXPECT_EQ(reads.outputs, c.outputs) << c.type;
}

const Case kLayers[] = {
    {"Conv", 3, 1, {0}, {1}, {}},
    {"Conv", 3, 1, {1}, {0}, {}},
    {"Conv", 3, 1, {2}, {}, {}},
    {"Conv", 3, 1, {0, 1, 2}, {0, 1}, {}},
    {"ConvTranspose", 2, 1, {0, 1}, {0, 1}, {}},
    {"Gemm", 3, 1, {0}, {1}, {}},
    {"Gemm", 3, 1, {1, 2}, {0}, {}},
    {"MatMul", 2, 1, {0}, {1}, {}},
    {"MatMul", 2, 1, {1}, {0}, {}},
    {"Einsum", 3, 1, {1}, {0, 2}, {}},
    {"Einsum", 1, 1, {0}, {}, {}},
    {"DeformConv", 5, 1, {3}, {}, {}},
    {"DeformConv", 5, 1, {2}, {0, 1, 2, 4}, {}},
    {"LSTM", 4, 3, {0}, {0, 1, 2, 3}, {0, 1, 2}},
    {"GRU", 3, 2, {1}, {0, 1, 2}, {0, 1}},
    {"Attention", 4, 1, {0, 1, 2}, {0, 1, 2, 3}, {0}},
    {"RotaryEmbedding", 3, 1, {0}, {1, 2}, {}},
    {"AveragePool", 1, 1, {0}, {}, {}},
    {"GlobalAveragePool", 1, 1, {0}, {}, {}},
    {"MaxPool", 1, 1, {0}, {0}, {0}},
    {"MaxPool", 1, 2, {0}, {}, {1}},
    {"GlobalMaxPool", 1, 1, {0}, {0}, {0}},
    {"LpPool", 1, 1, {0}, {0}, {0}},
    {"MaxUnpool", 2, 1, {0}, {1}, {}},
    {"RoiAlign", 3, 1, {0}, {1, 2}, {}},
    {"SoftmaxCrossEntropyLoss", 2, 2, {0}, {1}, {1}},
    {"SoftmaxCrossEntropyLoss", 3, 1, {0}, {0, 1, 2}, {}},
    {"NegativeLogLikelihoodLoss", 2, 1, {0}, {1}, {}},
};

const Case kNormalizations[] = {
    {"LayerNormalization", 3, 3, {0}, {0, 1}, {1, 2}},
    {"LayerNormalization", 3, 1, {0, 1, 2}, {0, 1}, {}},
    {"LayerNormalization", 3, 1, {2}, {}, {}},
    {"BatchNormalization", 5, 1, {0, 1, 2}, {0, 1}, {}},
    {"BatchNormalization", 5, 5, {1}, {0}, {3, 4}},
    {"BatchNormalization", 5, 3, {0}, {0, 1}, {}},
    {"InstanceNormalization", 3, 1, {0}, {0, 1}, {}},
    {"GroupNormalization", 3, 1, {1, 2}, {0}, {}},
    {"RMSNormalization", 2, 2, {0}, {0, 1}, {1}},
    {"MeanVarianceNormalization", 1, 1, {0}, {0}, {}},
    {"LRN", 1, 1, {0}, {0}, {0}},
    {"Softmax", 1, 1, {0}, {}, {0}},
    {"LogSoftmax", 1, 1, {0}, {}, {0}},
};

const Case kPointwise[] = {
    {"Add", 2, 1, {0, 1}, {}, {}},    {"Sub", 2, 1, {0, 1}, {}, {}},      {"Sum", 3, 1, {0, 1, 2}, {}, {}},
    {"Mul", 2, 1, {0}, {1}, {}},      {"Mul", 2, 1, {1}, {0}, {}},        {"Mul", 2, 1, {0, 1}, {0, 1}, {}},
    {"Div", 2, 1, {0}, {1}, {}},      {"Div", 2, 1, {1}, {0, 1}, {}},     {"Pow", 2, 1, {0}, {0, 1}, {}},
    {"Pow", 2, 1, {1}, {0}, {0}},     {"Max", 3, 1, {1}, {0, 1, 2}, {}},  {"Min", 2, 1, {0}, {0, 1}, {}},
    {"Where", 3, 1, {1}, {0}, {}},    {"Where", 3, 1, {1, 2}, {0}, {}},   {"Neg", 1, 1, {0}, {}, {}},
    {"Abs", 1, 1, {0}, {0}, {}},      {"Log", 1, 1, {0}, {0}, {}},        {"Erf", 1, 1, {0}, {0}, {}},
    {"Cos", 1, 1, {0}, {0}, {}},      {"Sqrt", 1, 1, {0}, {}, {0}},       {"Exp", 1, 1, {0}, {}, {0}},
    {"Cast", 1, 1, {0}, {}, {}},      {"Reciprocal", 1, 1, {0}, {}, {0}}, {"Relu", 1, 1, {0}, {}, {0}},
    {"Sigmoid", 1, 1, {0}, {}, {0}},  {"Tanh", 1, 1, {0}, {}, {0}},       {"LeakyRelu", 1, 1, {0}, {}, {0}},
    {"Elu", 1, 1, {0}, {}, {0}},      {"Selu", 1, 1, {0}, {}, {0}},       {"Celu", 1, 1, {0}, {}, {0}},
    {"Softplus", 1, 1, {0}, {}, {0}}, {"Softsign", 1, 1, {0}, {}, {0}},   {"HardSigmoid", 1, 1, {0}, {}, {0}},
    {"Gelu", 1, 1, {0}, {0}, {}},     {"HardSwish", 1, 1, {0}, {0}, {}},  {"Mish", 1, 1, {0}, {0}, {}},
    {"PRelu", 2, 1, {0}, {0, 1}, {}}, {"PRelu", 2, 1, {1}, {0}, {}},      {"Clip", 3, 1, {0}, {0, 1, 2}, {}},
    {"Swish", 1, 1, {0}, {0}, {}},    {"Mod", 2, 1, {0}, {}, {}},         {"Mean", 2, 1, {1}, {}, {}},
};

const Case kMovements[] = {
    {"Concat", 3, 1, {0, 2}, {}, {}}, {"Split", 2, 3, {0}, {}, {}},         {"Slice", 4, 1, {0}, {}, {}},
    {"Transpose", 1, 1, {0}, {}, {}}, {"Resize", 4, 1, {0}, {}, {}},        {"Upsample", 2, 1, {0}, {}, {}},
    {"Pad", 3, 1, {0}, {}, {}},       {"Expand", 2, 1, {0}, {}, {}},        {"Tile", 2, 1, {0}, {}, {}},
    {"Reshape", 2, 1, {0}, {}, {}},   {"DepthToSpace", 1, 1, {0}, {}, {}},  {"CumSum", 2, 1, {0}, {}, {}},
    {"Trilu", 2, 1, {0}, {}, {}},     {"Gather", 2, 1, {0}, {1}, {}},       {"GatherElements", 2, 1, {0}, {1}, {}},
    {"GatherND", 2, 1, {0}, {1}, {}}, {"ScatterND", 3, 1, {0, 2}, {1}, {}}, {"TopK", 2, 2, {0}, {}, {1}},
    {"TopK", 2, 1, {0}, {0, 1}, {0}}, {"GridSample", 2, 1, {0}, {1}, {}},   {"GridSample", 2, 1, {1}, {0, 1}, {}},
    {"Dropout", 3, 2, {0}, {}, {1}},
};

const Case kReductions[] = {
    {"ReduceMean", 2, 1, {0}, {}, {}},   {"ReduceSum", 2, 1, {0}, {}, {}},   {"ReduceMax", 1, 1, {0}, {0}, {0}},
    {"ReduceProd", 1, 1, {0}, {0}, {0}}, {"ReduceL1", 1, 1, {0}, {0}, {}},   {"ReduceLogSum", 1, 1, {0}, {}, {0}},
    {"ReduceL2", 1, 1, {0}, {0}, {0}},   {"ReduceMin", 2, 1, {0}, {0}, {0}}, {"ReduceSumSquare", 1, 1, {0}, {0}, {}},
};

INSTANTIATE_TEST_SUITE_P(Layer, ReadsOfRule, testing::ValuesIn(kLayers));
INSTANTIATE_TEST_SUITE_P(Normalization, ReadsOfRule, testing::ValuesIn(kNormalizations));
INSTANTIATE_TEST_SUITE_P(Pointwise, ReadsOfRule, testing::ValuesIn(kPointwise));
INSTANTIATE_TEST_SUITE_P(Movement, ReadsOfRule, testing::ValuesIn(kMovements));
INSTANTIATE_TEST_SUITE_P(Reduction, ReadsOfRule, testing::ValuesIn(kReductions));

TEST(RuleTable, GivesNoGradientToIndicesShapesAndStatistics) {
  const RuleTable table = RuleTable::standard();
  const std::pair<std::string, std::size_t> inputs[] = {{"Gather", 1},
                                                        {"Reshape", 1},
                                                        {"BatchNormalization", 3},
                                                        {"BatchNormalization", 4},
                                                        {"Slice", 1},
                                                        {"Resize", 2},
                                                        {"Where", 0},
                                                        {"ScatterND", 1},
                                                        {"Clip", 1},
                                                        {"Pad", 2},
                                                        {"Dropout", 1}};
  for (const auto& [type, position] : inputs) {
    EXPECT_EQ(find_operand(table.rule(node_of(type, 5, 1)), position), nullptr) << type << ' ' << position;
  }
}

TEST(RuleTable, StopsGradientsAtStepsAndComparisons) {
  const RuleTable table = RuleTable::standard();
  for (const std::string type : {"ArgMax", "Shape", "Equal", "Not", "Round", "Floor", "Sign", "OneHot",
                                 "RandomNormalLike", "QuantizeLinear", "NonZero", "ConstantOfShape"}) {
    const Node node = node_of(type, 2, 1);
    EXPECT_TRUE(table.knows(node)) << type;
    EXPECT_TRUE(table.rule(node).operands.empty()) << type;
  }
}

TEST(RuleTable, ReadsTheInputWhereTheOutputsSignSaysNothing) {
  const RuleTable table = RuleTable::standard();
  for (const std::string type : {"LeakyRelu", "Elu", "Celu"}) {
    Node node = node_of(type, 1, 1);
    node.attributes.set("alpha", -0.5);
    const std::size_t wanted[] = {0};
    EXPECT_EQ(reads_of(table.rule(node), node, wanted), (Reads{.inputs = {0}, .outputs = {}})) << type;
  }
}

TEST(RuleTable, KnowsTheReductionOfAScatter) {
  const RuleTable table = RuleTable::standard();
  const std::size_t wanted[] = {0, 2};
  Node node = node_of("ScatterElements", 3, 1);
  node.attributes.set("reduction", std::string("add"));
  EXPECT_EQ(reads_of(table.rule(node), node, wanted), (Reads{.inputs = {1}, .outputs = {}}));
  node.attributes.set("reduction", std::string("mul"));
  EXPECT_EQ(reads_of(table.rule(node), node, wanted), (Reads{.inputs = {0, 1, 2}, .outputs = {0}}));
}

TEST(RuleTable, TellsDomainsApart) {
  const RuleTable table = RuleTable::standard();
  Node node = node_of("Relu", 1, 1);
  EXPECT_TRUE(table.knows(node));
  node.domain = "ai.onnx";
  EXPECT_TRUE(table.knows(node));
  node.domain = "org.example";
  EXPECT_FALSE(table.knows(node));
  Node attention = node_of("Attention", 3, 1);
  attention.domain = "com.microsoft";
  EXPECT_FALSE(table.knows(attention)) << "another op of the same name";
}

TEST(RuleTable, ReadsEverythingOfAnUnknownOp) {
  const Node node = node_of("Frobnicate", 2, 2);
  const RuleTable table = RuleTable::standard();
  EXPECT_FALSE(table.knows(node));
  const std::size_t wanted[] = {1};
  EXPECT_EQ(reads_of(table.rule(node), node, wanted), (Reads{.inputs = {0, 1}, .outputs = {0, 1}}));
}

TEST(ReadsOf, IgnoresPositionsThatTheNodeDoesNotHave) {
  Node node = node_of("Clip", 3, 1);
  node.inputs[1] = ValueId::none();
  const std::size_t wanted[] = {0};
  EXPECT_EQ(reads_of(RuleTable::standard().rule(node), node, wanted), (Reads{.inputs = {0, 2}, .outputs = {}}));
}

}  // namespace
}  // namespace remora::onnx_frontend
