// SPDX-License-Identifier: Apache-2.0
//
// Random models, random valid sequences: the rewritten model, read again, is a graph whose own order needs the memory
// and the time of the schedule.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "onnx/onnx_pb.h"
#include "rewrite_support.hpp"

namespace remora::onnx_frontend::test {
namespace {

using Draw = std::mt19937;

std::size_t draw_below(Draw& draw, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(draw);
}

/// Values of shape 4x6 made from each other in many ways.
class RandomModel {
 public:
  RandomModel(unsigned seed, bool shapes) : draw_(seed), shapes_(shapes) {
    builder_.input("x", {extent(4), extent(6)}).weight("w", {6, 6}).integers("flat", {24}).integers("back", {4, 6});
    const std::size_t layers = 6 + draw_below(draw_, 16);
    for (std::size_t i = 0; i < layers; ++i) add_layer(std::to_string(i));
    builder_.output(values_.back());
    if (draw_below(draw_, 2) == 0) builder_.output(values_[1 + draw_below(draw_, values_.size() - 1)]);
    if (draw_below(draw_, 2) == 0) {
      builder_.node("Reshape", {any(), "flat"}, {"flat_output"}, "flat_output").output("flat_output");
    }
    auto& outputs = *builder_.proto().mutable_graph()->mutable_output();
    if (outputs.size() > 1 && outputs[0].name() == outputs[1].name()) outputs.RemoveLast();
  }

  onnx::ModelProto& proto() { return builder_.proto(); }

 private:
  std::string any() { return values_[draw_below(draw_, values_.size())]; }
  std::string recent() {
    return values_[values_.size() - 1 - draw_below(draw_, std::min<std::size_t>(3, values_.size()))];
  }

  void add_layer(const std::string& i) {
    switch (draw_below(draw_, shapes_ ? 9 : 8)) {
      case 0:
        builder_.node("Relu", {recent()}, {"u" + i}, "u" + i);
        return made("u" + i);
      case 1:
      case 2:
        builder_.node("Add", {recent(), any()}, {"p" + i});
        return made("p" + i);
      case 3:
        builder_.node("MatMul", {recent(), "w"}, {"m" + i}, "m" + i);
        return made("m" + i);
      case 4:
        builder_.node("Split", {recent()}, {"l" + i, "r" + i}, "s" + i).set("axis", 0);
        builder_.node("Concat", {"r" + i, "l" + i}, {"c" + i}, "c" + i).set("axis", 0);
        return made("c" + i);
      case 5:
        builder_.node("Reshape", {recent(), "flat"}, {"f" + i}, "f" + i).node("Tanh", {"f" + i}, {"t" + i}, "t" + i);
        builder_.node("Reshape", {"t" + i, "back"}, {"b" + i}, "b" + i);
        return made("b" + i);
      case 6:
        builder_.node(draw_below(draw_, 2) == 0 ? "RandomNormalLike" : "Exp", {recent()}, {"n" + i}, "n" + i);
        builder_.node("Neg", {any()}, {"dead" + i}, "dead" + i);
        return made("n" + i);
      case 7:
        builder_.node("ConstantOfShape", {"back"}, {"k" + i}, "k" + i).node("Mul", {"k" + i, recent()}, {"q" + i});
        return made("q" + i);
      default:
        builder_.node("Shape", {any()}, {"z" + i}, "z" + i).node("Neg", {recent()}, {"y" + i}, "y" + i);
        builder_.node("Reshape", {"y" + i, "z" + i}, {"v" + i}, "v" + i);
        return made("v" + i);
    }
  }
  void made(const std::string& name) { values_.push_back(name); }

  Draw draw_;
  bool shapes_;
  ModelBuilder builder_;
  std::vector<std::string> values_{"x"};
};

/// A valid sequence; with `in_order`, first computes in the order of the graph.
Sequence random_sequence(const Instance& instance, Draw& draw, bool in_order) {
  Order open = remora::input_order(instance);
  Sequence sequence;
  std::vector<OpId> again;
  std::vector<bool> done(instance.graph().tensors.size(), true);
  for (const Op& op : instance.graph().ops) {
    for (const TensorId output : op.outputs) done[output] = false;
  }
  while (!open.empty()) {
    if (!again.empty() && draw_below(draw, 3) == 0) {
      sequence.push_back(again[draw_below(draw, again.size())]);
      continue;
    }
    std::vector<std::size_t> ready;
    for (std::size_t k = 0; k < open.size() && (!in_order || k == 0); ++k) {
      const Op& op = instance.graph().ops[open[k]];
      const bool has_inputs =
          std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) { return done[input]; });
      const bool is_in_turn = std::none_of(op.after.begin(), op.after.end(), [&](OpId earlier) {
        return std::find(open.begin(), open.end(), earlier) != open.end();
      });
      if (has_inputs && is_in_turn) ready.push_back(k);
    }
    const std::size_t next = ready[draw_below(draw, ready.size())];
    const OpId op = open[next];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(next));
    sequence.push_back(op);
    if (instance.graph().ops[op].recompute) again.push_back(op);
    for (const TensorId output : instance.graph().ops[op].outputs) done[output] = true;
  }
  return sequence;
}

