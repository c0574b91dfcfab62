// SPDX-License-Identifier: Apache-2.0
//
// Ops newer than the installed libonnx, and ops whose definition changed after its opset.
#include <gtest/gtest.h>

#include "model_builder.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {
namespace {

TEST(NewOpsets, TransformerBlockOfOpset23HasShapesByOurRules) {
  ModelBuilder model(23);
  model.input("x", {2, 16, 64}).weight("scale", {64}).weight("wq", {64, 64}).weight("wo", {64, 64});
  model.node("RMSNormalization", {"x", "scale"}, {"n"}).set("axis", -1);
  model.node("MatMul", {"n", "wq"}, {"q"});
  model.node("Attention", {"q", "q", "q"}, {"a"}).set("q_num_heads", 8).set("kv_num_heads", 8);
  model.node("MatMul", {"a", "wo"}, {"o"}).node("Add", {"o", "x"}, {"r"}).node("Gelu", {"r"}, {"y"}).output("y");
  const Network network = model.network();
  EXPECT_EQ(value_named(network, "a").shape, (Shape{2, 16, 64}));
  EXPECT_EQ(value_named(network, "y").shape, (Shape{2, 16, 64}));
  EXPECT_TRUE(network.warnings.empty());
  EXPECT_EQ(model.graph().ops.size(), 6U);
}

TEST(NewOpsets, GroupNormalizationOfOpset21KeepsTheShape) {
  ModelBuilder model(21);
  model.input("x", {2, 8, 4, 4}).weight("s", {8}).weight("b", {8}).weight("w", {8, 8, 3, 3});
  model.node("GroupNormalization", {"x", "s", "b"}, {"g"}).set("num_groups", 4);
  model.node("Conv", {"g", "w"}, {"c"}).node("Mish", {"c"}, {"y"}).output("y");
  EXPECT_EQ(value_named(model.network(), "y").shape, (Shape{2, 8, 2, 2}));
}

/// The shape of y for one node on x.
Shape shape_of_y(ModelBuilder model) {
  return value_named(model.output("y").network(), "y").shape;
}

TEST(NewOpsets, ReductionsReadTheirAxesFromAnInput) {
  for (const char* type : {"ReduceMean", "ReduceMax", "ReduceSum"}) {
    ModelBuilder model(18);
    model.input("x", {2, 3, 4}).integers("axes", {-1});
    EXPECT_EQ(shape_of_y(ModelBuilder(model).node(type, {"x", "axes"}, {"y"})), (Shape{2, 3, 1})) << type;
    EXPECT_EQ(shape_of_y(ModelBuilder(model).node(type, {"x", "axes"}, {"y"}).set("keepdims", 0)), (Shape{2, 3}));
    EXPECT_EQ(shape_of_y(ModelBuilder(model).node(type, {"x"}, {"y"}).set("keepdims", 0)), (Shape{})) << type;
  }
}

TEST(NewOpsets, SplitIntoANumberOfPartsLeavesTheLastOneSmaller) {
  ModelBuilder model(18);
  model.input("x", {7, 2}).node("Split", {"x"}, {"a", "b", "y"}).set("num_outputs", 3);
  EXPECT_EQ(shape_of_y(model), (Shape{1, 2}));
}

TEST(NewOpsets, PadSpeaksOfSomeAxesOnly) {
  ModelBuilder model(18);
  model.input("x", {2, 3, 4}).integers("pads", {1, 2}).integers("axes", {-1});
  model.node("Pad", {"x", "pads", "", "axes"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{2, 3, 7}));
}

TEST(NewOpsets, ResizeKnowsAxesAndAspectRatio) {
  ModelBuilder model(19);
  model.input("x", {1, 3, 10, 20}).reals("scales", {2.0F, 0.5F}).integers("sizes", {20, 30});
  const std::vector<std::int64_t> axes{2, 3};
  EXPECT_EQ(shape_of_y(ModelBuilder(model).node("Resize", {"x", "", "scales"}, {"y"}).set("axes", axes)),
            (Shape{1, 3, 20, 10}));
  ModelBuilder by_sizes = ModelBuilder(model).node("Resize", {"x", "", "", "sizes"}, {"y"}).set("axes", axes);
  EXPECT_EQ(shape_of_y(by_sizes), (Shape{1, 3, 20, 30}));
  EXPECT_EQ(shape_of_y(ModelBuilder(by_sizes).set("keep_aspect_ratio_policy", std::string("not_larger"))),
            (Shape{1, 3, 15, 30}));
}

TEST(NewOpsets, AveragePoolKnowsDilations) {
  ModelBuilder model(19);
  model.input("x", {1, 1, 9, 9}).node("AveragePool", {"x"}, {"y"});
  model.set("kernel_shape", std::vector<std::int64_t>{3, 3}).set("dilations", std::vector<std::int64_t>{2, 2});
  EXPECT_EQ(shape_of_y(model), (Shape{1, 1, 5, 5}));
}

TEST(NewOpsets, PoolingLeavesOutWindowsThatStartInThePadding) {
  ModelBuilder model(22);
  model.input("x", {1, 1, 5, 5}).node("MaxPool", {"x"}, {"y"}).set("ceil_mode", 1);
  model.set("kernel_shape", std::vector<std::int64_t>{2, 2}).set("strides", std::vector<std::int64_t>{3, 3});
  model.set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  // Windows start at -1, 2 and 5; the input ends at 4.
  EXPECT_EQ(shape_of_y(model), (Shape{1, 1, 2, 2}));
}

TEST(NewOpsets, AttentionWithPastAndGroupedHeads) {
  ModelBuilder model(23);
  model.input("q", {2, 8, 1, 16}).input("k", {2, 4, 1, 16}).input("v", {2, 4, 1, 32});
  model.input("pk", {2, 4, 9, 16}).input("pv", {2, 4, 9, 32});
  model.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "present_k", "present_v"});
  model.output("present_k").output("present_v");
  const Network network = ModelBuilder(model).output("y").network();
  EXPECT_EQ(value_named(network, "y").shape, (Shape{2, 8, 1, 32}));
  EXPECT_EQ(value_named(network, "present_k").shape, (Shape{2, 4, 10, 16}));
  EXPECT_EQ(value_named(network, "present_v").shape, (Shape{2, 4, 10, 32}));
}

