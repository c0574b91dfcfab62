// SPDX-License-Identifier: Apache-2.0
//
// Extents that a model computes: each test ends in an Expand of one element to a vector of that many.
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

constexpr int kUint8 = onnx::TensorProto::UINT8;
constexpr int kInt8 = onnx::TensorProto::INT8;
constexpr int kUint64 = onnx::TensorProto::UINT64;

/// Nodes that compute "n", a vector of one element of the type.
class ExtentModel : public ModelBuilder {
 public:
  ExtentModel() { input("x", {1}); }

  /// A vector of one element.
  ExtentModel& number(const std::string& name, std::int64_t element, int type = kInt64) {
    weight(name, {1}, type);
    auto& tensor = *proto().mutable_graph()->mutable_initializer()->rbegin();
    if (type == kInt64) {
      tensor.add_int64_data(element);
    } else if (type == kUint64) {
      tensor.add_uint64_data(static_cast<std::uint64_t>(element));
    } else {
      tensor.add_int32_data(static_cast<std::int32_t>(element));
    }
    return *this;
  }

  /// What a vector of n floats takes, in elements; `type`: of n.
  std::int64_t extent(int type = kInt64) {
    std::string shape = "n";
    if (type != kInt64) {
      node("Cast", {"n"}, {"wide"}).set("to", std::int64_t{kInt64});
      shape = "wide";
    }
    node("Expand", {"x", shape}, {"y"}).output("y");
    const Graph graph = this->graph();
    return graph.tensors.back().size.count() / 4;
  }
};

TEST(Folding, ModTakesTheSignThatFmodSays) {
  for (const std::int64_t fmod : {0, 1}) {
    ExtentModel model;
    model.number("a", -3).number("b", 5).number("ten", 10);
    model.node("Mod", {"a", "b"}, {"m"}).set("fmod", fmod).node("Add", {"ten", "m"}, {"n"});
    EXPECT_EQ(model.extent(), fmod == 0 ? 12 : 7);
  }
}

TEST(Folding, RealNumbersHaveARemainderOnlyWithFmod) {
  for (const std::int64_t fmod : {0, 1}) {
    ModelBuilder model;
    model.input("x", {1}).reals("a", {-7.5F}).reals("b", {2.0F}).reals("ten", {10.0F});
    model.node("Mod", {"a", "b"}, {"m"}).set("fmod", fmod).node("Add", {"ten", "m"}, {"r"});
    model.node("Cast", {"r"}, {"n"}).set("to", std::int64_t{kInt64}).node("Expand", {"x", "n"}, {"y"}).output("y");
    if (fmod == 1) {
      EXPECT_EQ(model.graph().tensors.back().size, Bytes(8 * 4));
    } else {
      EXPECT_NE(model.complaint(), "");
    }
  }
}

TEST(Folding, IntegersAreCutToTheirTypesWidth) {
  ExtentModel cast;
  cast.number("a", 300).node("Cast", {"a"}, {"n"}).set("to", std::int64_t{kUint8});
  EXPECT_EQ(cast.extent(kUint8), 44);
  ExtentModel negative;
  negative.number("a", -6).number("b", 200, kUint8).node("Cast", {"a"}, {"c"}).set("to", std::int64_t{kUint8});
  negative.node("Sub", {"c", "b"}, {"n"});
  EXPECT_EQ(negative.extent(kUint8), 50);
  const auto of = [](const std::string& op, std::int64_t a, std::int64_t b, int type) {
    ExtentModel model;
    model.number("a", a, type).number("b", b, type).node(op, {"a", "b"}, {"n"});
    return model.extent(type);
  };
  EXPECT_EQ(of("Add", 200, 100, kUint8), 44);
  EXPECT_EQ(of("Sub", 100, 200, kUint8), 156);
  EXPECT_EQ(of("Mul", 20, 20, kUint8), 144);
  EXPECT_EQ(of("Mul", 100, 3, kInt8), 44);
  EXPECT_EQ(of("Add", 100, 100, onnx::TensorProto::INT16), 200);
}

TEST(Folding, WrapsBeforeWhatReadsIt) {
  // 100 + 100 is -56 in eight bits, of which the absolute value is 56.
  ExtentModel model;
  model.number("a", 100, kInt8).node("Add", {"a", "a"}, {"s"}).node("Abs", {"s"}, {"n"});
  EXPECT_EQ(model.extent(kInt8), 56);
}

