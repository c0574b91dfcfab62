// SPDX-License-Identifier: Apache-2.0
//
// Models in slices as nodes. That they compute what the original computes is for tests/onnxruntime/slices_test.py.
#include "frontends/onnx/write/slice_writer.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/onnx/write/onnx_writer.hpp"
#include "model/instance.hpp"
#include "model/slices.hpp"
#include "onnx/onnx_pb.h"
#include "rewrite_support.hpp"
#include "tests/support/refusal.hpp"

namespace remora::onnx_frontend::test {
namespace {

using remora::test::refusal_of;

constexpr SliceRun kRun{.temporaries = true, .copies = true};

LoweredModel writable(const ModelBuilder& model) {
  OnnxOptions options;
  options.axes = AxesWanted::writable;
  return lower_onnx(ModelBuilder(model).proto().SerializeAsString(), "test.onnx", options);
}

/// The number of the op's axis with so many iterations; -1 without one.
int axis_of_extent(const Graph& graph, const std::string& op, std::int64_t extent) {
  for (const Op& one : graph.ops) {
    if (one.name != op) continue;
    const auto found = std::ranges::find(one.axes, extent, &Axis::extent);
    return found == one.axes.end() ? -1 : static_cast<int>(found - one.axes.begin());
  }
  return -1;
}

struct Member {
  std::string op{};
  /// Its axis is the one with so many iterations.
  std::int64_t extent = 0;
};

/// In the order of the sliced graph, the ops of `again` once more at the end; its memory is checked.
onnx::ModelProto in_slices(const ModelBuilder& model, const std::vector<Member>& members, int slices,
                           const Strings& again = {}) {
  const std::string content = ModelBuilder(model).proto().SerializeAsString();
  const LoweredModel lowered = writable(model);
  Region region{.parts = {{}}, .slices = slices};
  for (const Member& member : members) {
    const OpId op = sequence_of(lowered.graph, {member.op}).front();
    region.parts[0].push_back({op, axis_of_extent(lowered.graph, member.op, member.extent)});
  }
  const SlicedGraph sliced = slice(lowered.graph, region, kRun);
  const Instance instance(std::make_shared<const Graph>(sliced.graph), {});
  Sequence sequence = input_order(instance);
  const Sequence more = sequence_of(sliced.graph, again);
  sequence.insert(sequence.end(), more.begin(), more.end());
  const Schedule schedule = schedule_of(sliced.graph, sequence);
  const ModelSlices written{.regions = {region}, .sliced = sliced};
  const SlicedModel result = rewrite_in_slices(content, lowered, written, sequence, {.from = ".", .to = "."});
  check_rewritten(result, "sliced.onnx", {}, schedule);
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(result.bytes));
  return proto;
}

const onnx::NodeProto& written_node(const onnx::ModelProto& model, const std::string& name) {
  const auto found = std::ranges::find(model.graph().node(), name, &onnx::NodeProto::name);
  if (found == model.graph().node().end()) throw std::runtime_error("no node " + name);
  return *found;
}

std::vector<std::int64_t> integers_of(const onnx::NodeProto& node, const std::string& name) {
  for (const auto& one : node.attribute()) {
    if (one.name() == name) return {one.ints().begin(), one.ints().end()};
  }
  return {};
}

Strings types_of(const onnx::ModelProto& model) {
  Strings types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

std::vector<float> floats(std::size_t count) {
  return std::vector<float>(count, 0.5F);
}

/// [1, 2, 8, 8], two convolutions of 3 x 3 with padding.
ModelBuilder two_convolutions() {
  ModelBuilder model;
  model.input("x", {1, 2, 8, 9}).output("z");
  for (const char* weight : {"u", "v"}) {
    model.reals(weight, floats(36));
    auto& tensor = *model.proto().mutable_graph()->mutable_initializer()->rbegin();
    tensor.clear_dims();
    for (const std::int64_t one : {2, 2, 3, 3}) tensor.add_dims(one);
  }
  model.node("Conv", {"x", "u"}, {"y"}, "A").set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  model.node("Conv", {"y", "v"}, {"z"}, "B").set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  return model;
}

TEST(SliceWriter, ConvolutionsHaveTheirHalosAndThePaddingThatIsLeft) {
  const onnx::ModelProto result = in_slices(two_convolutions(), {{"A", 8}, {"B", 8}}, 2);
  // Rows 0 to 5 and 2 to 7 of x, for 0 to 4 and 3 to 7 of y, for 0 to 3 and 4 to 7 of z.
  EXPECT_EQ(integers_of(written_node(result, "A#0"), "pads"), (std::vector<std::int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(integers_of(written_node(result, "A#1"), "pads"), (std::vector<std::int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(integers_of(written_node(result, "B#0"), "pads"), (std::vector<std::int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(integers_of(written_node(result, "B#1"), "pads"), (std::vector<std::int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(types_of(result), (Strings{"Slice", "Conv", "Conv", "Reshape", "Pad", "Slice", "Conv", "Conv", "Reshape",
                                       "ScatterND", "Reshape"}));
  EXPECT_EQ(written_node(result, "B#1").input(0), written_node(result, "A#1").output(0));
  EXPECT_EQ(result.graph().node().rbegin()->output(0), "z");
}

TEST(SliceWriter, TheInitializersOfOutputChannelsAreCutInTheFile) {
  const onnx::ModelProto result = in_slices(two_convolutions(), {{"A", 2}}, 2);
  std::vector<std::int64_t> channels;
  for (const auto& one : result.graph().initializer()) {
    EXPECT_NE(one.name(), "u");
    if (one.dims_size() == 4 && one.name() != "v") channels.push_back(one.dims(0));
  }
  EXPECT_EQ(channels, (std::vector<std::int64_t>{1, 1}));
}

TEST(SliceWriter, ASumIsAddedInPlaceAndTheFirstTermHasTheBias) {
  const auto model = ModelBuilder()
                         .input("x", {4, 6})
                         .input("w", {6, 5})
                         .input("b", {5})
                         .output("y")
                         .node("Gemm", {"x", "w", "b"}, {"y"}, "G");
  const onnx::ModelProto result = in_slices(model, {{"G", 6}}, 3);
  EXPECT_EQ(written_node(result, "G#0").input_size(), 3);
  EXPECT_EQ(written_node(result, "G#1").input_size(), 2);
  const onnx::NodeProto& last = *result.graph().node().rbegin();
  EXPECT_EQ(last.op_type(), "Add");
  EXPECT_EQ(last.output(0), "y");
}

TEST(SliceWriter, ARecomputedSliceHasItsCopiesUnderFreshNames) {
  const auto model = ModelBuilder()
                         .input("x", {8, 4})
                         .output("z")
                         .output("c")
                         .node("Exp", {"x"}, {"y"}, "A")
                         .node("Tanh", {"y"}, {"z"}, "B")
                         .node("ReduceSum", {"y"}, {"c"}, "C");
  const onnx::ModelProto result = in_slices(model, {{"A", 8}, {"B", 8}}, 2, {"A#0", "A#1", "B#0", "B#1", "C"});
  std::size_t exponentials = 0;
  std::set<std::string> names;
  for (const auto& node : result.graph().node()) {
    exponentials += node.op_type() == "Exp" ? 1U : 0U;
    EXPECT_TRUE(names.insert(node.name()).second) << node.name();
  }
  EXPECT_EQ(exponentials, 4U);
}

TEST(SliceWriter, TheShapeOfWhatIsInSlicesIsAConstant) {
  const auto model = ModelBuilder()
                         .input("x", {8, 4})
                         .input("t", {32})
                         .output("z")
                         .output("v")
                         .node("Exp", {"x"}, {"y"}, "A")
                         .node("Tanh", {"y"}, {"z"}, "B")
                         .node("Shape", {"y"}, {"s"}, "S")
                         .node("Reshape", {"t", "s"}, {"u"}, "R")
                         .node("Neg", {"u"}, {"v"}, "N");
  const onnx::ModelProto result = in_slices(model, {{"A", 8}, {"B", 8}}, 2);
  EXPECT_EQ(std::ranges::count(types_of(result), "Shape"), 0);
  const auto stated = std::ranges::find(result.graph().initializer(), "s", &onnx::TensorProto::name);
  ASSERT_NE(stated, result.graph().initializer().end());
}

TEST(SliceWriter, SlicesThatWouldNeedManyIndicesAreRejected) {
  const auto model =
      ModelBuilder().input("x", {64, 2}).input("w", {2, 1031}).output("y").node("MatMul", {"x", "w"}, {"y"}, "M");
  EXPECT_NE(refusal_of([&] {
              in_slices(model, {{"M", 1031}}, 3);
            }).find("node M: cannot be written in these uneven"),
            std::string::npos);
}

TEST(WritableAxes, AreThoseThatASliceOfTheNodeComputes) {
  const auto extents = [](const ModelBuilder& model) {
    std::vector<std::int64_t> found;
    const LoweredModel lowered = writable(model);
    for (const Axis& axis : lowered.graph.ops.back().axes) found.push_back(axis.extent);
    return found;
  };
  using Extents = std::vector<std::int64_t>;
  // A mean over rows is no sum of means; those of the other dimension are.
  EXPECT_EQ(extents(ModelBuilder()
                        .input("x", {3, 5})
                        .output("y")
                        .node("ReduceMean", {"x"}, {"y"})
                        .set("axes", std::vector<std::int64_t>{1})),
            Extents{3});
  // Beyond the border of a slice, an interpolation would read its last row; other rows repeat.
  for (const bool is_linear : {true, false}) {
    auto model = ModelBuilder().input("x", {1, 3, 5, 7}).reals("s", {1, 1, 2, 1}).output("y");
    model.node("Resize", {"x", "", "s"}, {"y"}).set("mode", is_linear ? "linear" : "nearest");
    EXPECT_EQ(extents(model), is_linear ? (Extents{3, 7}) : (Extents{3, 5, 7}));
  }
  // Rows of a causal attention depend on where they are.
  for (const std::int64_t causal : {0, 1}) {
    auto model = ModelBuilder(23);
    for (const char* name : {"q", "k", "v"}) model.input(name, {1, 3, 5, 4});
    model.output("y").node("Attention", {"q", "k", "v"}, {"y"}).set("is_causal", causal);
    EXPECT_EQ(extents(model), causal == 1 ? Extents{3} : (Extents{3, 5}));
  }
  // Weights that another node reads, too.
  auto shared = ModelBuilder().input("x", {3, 2}).output("y").output("z").reals("b", {1, 2});
  shared.node("Add", {"x", "b"}, {"z"}).node("Mul", {"x", "b"}, {"y"});
  EXPECT_EQ(extents(shared), Extents{3});
}

TEST(WritableAxes, OldOperatorSetsAreRejected) {
  const auto model = ModelBuilder(10).input("x", {3, 5}).output("y").node("Relu", {"x"}, {"y"});
  EXPECT_NE(refusal_of([&] { writable(model); }).find("slices can be written from set 11 on"), std::string::npos);
}

}  // namespace
}  // namespace remora::onnx_frontend::test