TEST(NewOpsets, UnchangedOpsStillGetTheirShapesFromTheLibrary) {
  ModelBuilder model(21);
  model.input("x", {2, 3, 8, 8}).weight("w", {4, 3, 3, 3}).weight("g", {4 * 36, 10}).weight("bias", {10});
  model.node("Conv", {"x", "w"}, {"c"}).node("Flatten", {"c"}, {"f"}).node("Gemm", {"f", "g", "bias"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{2, 10}));
}

TEST(NewOpsets, AttributesThatTheLibraryDoesNotKnowDoNotHideTheShape) {
  ModelBuilder model(19);
  model.input("x", {2, 3}).node("Cast", {"x"}, {"y"}).set("to", onnx::TensorProto::FLOAT16).set("saturate", 1);
  EXPECT_EQ(shape_of_y(model), (Shape{2, 3}));
}

TEST(NewOpsets, ShapeThatTheFileStatesWinsOverTheLibrarysWithAWarning) {
  for (const std::int64_t opset : {17, 22}) {
    ModelBuilder model(opset);
    model.input("x", {2, 3}).node("Exp", {"x"}, {"e"}).value_info("e", {2, 4}).node("Tanh", {"e"}, {"y"}).output("y");
    const Network network = model.network();
    EXPECT_EQ(value_named(network, "y").shape, opset == 17 ? (Shape{2, 3}) : (Shape{2, 4}));
    EXPECT_EQ(network.warnings.size(), opset == 17 ? 0U : 1U);
  }
}

TEST(NewOpsets, OpsThatNothingConfirmsAreNamedOnOneLine) {
  const auto warnings = [](std::int64_t opset, bool states) {
    ModelBuilder model(opset);
    model.input("x", {2, 3, 8, 8}).weight("w", {4, 3, 3, 3}).node("Conv", {"x", "w"}, {"c"}).node("Relu", {"c"}, {"y"});
    if (states) model.value_info("c", {2, 4, 6, 6}).value_info("y", {2, 4, 6, 6});
    return model.output("y").network().warnings;
  };
  EXPECT_TRUE(warnings(17, false).empty());
  EXPECT_TRUE(warnings(21, true).empty());
  const auto said = warnings(21, false);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].find("opset 21: shapes of Conv"), 0U) << said[0];
  EXPECT_EQ(said[0].find('\n'), std::string::npos);
}

