// SPDX-License-Identifier: Apache-2.0
//
// Axes of ops as the graph has them. That they are right for the ops' values is for tests/onnxruntime/axes_test.py.
#include "frontends/onnx/loops/axes.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/axes.hpp"
#include "model/graph.hpp"
#include "model/slices.hpp"
#include "tests/frontends/onnx/model_builder.hpp"

namespace remora::onnx_frontend {
namespace {

using test::ModelBuilder;
using test::Strings;

Graph graph_with_axes(const ModelBuilder& model, bool training = false,
                      ParameterGradients gradients = ParameterGradients::keep) {
  OnnxOptions options;
  options.axes = AxesWanted::all;
  if (training) options.training = {.gradients = gradients};
  return model.graph(options);
}

const Op& op_named(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.ops, name, &Op::name);
  if (found == graph.ops.end()) throw std::runtime_error("no op " + std::string(name));
  return *found;
}

/// "6: x 6*16, y 6*20": iterations, then tensors with rows and stride; "+step/offset/length" of windows, "sum" of sums.
std::string text_of(const Graph& graph, const Axis& axis) {
  std::string text = std::to_string(axis.extent) + ":";
  for (const Cut& cut : axis.cuts) {
    text += " " + graph[cut.tensor].name + " " + std::to_string(cut.rows) + "*" + std::to_string(cut.stride.count());
    if (cut.step == 1 && cut.offset == 0 && cut.length == 1) continue;
    text += "+" + std::to_string(cut.step) + "/" + std::to_string(cut.offset) + "/" + std::to_string(cut.length);
  }
  for (const TensorId t : axis.sums) text += " sum " + graph[t].name;
  return text;
}

Strings axes_of_op(const Graph& graph, std::string_view name) {
  Strings texts;
  for (const Axis& axis : op_named(graph, name).axes) texts.push_back(text_of(graph, axis));
  return texts;
}

TEST(OnnxAxes, AProductHasRowsColumnsAndASum) {
  const Graph graph = graph_with_axes(
      ModelBuilder().input("x", {2, 3, 4}).input("w", {4, 5}).output("y").node("MatMul", {"x", "w"}, {"y"}, "mm"));
  EXPECT_EQ(axes_of_op(graph, "mm"),
            (Strings{"6: y 6*20 x 6*16", "3: y 3*20 x 3*16", "5: y 5*4 w 5*4", "4: x 4*4 w 4*20 sum y"}));
}

TEST(OnnxAxes, AConvolutionHasWindowsAndGroups) {
  const Graph graph = graph_with_axes(ModelBuilder()
                                          .input("x", {2, 4, 9, 1})
                                          .weight("w", {6, 2, 3, 1})
                                          .output("y")
                                          .node("Conv", {"x", "w"}, {"y"}, "conv")
                                          .set("group", 2)
                                          .set("strides", std::vector<std::int64_t>{2, 1})
                                          .set("dilations", std::vector<std::int64_t>{2, 1})
                                          .set("pads", std::vector<std::int64_t>{1, 0, 2, 0}));
  // Rows of y: (9 + 3 - 5) / 2 + 1 = 4.
  EXPECT_EQ(axes_of_op(graph, "conv"),
            (Strings{"4: y 4*48 x 4*72", "2: y 2*48 x 2*72", "3: y 3*16", "2: x 2*36 sum y", "4: y 4*4 x 9*4+2/-1/5"}));
}

TEST(OnnxAxes, AGradientOfAConvolutionReadsTheWindowsFromTheOtherSide) {
  const ModelBuilder model = ModelBuilder()
                                 .input("z", {1, 1, 9, 1})
                                 .weight("v", {1, 1, 1, 1})
                                 .weight("w", {1, 1, 3, 1})
                                 .output("y")
                                 .node("Conv", {"z", "v"}, {"x"}, "first")
                                 .node("Conv", {"x", "w"}, {"y"}, "conv")
                                 .set("strides", std::vector<std::int64_t>{2, 1})
                                 .set("pads", std::vector<std::int64_t>{1, 0, 1, 0});
  const Graph graph = graph_with_axes(model, true);
  // Row o of y reads the rows 2 o - 1 to 2 o + 1 of x: those of 2 i and 2 i + 1 are read by o = i and i + 1.
  EXPECT_EQ(axes_of_op(graph, "conv/grad"),
            (Strings{"5: grad(x) 9*4+2/0/2 grad(y) 5*4+1/0/2 x 9*4+2/0/2 sum grad(w)"}));
  EXPECT_EQ(axes_of_op(graph, "first/grad"), (Strings{"9: grad(x) 9*4 z 9*4 sum grad(v)"}));
}

TEST(OnnxAxes, AGradientUnderFixedMemoryIsASumWithoutATensor) {
  const ModelBuilder model =
      ModelBuilder().input("x", {6, 4}).weight("w", {4, 5}).output("y").node("MatMul", {"x", "w"}, {"y"}, "mm");
  const Graph graph = graph_with_axes(model, true, ParameterGradients::fixed);
  EXPECT_EQ(axes_of_op(graph, "mm/grad"), (Strings{"6: grad(y) 6*20 x 6*16 sum mm/grad/done",
                                                   "5: grad(y) 5*4 sum mm/grad/done", "4: x 4*4 sum mm/grad/done"}));
}

TEST(OnnxAxes, OpsAgreeAcrossViews) {
  const Graph graph = graph_with_axes(ModelBuilder()
                                          .input("x", {2, 3, 8})
                                          .integers("heads", {2, 3, 4, 2})
                                          .output("z")
                                          .node("Relu", {"x"}, {"r"}, "relu")
                                          .node("Reshape", {"r", "heads"}, {"h"}, "view")
                                          .node("Transpose", {"h"}, {"z"}, "turn")
                                          .set("perm", std::vector<std::int64_t>{0, 2, 1, 3}));
  const Region region{.parts = {{{.op = OpId(0), .axis = 0}, {.op = OpId(1), .axis = 0}}}, .slices = 2};
  const SlicedGraph sliced = slice(graph, region);
  EXPECT_EQ(sliced.slices, 2);
  validate(sliced.graph);
}

TEST(OnnxAxes, AMaskOfAllHeadsIsReadWhole) {
  const Graph graph = graph_with_axes(ModelBuilder()
                                          .input("scores", {2, 16, 8, 8})
                                          .input("mask", {2, 1, 1, 8})
                                          .output("y")
                                          .node("Add", {"scores", "mask"}, {"y"}, "add"));
  const Strings axes = axes_of_op(graph, "add");
  EXPECT_EQ(axes[0], "2: y 2*4096 scores 2*4096 mask 2*32");
  EXPECT_EQ(axes[1], "2048: y 2048*4 scores 2048*4");
}

TEST(OnnxAxes, WhatIsNormalizedAndWhatIsRandomIsNotCut) {
  const Graph graph = graph_with_axes(ModelBuilder()
                                          .input("x", {4, 6})
                                          .flag("mode", true)
                                          .reals("ratio", {0.5F})
                                          .output("z")
                                          .node("Softmax", {"x"}, {"y"}, "softmax")
                                          .node("Dropout", {"y", "ratio", "mode"}, {"z"}, "dropout"));
  EXPECT_EQ(axes_of_op(graph, "softmax"), (Strings{"4: y 4*24 x 4*24"}));
  EXPECT_EQ(axes_of_op(graph, "dropout"), Strings());
}

TEST(OnnxAxes, AreThereOnlyIfAskedFor) {
  const ModelBuilder model = ModelBuilder().input("x", {4}).output("y").node("Relu", {"x"}, {"y"}, "relu");
  EXPECT_TRUE(op_named(model.graph(), "relu").axes.empty());
  EXPECT_FALSE(op_named(graph_with_axes(model), "relu").axes.empty());
}

/// A part of a convolutional network and one of a transformer.
ModelBuilder mixed_model() {
  return ModelBuilder()
      .input("image", {3, 4, 9, 7})
      .weight("w", {6, 4, 3, 3})
      .weight("b", {6})
      .weight("scale", {6})
      .weight("shift", {6})
      .weight("mean", {6})
      .weight("variance", {6})
      .weight("up", {6, 2, 2, 2})
      .integers("flat", {3, 2, -1})
      .weight("q", {40, 8})
      .output("out")
      .node("Conv", {"image", "w", "b"}, {"c"}, "conv")
      .set("strides", std::vector<std::int64_t>{2, 1})
      .set("pads", std::vector<std::int64_t>{1, 1, 1, 1})
      .node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"n"}, "norm")
      .node("Relu", {"n"}, {"r"}, "relu")
      .node("MaxPool", {"r"}, {"p"}, "pool")
      .set("kernel_shape", std::vector<std::int64_t>{2, 3})
      .set("strides", std::vector<std::int64_t>{1, 2})
      .node("AveragePool", {"r"}, {"a"}, "average")
      .set("kernel_shape", std::vector<std::int64_t>{2, 3})
      .set("strides", std::vector<std::int64_t>{1, 2})
      .node("Concat", {"p", "a"}, {"j"}, "join")
      .set("axis", 1)
      .node("Split", {"j"}, {"s", "t"}, "split")
      .set("axis", 1)
      .node("Mul", {"s", "t"}, {"m"}, "mul")
      .node("ConvTranspose", {"m", "up"}, {"d"}, "deconv")
      .set("strides", std::vector<std::int64_t>{2, 2})
      .node("Reshape", {"d", "flat"}, {"f"}, "view")
      .node("MatMul", {"f", "k"}, {"g"}, "mm")
      .weight("k", {48, 40})
      .node("MatMul", {"g", "q"}, {"h"}, "heads")
      .node("Transpose", {"h"}, {"ht"}, "turn")
      .set("perm", std::vector<std::int64_t>{0, 2, 1})
      .node("MatMul", {"h", "ht"}, {"scores"}, "scores")
      .node("Softmax", {"scores"}, {"weights"}, "softmax")
      .node("MatMul", {"weights", "h"}, {"mixed"}, "mixed")
      .node("ReduceMean", {"mixed"}, {"row"}, "reduce")
      .set("axes", std::vector<std::int64_t>{1})
      .node("Sub", {"mixed", "row"}, {"out"}, "sub");
}

TEST(OnnxAxes, EveryOpCanBeCutAlongEachOfItsAxes) {
  int axes = 0;
  for (const bool training : {false, true}) {
    for (const ParameterGradients gradients : {ParameterGradients::fixed, ParameterGradients::keep}) {
      const Graph graph = graph_with_axes(mixed_model(), training, gradients);
      for (std::size_t v = 0; v < graph.ops.size(); ++v) {
        EXPECT_FALSE(graph.ops[v].axes.empty()) << graph.ops[v].name;
        for (std::size_t i = 0; i < graph.ops[v].axes.size(); ++i) {
          const Region region{.parts = {{{.op = OpId(v), .axis = static_cast<int>(i)}}}, .slices = 3};
          const SlicedGraph sliced = slice(graph, region);
          EXPECT_GT(sliced.slices, 1);
          validate(sliced.graph);
          ++axes;
        }
      }
    }
  }
  EXPECT_GT(axes, 200);
}

}  // namespace
}  // namespace remora::onnx_frontend