/// Without the computes that serve nobody, which a reader of the model drops.
Sequence without_useless(const Graph& graph, Sequence sequence) {
  std::vector<bool> needed(graph.tensors.size());
  for (std::size_t k = 0; k < needed.size(); ++k) needed[k] = graph.tensors[k].keep;
  for (std::size_t i = sequence.size(); i-- > 0;) {
    const Op& op = graph.ops[sequence[i]];
    const bool useful = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) { return needed[id]; });
    for (const TensorId output : op.outputs) needed[output] = false;
    if (!useful) {
      sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    for (const TensorId input : op.inputs) needed[input] = true;
  }
  return sequence;
}

class RandomRewrite : public testing::TestWithParam<unsigned> {};

TEST_P(RandomRewrite, InAnyOrderNeedsTheMemoryAndTheTimeOfTheSchedule) {
  RandomModel model(GetParam(), false);
  const Graph graph = read_onnx(model.proto().SerializeAsString(), "test.onnx", {}).graph;
  const Instance instance(std::make_shared<const Graph>(graph), {});
  Draw draw(GetParam());
  for (int round = 0; round < 4; ++round) {
    const auto sequence = without_useless(graph, random_sequence(instance, draw, false));
    const Schedule schedule = schedule_of(graph, sequence);
    const onnx::ModelProto result = rewritten(model.proto(), sequence);
    expect_same_outputs(model.proto(), result);
    const Graph again = read_onnx(result.SerializeAsString(), "rewritten.onnx", {}).graph;
    ASSERT_EQ(again.ops.size(), sequence.size());
    for (std::size_t i = 0; i < sequence.size(); ++i) EXPECT_EQ(again.ops[i].type, graph.ops[sequence[i]].type);
    const Instance own(std::make_shared<const Graph>(again), {});
    const Evaluation evaluation = evaluate(own, input_order(own));
    EXPECT_EQ(evaluation.duration, schedule.duration);
    EXPECT_EQ(evaluation.peak, schedule.peak_memory);
    EXPECT_EQ(again.fixed_memory, graph.fixed_memory);
  }
}

TEST_P(RandomRewrite, InInputOrderTakesShapesAndUselessRecomputes) {
  RandomModel model(GetParam(), true);
  const Graph graph = read_onnx(model.proto().SerializeAsString(), "test.onnx", {}).graph;
  const Instance instance(std::make_shared<const Graph>(graph), {});
  Draw draw(GetParam());
  const auto sequence = random_sequence(instance, draw, true);
  const onnx::ModelProto result = rewritten(model.proto(), sequence);
  expect_same_outputs(model.proto(), result);
  const auto copies = static_cast<int>(sequence.size() - graph.ops.size());
  EXPECT_GE(result.graph().node_size(), model.proto().graph().node_size() + copies);
}

TEST_P(RandomRewrite, NoOrderThatTheGraphPermitsNeedsAShapeTooEarly) {
  RandomModel model(GetParam(), true);
  const Graph graph = read_onnx(model.proto().SerializeAsString(), "test.onnx", {}).graph;
  const Instance instance(std::make_shared<const Graph>(graph), {.order = OrderMode::free});
  Draw draw(GetParam() + 1000);
  for (int round = 0; round < 4; ++round) {
    const auto sequence = random_sequence(instance, draw, false);
    expect_same_outputs(model.proto(), rewritten(model.proto(), sequence));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRewrite, testing::Range(0U, 150U));

class RewrittenFile : public testing::TestWithParam<const char*> {};

TEST_P(RewrittenFile, NeedsTheMemoryAndTheTimeOfTheSchedule) {
  const std::string path = GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(text.str()));
  OnnxOptions options;
  if (text.str().find("\x12\x05"
                      "batch") != std::string::npos)
    options.dimensions = {{"batch", 2}};
  const Graph graph = read_onnx(text.str(), path, options).graph;
  const Instance instance(std::make_shared<const Graph>(graph), {});
  Draw draw(1);
  for (const bool in_order : {true, false}) {
    const auto sequence = without_useless(graph, random_sequence(instance, draw, in_order));
    const Schedule schedule = schedule_of(graph, sequence);
    const onnx::ModelProto result = rewritten(model, sequence, options);
    expect_same_outputs(model, result);
    const Instance own(std::make_shared<const Graph>(read_onnx(result.SerializeAsString(), path, options).graph), {});
    const Evaluation evaluation = evaluate(own, input_order(own));
    EXPECT_EQ(evaluation.duration, schedule.duration);
    EXPECT_EQ(evaluation.peak, schedule.peak_memory);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, RewrittenFile,
    testing::Values(REMORA_DATA_DIR "/gpt2_tiny.onnx", REMORA_DATA_DIR "/gpt2_decomposed.onnx",
                    REMORA_DATA_DIR "/resnet_tiny.onnx", REMORA_DATA_DIR "/transformer_tiny.onnx",
                    REMORA_DATA_DIR "/unet_symbolic.onnx", REMORA_DATA_DIR "/unet_tiny.onnx",
                    REMORA_SHARED_DIR "/onnx/light_bvlc_alexnet.onnx", REMORA_SHARED_DIR "/onnx/light_densenet121.onnx",
                    REMORA_SHARED_DIR "/onnx/light_inception_v1.onnx", REMORA_SHARED_DIR "/onnx/light_resnet50.onnx",
                    REMORA_SHARED_DIR "/onnx/light_squeezenet.onnx", REMORA_SHARED_DIR "/onnx/light_vgg19.onnx"),
    [](const auto& tested) { return std::filesystem::path(tested.param).stem().string(); });

}  // namespace
}  // namespace remora::onnx_frontend::test