TEST(Folding, SixtyFourBitsWithoutSignAreNotReadAsNegative) {
  // 5 - 10 is 2^64 - 5: its last eight bits are known, and that it is the larger one is not said wrongly.
  ExtentModel bits;
  bits.number("a", 5, kUint64).number("b", 10, kUint64).node("Sub", {"a", "b"}, {"d"});
  bits.node("Cast", {"d"}, {"n"}).set("to", std::int64_t{kUint8});
  EXPECT_EQ(bits.extent(kUint8), 251);
  ExtentModel smaller;
  smaller.number("a", 5, kUint64).number("b", 10, kUint64).node("Sub", {"a", "b"}, {"d"});
  smaller.node("Min", {"d", "b"}, {"n"}).node("Cast", {"n"}, {"wide"}).set("to", std::int64_t{kInt64});
  smaller.node("Expand", {"x", "wide"}, {"y"}).output("y");
  EXPECT_NE(smaller.complaint(), "");
}

TEST(Folding, IntegersAreComparedExactly) {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
  ExtentModel model;
  model.number("a", kOdd).number("b", kOdd - 1).number("three", 3).number("five", 5);
  model.node("Equal", {"a", "b"}, {"same"}).node("Where", {"same", "three", "five"}, {"n"});
  EXPECT_EQ(model.extent(), 5);
}

TEST(Folding, SinglePrecisionRoundsAfterEveryOp) {
  // In float, 0.7 * 10 is 7; in double, of the float 0.7, it is below.
  ModelBuilder model;
  model.input("x", {1}).reals("a", {0.7F}).reals("b", {10.0F}).node("Mul", {"a", "b"}, {"m"});
  model.node("Floor", {"m"}, {"f"}).node("Cast", {"f"}, {"n"}).set("to", std::int64_t{kInt64});
  model.node("Expand", {"x", "n"}, {"y"}).output("y");
  EXPECT_EQ(model.graph().tensors.back().size, Bytes(7 * 4));
}

/// The file may state a shape that the node does not have: what is folded then is not known, and nothing is read beyond the data.
TEST(Folding, WhatIsStatedOfAnotherShapeIsNotFolded) {
  for (const Dimensions& stated : {Dimensions{extent(2), extent(3), extent(2), extent(3)}, Dimensions{extent(6)}}) {
    ModelBuilder model(13);
    model.input("x", {1}).integers("a", {1, 2, 3, 4, 5, 6}).value_info("t", stated, kInt64);
    model.node("Transpose", {"a"}, {"t"}).set("perm", std::vector<std::int64_t>{});
    model.integers("one", {1}).node("ReduceMax", {"t"}, {"m"}).set("keepdims", std::int64_t{0});
    model.node("Reshape", {"m", "one"}, {"n"}).node("Expand", {"x", "n"}, {"y"}).output("y");
    EXPECT_EQ(model.complaint().empty(), stated.size() == 1) << model.complaint();
  }
}

/// The largest of several sizes, as real numbers: so exporters of detectors pad images to a common size.
TEST(Folding, RealNumbersHaveALargestAndALeast) {
  for (const char* const type : {"ReduceMax", "ReduceMin"}) {
    ExtentModel model;
    model.reals("sizes", {5, 7, 6}).node(type, {"sizes"}, {"s"}).set("keepdims", std::int64_t{1});
    model.node("Cast", {"s"}, {"n"}).set("to", std::int64_t{kInt64});
    EXPECT_EQ(model.extent(), std::string(type) == "ReduceMax" ? 7 : 5);
  }
}

TEST(Folding, SumsOfRealNumbersDependOnTheRuntime) {
  ExtentModel model;
  model.reals("sizes", {5, 7, 6}).node("ReduceSum", {"sizes"}, {"s"}).node("Cast", {"s"}, {"n"});
  model.set("to", std::int64_t{kInt64}).node("Expand", {"x", "n"}, {"y"}).output("y");
  EXPECT_TRUE(contains(model.complaint(), "is not known")) << model.complaint();
}

TEST(Folding, ReductionsTakeTheirAxes) {
  struct Row {
    std::vector<std::int64_t> axes;
    std::int64_t largest_sum;
  };
  // 1 2 3
  // 4 5 6
  for (const Row& row : {Row{{0}, 9}, Row{{1}, 15}, Row{{-1}, 15}, Row{{0, 1}, 21}, Row{{}, 21}}) {
    ExtentModel model;
    model.integers("list", {1, 2, 3, 4, 5, 6}).integers("form", {2, 3}).node("Reshape", {"list", "form"}, {"table"});
    model.integers("axes", row.axes).node("ReduceSum", {"table", "axes"}, {"sums"});
    model.node("ReduceMax", {"sums"}, {"most"}).integers("one", {1}).node("Reshape", {"most", "one"}, {"n"});
    EXPECT_EQ(model.extent(), row.largest_sum);
  }
  ExtentModel kept;
  kept.integers("n", {4}).integers("none", {}).node("ReduceSum", {"n", "none"}, {"m"});
  kept.set("noop_with_empty_axes", std::int64_t{1}).node("Identity", {"m"}, {"n2"}).node("Expand", {"x", "n2"}, {"y"});
  EXPECT_EQ(kept.output("y").graph().tensors.back().size, Bytes(16));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
