// SPDX-License-Identifier: Apache-2.0
//
// Nodes that libonnx must not see: each of these crashed, hung or filled the memory, or gave a wrong shape.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

/// A model of one node, which writes y; what it reads and is told comes after.
ModelBuilder one_node(std::int64_t opset, const std::string& type, const Strings& inputs) {
  ModelBuilder model(opset);
  model.node(type, inputs, {"y"}).output("y");
  return model;
}

void expect_objection(const ModelBuilder& model, const std::string& says) {
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "node that makes \"y\"")) << complaint;
  EXPECT_TRUE(contains(complaint, says)) << complaint;
  EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
}

TEST(SchemaGuards, RecurrentOpsOfVectorsAndScalarsAreRefusedInEveryOpset) {
  for (const std::int64_t opset : {1, 3, 6, 7, 13, 14, 17, 21}) {
    for (const char* type : {"RNN", "GRU", "LSTM"}) {
      for (const Dimensions& shape : {Dimensions{}, Dimensions{4}, Dimensions{4, 2}, Dimensions{4, 2, 3, 1}}) {
        ModelBuilder model = one_node(opset, type, {"x", "w", "r"});
        model.set("hidden_size", 1).set("output_sequence", 1).input("x", shape);
        const bool no_rule = std::string(type) == "GRU" && opset < 3;  // a GRU of opset 1 has no shapes
        expect_objection(model.weight("w", {1, 4, 3}).weight("r", {1, 4, 1}),
                         no_rule ? "is not known" : "must have 3 axes");
      }
    }
  }
}

TEST(SchemaGuards, RecurrentFilesThatCrashedAreRefused) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(REMORA_DATA_DIR "/recurrent"))
    files.insert(entry.path());
  EXPECT_EQ(files.size(), 10U);
  for (const std::string& file : files) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    try {
      read_onnx(text.str(), file, {});
      ADD_FAILURE() << file << " was read";
    } catch (const InputError& error) {
      EXPECT_TRUE(contains(error.what(), "node that makes \"y\" (")) << error.what();
      EXPECT_TRUE(contains(error.what(), "must have 3 axes")) << error.what();
    }
  }
}

TEST(SchemaGuards, RecurrentOpsBeforeOpset7StillHaveShapes) {
  ModelBuilder model = one_node(6, "GRU", {"x", "w", "r"});
  model.set("hidden_size", 5).set("output_sequence", 1).input("x", {4, 2, 3});
  model.weight("w", {1, 15, 3}).weight("r", {1, 15, 5});
  EXPECT_EQ(value_named(model.network(), "y").shape, (Shape{4, 1, 2, 5}));
}

TEST(SchemaGuards, MatricesOfGemmHaveTwoAxes) {
  for (const std::int64_t opset : {6, 7, 13}) {
    ModelBuilder model = one_node(opset, "Gemm", {"x", "w", "b"});
    expect_objection(model.input("x", {4}).weight("w", {4, 2}).weight("b", {2}), "must have 2 axes");
  }
}

TEST(SchemaGuards, RegionsArePooledInImages) {
  ModelBuilder model = one_node(13, "MaxRoiPool", {"x", "rois"});
  model.set("pooled_shape", std::vector<std::int64_t>{2}).input("x", {1, 3, 8}).input("rois", {2, 5});
  expect_objection(model, "must have 4 axes");
}

TEST(SchemaGuards, EquationsHaveCapitalLetters) {
  ModelBuilder model = one_node(13, "Einsum", {"x", "w"});
  model.set("equation", std::string("Ab,bC")).input("x", {4, 3}).weight("w", {3, 5});
  EXPECT_EQ(value_named(model.network(), "y").shape, (Shape{4, 5}));
}

TEST(SchemaGuards, BlocksDivideByTheirArea) {
  for (const char* type : {"DepthToSpace", "SpaceToDepth"}) {
    ModelBuilder model = one_node(13, type, {"x"});
    expect_objection(model.set("blocksize", kHuge).input("x", {1, 4, 8, 8}), "is no extent of a block");
  }
}