TEST(NewOpsets, OpWithoutRuleUsesTheStatedShapeElseNamesTheRemedy) {
  ModelBuilder model(23);
  model.input("x", {2, 3}).node("OpOfTheFuture", {"x"}, {"y"}, "future").output("y");
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "node future (OpOfTheFuture)") && contains(complaint, "value_info")) << complaint;
  EXPECT_EQ(value_named(model.value_info("y", {4, 4}).network(), "y").shape, (Shape{4, 4}));
}

TEST(OldOpsets, EinsumExtentsComeFromItsLabels) {
  ModelBuilder model;
  model.input("a", {2, 3, 4}).input("b", {2, 4, 5}).node("Einsum", {"a", "b"}, {"y"});
  const auto with = [&](const char* equation) { return ModelBuilder(model).set("equation", std::string(equation)); };
  EXPECT_EQ(shape_of_y(with("bij, bjk -> bik")), (Shape{2, 3, 5}));
  EXPECT_EQ(shape_of_y(with("bij,bjk->kb")), (Shape{5, 2}));
  EXPECT_EQ(shape_of_y(with("...ij,...jk->...ki")), (Shape{2, 5, 3}));
  EXPECT_EQ(shape_of_y(with("zij,zjk")), (Shape{3, 5}));
  EXPECT_TRUE(contains(with("ij,jk->ik").output("y").complaint(), "Einsum"));
  EXPECT_TRUE(contains(with("bij,bik->jk").output("y").complaint(), "different extents"));
}

TEST(OldOpsets, MaxUnpoolInvertsItsWindowOrTakesTheStatedShape) {
  ModelBuilder model;
  model.input("x", {1, 1, 3, 4}).input("i", {1, 1, 3, 4}, kInt64).integers("shape", {1, 1, 7, 9});
  const std::vector<std::int64_t> two{2, 2};
  EXPECT_EQ(
      shape_of_y(ModelBuilder(model).node("MaxUnpool", {"x", "i"}, {"y"}).set("kernel_shape", two).set("strides", two)),
      (Shape{1, 1, 6, 8}));
  EXPECT_EQ(shape_of_y(ModelBuilder(model).node("MaxUnpool", {"x", "i", "shape"}, {"y"}).set("kernel_shape", two)),
            (Shape{1, 1, 7, 9}));
}

TEST(OldOpsets, NodesThatWouldCrashTheLibraryAreErrorsOfTheNode) {
  const std::vector<std::int64_t> zero{0, 0};
  const std::vector<std::int64_t> ones{1, 1};
  ModelBuilder model;
  model.input("x", {1, 3, 8, 8}).weight("flat", {4, 3}).weight("scale", {8}).input("ids", {2, 5}, kInt64);
  const auto complaint = [](ModelBuilder one) { return one.output("y").complaint(); };
  EXPECT_TRUE(contains(complaint(ModelBuilder(model).node("Conv", {"x", "flat"}, {"y"})), "differ in rank"));
  EXPECT_TRUE(contains(complaint(ModelBuilder(model).node("Conv", {"x", ""}, {"y"})), "input 1"));
  EXPECT_TRUE(contains(complaint(ModelBuilder(model).node("Concat", {"x", ""}, {"y"}).set("axis", 0)), "left out"));
  EXPECT_TRUE(contains(
      complaint(ModelBuilder(model).node("LpPool", {"x"}, {"y"}).set("kernel_shape", ones).set("strides", zero)),
      "must be positive"));
  EXPECT_TRUE(contains(complaint(ModelBuilder(model).node("GatherND", {"x", "ids"}, {"y"})), "do not fit"));
  EXPECT_TRUE(contains(complaint(ModelBuilder(model).node("LayerNormalization", {"x", "scale"}, {"y"}).set("axis", 9)),
                       "axis 9"));
}

