// SPDX-License-Identifier: Apache-2.0
//
// What stands beside the nodes of a rewritten model: names, types, functions, data outside the file, all the rest.
#include <algorithm>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "frontends/onnx/model/model_proto.hpp"
#include "onnx/onnx_pb.h"
#include "rewrite_support.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::onnx_frontend::test {
namespace {

const Strings kRecompute{"A", "B", "C", "A", "D"};

ModelBuilder four_node_model() {
  return ModelBuilder()
      .input("x", {extent(4)})
      .weight("w", {4})
      .node("Mul", {"x", "w"}, {"a"}, "A")
      .node("Exp", {"a"}, {"b"}, "B")
      .node("Tanh", {"b"}, {"c"}, "C")
      .node("Add", {"a", "c"}, {"d"}, "D")
      .output("d");
}

/// The message of what `run` throws; empty if it throws nothing.
std::string complaint_of(const std::function<void()>& run) {
  return remora::test::refusal_of([&] { run(); });
}

TEST(OnnxWriter, FreshNamesAreNobodysName) {
  ModelBuilder builder = four_node_model();
  builder.value_info("a#2", {extent(9)});
  auto& training = *builder.proto().add_training_info()->mutable_algorithm();
  training.add_node()->set_name("A#2");
  training.mutable_node(0)->add_output("a#3");
  auto& function = *builder.proto().add_functions();
  function.set_name("F");
  function.set_domain("own");
  function.add_input("a#4");
  const onnx::ModelProto result = rewritten(builder.proto(), kRecompute);
  EXPECT_EQ(lines_of(result).at(3), "A#3: x w -> a#5");
  EXPECT_EQ(surroundings(result).SerializeAsString(), surroundings(builder.proto()).SerializeAsString());
}

TEST(OnnxWriter, FreshValuesHaveTheTypeOfTheirOriginal) {
  ModelBuilder builder = four_node_model();
  builder.value_info("a", {extent(4)});
  builder.value_info("c", {extent(4)});
  builder.proto().mutable_graph()->add_quantization_annotation()->set_tensor_name("a");
  const onnx::ModelProto result = rewritten(builder.proto(), kRecompute);
  ASSERT_EQ(result.graph().value_info_size(), 3);
  EXPECT_EQ(result.graph().value_info(2).name(), "a#2");
  EXPECT_EQ(result.graph().value_info(2).type().SerializeAsString(),
            result.graph().value_info(0).type().SerializeAsString());
  ASSERT_EQ(result.graph().quantization_annotation_size(), 2);
  EXPECT_EQ(result.graph().quantization_annotation(1).tensor_name(), "a#2");
}

TEST(OnnxWriter, AnEarlierComputeOfAnOutputHasTheOutputsType) {
  ModelBuilder builder = four_node_model();
  builder.value_info("a", {extent(4)}).output("a");
  *builder.proto().mutable_graph()->mutable_output(1) = builder.proto().graph().value_info(0);
  builder.proto().mutable_graph()->clear_value_info();
  const onnx::ModelProto result = rewritten(builder.proto(), kRecompute);
  ASSERT_EQ(result.graph().value_info_size(), 1);
  EXPECT_EQ(result.graph().value_info(0).name(), "a#1");
}

TEST(OnnxWriter, WhatItDoesNotKnowStays) {
  ModelBuilder builder = four_node_model();
  onnx::ModelProto& model = builder.proto();
  model.set_doc_string("doc");
  model.set_domain("example");
  model.set_model_version(7);
  model.set_producer_name("somebody");
  model.add_opset_import()->set_domain("other");
  auto& property = *model.add_metadata_props();
  property.set_key("author");
  property.set_value("somebody");
  model.mutable_graph()->mutable_node(0)->set_doc_string("first");
  // Fields of a later ONNX.
  model.GetReflection()->MutableUnknownFields(&model)->AddVarint(99, 5);
  auto& node = *model.mutable_graph()->mutable_node(0);
  node.GetReflection()->MutableUnknownFields(&node)->AddLengthDelimited(98, "later");
  const onnx::ModelProto result = rewritten(model, kRecompute);
  EXPECT_EQ(surroundings(result).SerializeAsString(), surroundings(model).SerializeAsString());
  EXPECT_EQ(result.GetReflection()->GetUnknownFields(result).field(0).varint(), 5U);
  const auto& copy = result.graph().node(3);
  EXPECT_EQ(copy.name(), "A#2");
  EXPECT_EQ(copy.doc_string(), "first");
  EXPECT_EQ(copy.GetReflection()->GetUnknownFields(copy).field(0).length_delimited(), "later");
}

onnx::ModelProto rewritten_in_order(const onnx::ModelProto& model) {
  const Graph graph = read_onnx(model.SerializeAsString(), "test.onnx", {}).graph;
  return rewritten(model, remora::input_order(Instance(std::make_shared<const Graph>(graph), {})));
}

/// Two calls of own.Scaled: p, q -> Relu(Mul(p, q)).
onnx::ModelProto with_function() {
  ModelBuilder builder;
  builder.input("x", {extent(4)})
      .weight("w", {4})
      .node("Scaled", {"x", "w"}, {"a"}, "first")
      .domain("own")
      .node("Scaled", {"a", "x"}, {"y"}, "second")
      .domain("own")
      .output("y");
  auto& import = *builder.proto().add_opset_import();
  import.set_domain("own");
  import.set_version(1);
  auto& function = *builder.proto().add_functions();
  function.set_name("Scaled");
  function.set_domain("own");
  function.add_input("p");
  function.add_input("q");
  function.add_output("r");
  function.add_opset_import()->set_version(17);
  auto& product = *function.add_node();
  product.set_op_type("Mul");
  product.add_input("p");
  product.add_input("q");
  product.add_output("t");
  auto& rectified = *function.add_node();
  rectified.set_op_type("Relu");
  rectified.add_input("t");
  rectified.add_output("r");
  return builder.proto();
}

TEST(OnnxWriter, FunctionsAreWrittenInline) {
  const onnx::ModelProto model = with_function();
  const onnx::ModelProto result = rewritten_in_order(model);
  EXPECT_EQ(lines_of(result), (Strings{": x w -> first/t", ": first/t -> a", ": a x -> second/t", ": second/t -> y"}));
  EXPECT_EQ(surroundings(result).SerializeAsString(), surroundings(model).SerializeAsString());
}

TEST(OnnxWriter, WhatFunctionsDefineIsNobodysName) {
  onnx::ModelProto model = with_function();
  model.mutable_functions(0)->mutable_node(0)->set_name("n");
  model.mutable_functions(0)->mutable_node(1)->set_name("n");
  onnx::GraphProto& graph = *model.mutable_graph();
  // A weight, a node, and a value in a body that serves no output.
  graph.mutable_initializer(0)->set_name("first/t");
  graph.mutable_node(0)->set_input(1, "first/t");
  auto& node = *graph.add_node();
  node.set_op_type("Exp");
  node.set_name("first/n");
  node.add_input("y");
  node.add_output("z");
  graph.add_output()->set_name("z");
  auto& branch = *graph.add_node();
  branch.set_op_type("If");
  branch.set_name("branch");
  branch.add_input("x");
  branch.add_output("dead");
  auto& defines = *branch.add_attribute()->mutable_g()->add_node();
  defines.set_op_type("Tanh");
  defines.add_input("x");
  defines.add_output("second/t");
  EXPECT_EQ(lines_of(rewritten_in_order(model)),
            (Strings{"first/n#2: x first/t -> first/t#2", "first/n#3: first/t#2 -> a", "second/n: a x -> second/t#2",
                     "second/n#2: second/t#2 -> y", "first/n: y -> z", "branch: x -> dead"}));
}

TEST(OnnxWriter, OperatorSetsOfFunctionsAreImported) {
  onnx::ModelProto model = with_function();
  auto& import = *model.mutable_functions(0)->add_opset_import();
  import.set_domain("third");
  import.set_version(2);
  const onnx::ModelProto result = rewritten_in_order(model);
  ASSERT_EQ(result.opset_import_size(), 3);
  EXPECT_EQ(result.opset_import(2).domain(), "third");
  EXPECT_EQ(result.opset_import(2).version(), 2);
}

TEST(OnnxWriter, FunctionsThatMeanSomethingElseInlineAreRefused) {
  const auto complaint = [](const std::function<void(onnx::ModelProto&)>& change) {
    onnx::ModelProto model = with_function();
    change(model);
    return complaint_of([&] { rewritten_in_order(model); });
  };
  EXPECT_EQ(
      complaint([](onnx::ModelProto& model) { model.mutable_functions(0)->mutable_opset_import(0)->set_version(13); }),
      "test.onnx: function Scaled: is of version 13 of the operator set \"\", the model of 17; convert them to one "
      "version first");
  EXPECT_TRUE(contains(complaint([](onnx::ModelProto& model) { *model.add_functions() = model.functions(0); }),
                       "function Scaled: is there twice"));
}

TEST(OnnxWriter, FunctionsOfTheNameOfAStandardOpAreRefused) {
  onnx::ModelProto model = with_function();
  for (const char* const domain : {"", "ai.onnx"}) {
    auto& function = *model.mutable_functions(0);
    function.set_name("Sub");
    function.set_domain(domain);
    for (auto& node : *model.mutable_graph()->mutable_node()) {
      node.set_op_type("Sub");
      node.clear_domain();
    }
    const std::string complaint = complaint_of([&] { rewritten_in_order(model); });
    EXPECT_TRUE(contains(complaint, "function Sub: has the name of a standard operator")) << complaint;
  }
}

TEST(OnnxWriter, FunctionsThatNothingCallsDoNotMatter) {
  onnx::ModelProto model = with_function();
  for (int k = 0; k < 2; ++k) {
    auto& other = *model.add_functions();
    other.set_name("Other");
    other.set_domain("own");
    other.add_opset_import()->set_version(13);
    auto& branch = *other.add_node();
    branch.set_op_type("If");
    branch.add_attribute()->mutable_g();
  }
  const onnx::ModelProto result = rewritten_in_order(model);
  EXPECT_EQ(surroundings(result).SerializeAsString(), surroundings(model).SerializeAsString());
}

TEST(OnnxWriter, FunctionsThatOthersCallMatter) {
  onnx::ModelProto model = with_function();
  auto& inner = *model.add_functions();
  inner.set_name("Inner");
  inner.set_domain("own");
  inner.add_input("p");
  inner.add_output("r");
  inner.add_opset_import()->set_version(13);
  auto& node = *inner.add_node();
  node.set_op_type("Relu");
  node.add_input("p");
  node.add_output("r");
  auto& call = *model.mutable_functions(0)->mutable_node(1);
  call.set_op_type("Inner");
  call.set_domain("own");
  const std::string complaint = complaint_of([&] { rewritten_in_order(model); });
  EXPECT_TRUE(contains(complaint, "function Inner: is of version 13")) << complaint;
}

/// The model with w in the file at this place, moved.
std::string place_after(const std::string& place, const std::string& from, const std::optional<std::string>& to) {
  ModelBuilder builder = four_node_model();
  auto& weight = *builder.proto().mutable_graph()->mutable_initializer(0);
  put_outside(weight, place);
  auto& offset = *weight.add_external_data();
  offset.set_key("offset");
  offset.set_value("4096");
  move_external_data(builder.proto(), from, to ? std::optional<std::filesystem::path>(*to) : std::nullopt);
  EXPECT_EQ(weight.external_data(1).value(), "4096");
  return weight.external_data(0).value();
}

TEST(ExternalData, IsFoundFromTheSameFolderAndFromFoldersAbove) {
  EXPECT_EQ(place_after("w.bin", "models", "models"), "w.bin");
  EXPECT_EQ(place_after("w.bin", "models", "models/../models/"), "w.bin");
  EXPECT_EQ(place_after("data/w.bin", "models", "models"), "data/w.bin");
  EXPECT_EQ(place_after("w.bin", "models/inner", "models"), "inner/w.bin");
  EXPECT_EQ(place_after("data/w.bin", "models", "."), "models/data/w.bin");
  EXPECT_EQ(place_after("data/w.bin", "models", "models/data"), "w.bin");
}

class LinkedData : public remora::test::TemporaryFolder {};

TEST_F(LinkedData, IsFoundByTheLinkBeforeItsTarget) {
  namespace fs = std::filesystem;
  fs::create_directories(path("snapshot"));
  fs::create_directories(path("blobs"));
  write("blobs/2", "weights");
  fs::create_symlink("../blobs/2", path("snapshot/w.bin"));
  EXPECT_EQ(place_after("w.bin", path("snapshot"), folder()), "snapshot/w.bin");
  EXPECT_EQ(place_after("w.bin", path("snapshot"), path("blobs")), "2");
  fs::create_directory_symlink("snapshot", path("current"));
  EXPECT_EQ(place_after("w.bin", path("current"), path("snapshot")), "w.bin");
}

TEST(ExternalData, IsNotLeftBehind) {
  EXPECT_TRUE(
      contains(complaint_of([] { place_after("w.bin", "models", "other"); }), "initializer w: has its data in"));
  EXPECT_TRUE(contains(complaint_of([] { place_after("w.bin", "models", "models/inner"); }), "not below the folder"));
  EXPECT_TRUE(
      contains(complaint_of([] { place_after("w.bin", "models", std::nullopt); }), "write the model to a file"));
}

TEST(ExternalData, InNodesBodiesAndFunctionsIsMovedToo) {
  ModelBuilder builder = four_node_model();
  const auto external = [](onnx::TensorProto& tensor) {
    put_outside(tensor, "w.bin");
    return &tensor;
  };
  auto& attribute = *builder.proto().mutable_graph()->mutable_node(0)->add_attribute();
  const std::vector<const onnx::TensorProto*> tensors{
      external(*attribute.mutable_t()),
      external(*attribute.add_tensors()),
      external(*attribute.mutable_sparse_tensor()->mutable_indices()),
      external(*attribute.mutable_g()->add_initializer()),
      external(*attribute.add_graphs()->add_node()->add_attribute()->mutable_t()),
      external(*builder.proto().mutable_graph()->add_sparse_initializer()->mutable_values()),
      external(*builder.proto().add_functions()->add_node()->add_attribute()->mutable_t()),
      external(*builder.proto().add_training_info()->mutable_algorithm()->add_initializer())};
  move_external_data(builder.proto(), "models/inner", "models");
  for (const auto* const tensor : tensors) EXPECT_EQ(tensor->external_data(0).value(), "inner/w.bin");
}

}  // namespace
}  // namespace remora::onnx_frontend::test