TEST(SchemaGuards, WindowsEndSoon) {
  ModelBuilder model = one_node(13, "Conv", {"x", "w"});
  model.set("strides", std::vector<std::int64_t>{2}).set("auto_pad", std::string("SAME_UPPER")).weight("w", {1, 1, 2});
  ModelBuilder longer = model;
  ModelBuilder unsaid = model;
  unsaid.proto().mutable_graph()->mutable_node(0)->mutable_attribute(1)->clear_s();
  expect_objection(unsaid.input("x", {1, 1, INT32_MAX}), "too many places");
  expect_objection(model.input("x", {1, 1, INT32_MAX}), "too many places");
  expect_objection(longer.input("x", {1, 1, std::int64_t{1} << 55}), "too many places");
  ModelBuilder pool = one_node(13, "AveragePool", {"x"});
  pool.set("kernel_shape", std::vector<std::int64_t>{2}).set("strides", std::vector<std::int64_t>{2});
  pool.set("auto_pad", std::string("SAME_UPPER")).input("x", {1, 1, INT32_MAX});
  EXPECT_EQ(value_named(pool.network(), "y").shape, (Shape{1, 1, std::int64_t{1} << 30})) << "by Remora's own rule";
  ModelBuilder padded = one_node(13, "ConvTranspose", {"x", "w"});
  padded.set("strides", std::vector<std::int64_t>{kHuge}).input("x", {1, 1, 8}).weight("w", {1, 1, 2});
  expect_objection(padded, "strides is beyond any real extent");
}

TEST(SchemaGuards, ShapesOfUnknownEntriesAreShort) {
  for (const char* type : {"Expand", "ConstantOfShape"}) {
    const bool expands = std::string(type) == "Expand";
    ModelBuilder model = one_node(13, type, expands ? Strings{"x", "s"} : Strings{"s"});
    if (expands) model.input("x", {1});
    expect_objection(model.input("s", {INT32_MAX}, kInt64), "too long for a shape");
  }
}

/// In 32 bits 2^32 + 4 places are 4, in 64 bits 4 times 2^62 are 0.
TEST(SchemaGuards, ExtentsAreNotCutShort) {
  ModelBuilder concat = one_node(13, "Concat", {"x", "x"});
  expect_objection(concat.set("axis", 0).input("x", {kHuge + 4}), "axis of 2^31 or more");
  ModelBuilder split = one_node(11, "Split", {"x"});
  split.set("axis", 0).input("x", {kHuge + 4});
  EXPECT_EQ(value_named(split.network(), "y").shape, (Shape{kHuge + 4})) << "by Remora's own rule";
  ModelBuilder tile = one_node(13, "Tile", {"x", "n"});
  expect_objection(tile.input("x", {4}).integers("n", {std::int64_t{1} << 62}), "beyond any real extent");
  ModelBuilder gather = one_node(13, "Gather", {"x", "x"});
  expect_objection(gather.set("axis", kHuge).input("x", {4}, kInt64), "axis is beyond any rank");
}

TEST(SchemaGuards, AttributesOfAFunctionHaveNoValueOutsideOfOne) {
  ModelBuilder model = one_node(13, "Softmax", {"x"});
  model.set("axis", 1).input("x", {2, 3});
  model.proto().mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_ref_attr_name("axis");
  EXPECT_EQ(model.complaint(), "") << "Remora's own rule knows the shape without it";
  ModelBuilder transposed = one_node(13, "Transpose", {"x"});
  transposed.set("perm", std::vector<std::int64_t>{1, 0}).input("x", {2, 3});
  transposed.proto().mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_ref_attr_name("perm");
  expect_objection(transposed, "outside of any function");
}

}  // namespace
}  // namespace remora::onnx_frontend::test