TEST(OldOpsets, WhatIsOneNumberIsNotAListWithoutAny) {
  ModelBuilder frames;
  frames.input("x", {1, 8, 1}).integer("step", 4).input("window", {}).integers("length", {});
  frames.node("STFT", {"x", "step", "window", "length"}, {"y"}).output("y");
  EXPECT_TRUE(contains(frames.complaint(), "input 3 must be one number")) << frames.complaint();
  ModelBuilder queries;
  queries.input("q", {1, 2, 8}).input("k", {4});
  queries.node("GroupQueryAttention", {"q", "k", "k"}, {"y"}).domain("com.microsoft").set("num_heads", std::int64_t{2});
  queries.set("kv_num_heads", std::int64_t{1}).output("y");
  queries.proto().add_opset_import()->set_domain("com.microsoft");
  EXPECT_TRUE(contains(queries.complaint(), "the ranks of query and key or the heads do not fit"))
      << queries.complaint();
}

TEST(NewOpsets, ExtentsBeyondAnyMemoryAreRefused) {
  constexpr std::int64_t kLong = std::int64_t{1} << 40;
  constexpr std::int64_t kHeads = std::int64_t{1} << 31;
  ModelBuilder heads(23);
  heads.input("q", {1, 1, kHeads}).input("k", {1, 1, kLong});
  heads.node("Attention", {"q", "k", "k"}, {"y"}).set("q_num_heads", kHeads).set("kv_num_heads", std::int64_t{1});
  EXPECT_TRUE(contains(heads.output("y").complaint(), "impossible shape")) << heads.complaint();
  ModelBuilder window(19);
  window.input("x", {1, 1, 4}).weight("w", {1, 1, kLong}).weight("offset", {1});
  window.node("DeformConv", {"x", "w", "offset"}, {"y"}).set("dilations", std::vector<std::int64_t>{kHeads});
  EXPECT_TRUE(contains(window.output("y").complaint(), "larger than the padded input")) << window.complaint();
  ModelBuilder scaled;
  scaled.input("x", {1, 4}).reals("by", {1, 1e30F}).node("Resize", {"x", "", "by"}, {"y"}).output("y");
  scaled.proto().mutable_opset_import(0)->set_version(19);
  EXPECT_TRUE(contains(scaled.complaint(), "no usable extent")) << scaled.complaint();
}

/// One node of two inputs, with a stated shape of its result.
ModelBuilder stated(const std::string& type, const Dimensions& a, const Dimensions& b, const Dimensions& result,
                    std::int64_t opset) {
  ModelBuilder model(opset);
  model.input("a", a).input("b", b).node(type, {"a", "b"}, {"y"}, "node").value_info("y", result);
  if (type == "Concat") model.set("axis", std::int64_t{0});
  return model.output("y");
}

TEST(StatedShapes, DoNotHelpWhereInputsDoNotFit) {
  struct Case {
    const char* type;
    Dimensions a;
    Dimensions b;
    Dimensions result;
    const char* complaint;
  };
  const std::vector<Case> cases{
      {"MatMul", {extent(2), extent(3)}, {extent(64), extent(64)}, {extent(2), extent(64)}, "do not multiply"},
      {"MatMul", {extent(2), extent(2), extent(3)}, {extent(3), extent(3), extent(4)}, {extent(2)}, "do not broadcast"},
      {"Gemm", {extent(2), extent(3)}, {extent(64), extent(64)}, {extent(2), extent(64)}, "do not multiply"},
      {"Gemm", {extent(2)}, {extent(2), extent(2)}, {extent(2)}, "must be matrices"},
      {"Add", {extent(2), extent(3)}, {extent(4), extent(5)}, {extent(4), extent(5)}, "do not broadcast"},
      {"Concat", {extent(2), extent(3)}, {extent(4), extent(5)}, {extent(6), extent(5)}, "differ outside axis 0"},
      {"Conv", {extent(1), extent(4), extent(8)}, {extent(2), extent(3), extent(3)}, {extent(1)}, "do not fit"},
      {"Conv", {extent(1), extent(4), extent(2)}, {extent(2), extent(4), extent(3)}, {extent(1)}, "larger than"}};
  for (const Case& one : cases) {
    for (const std::int64_t opset : {13, 17, 22}) {
      const std::string said = stated(one.type, one.a, one.b, one.result, opset).complaint();
      EXPECT_TRUE(contains(said, one.complaint) && contains(said, "node"))
          << one.type << ", opset " << opset << ": " << said;
    }
  }
  const Dimensions square{extent(3), extent(3)};
  for (const char* type : {"MatMul", "Gemm", "Add", "Concat"})
    EXPECT_EQ(stated(type, square, square, square, 17).complaint(), "");
}

TEST(ShapeComputation, ReshapeToAComputedShape) {
  // As exporters write x.view(x.size(0), -1, x.size(2) // 2).
  ModelBuilder model;
  model.input("x", {2, 6, 8}).integer("zero", 0).integer("two", 2).integers("minus", {-1}).integers("axes", {0});
  model.node("Relu", {"x"}, {"r"}).node("Shape", {"r"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"n"}).node("Gather", {"s", "two"}, {"width"});
  model.node("Div", {"width", "two"}, {"half"});
  model.node("Unsqueeze", {"n", "axes"}, {"n1"}).node("Unsqueeze", {"half", "axes"}, {"h1"});
  model.node("Concat", {"n1", "minus", "h1"}, {"target"}).set("axis", 0);
  model.node("Reshape", {"r", "target"}, {"v"}).node("Tanh", {"v"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{2, 12, 4}));
  EXPECT_EQ(model.output("y").graph().ops.size(), 2U);
}

TEST(ShapeComputation, ResizeToAScaledShape) {
  // As exporters write interpolate(x, scale_factor=1.5) with the sizes computed in floats.
  ModelBuilder model;
  model.input("x", {1, 3, 7, 9}).reals("factor", {1.5F}).reals("empty", {});
  model.integers("from", {2}).integers("to", {4}).integers("end", {2}).integers("start", {0});
  model.node("Shape", {"x"}, {"s"})
      .node("Slice", {"s", "from", "to"}, {"hw"})
      .node("Slice", {"s", "start", "end"}, {"nc"});
  model.node("Cast", {"hw"}, {"f"}).set("to", kFloat);
  model.node("Mul", {"f", "factor"}, {"m"}).node("Floor", {"m"}, {"fl"}).node("Cast", {"fl"}, {"i"}).set("to", kInt64);
  model.node("Concat", {"nc", "i"}, {"sizes"}).set("axis", 0);
  model.node("Resize", {"x", "", "", "sizes"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{1, 3, 10, 13}));
}

TEST(ShapeComputation, RangeExpandWhereAndNonZeroOfConstants) {
  ModelBuilder model;
  model.input("x", {3, 4}).integer("zero", 0).integer("one", 1).integer("axis1", 1);
  model.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "axis1"}, {"four"});
  model.node("Range", {"zero", "four", "one"}, {"positions"});   // 0 1 2 3
  model.node("NonZero", {"positions"}, {"nz"});                  // 1 2 3 as 1x3
  model.node("ReduceMax", {"nz"}, {"most"}).set("keepdims", 0);  // of rank 2: shape only
  model.node("Equal", {"positions", "one"}, {"is_one"});         // 0 1 0 0
  model.node("Where", {"is_one", "four", "one"}, {"target"});    // 1 4 1 1
  model.node("ConstantOfShape", {"target"}, {"filled"});
  model.node("Gather", {"x", "nz"}, {"g"}).set("axis", 1);  // 3x1x3
  model.node("Mul", {"filled", "x"}, {"p"});                // 1x4x3x4: broadcast of 1x4x1x1 and 3x4
  model.node("ReduceMean", {"g"}, {"gm"}).set("keepdims", 0).node("Add", {"p", "gm"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{1, 4, 3, 4}));
}

TEST(ShapeComputation, SliceToTheEndAndBackwards) {
  ModelBuilder model;
  model.input("x", {2, 3, 5}).integers("start", {-1}).integers("end", {INT64_MIN}).integers("axes", {0});
  model.integers("step", {-1}).node("Shape", {"x"}, {"s"});
  model.node("Slice", {"s", "start", "end", "axes", "step"}, {"reversed"});
  model.node("ConstantOfShape", {"reversed"}, {"c"}).node("Transpose", {"x"}, {"t"}).node("Add", {"t", "c"}, {"y"});
  EXPECT_EQ(shape_of_y(model), (Shape{5, 3, 2}));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
