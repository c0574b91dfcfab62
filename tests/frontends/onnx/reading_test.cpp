// SPDX-License-Identifier: Apache-2.0
//
// Files that are no models, cut or damaged ones, and models whose graph does not hang together.
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "model_builder.hpp"
#include "onnx/onnx_pb.h"
#include "tests/support/refusal.hpp"

namespace remora::onnx_frontend::test {
namespace {

ModelBuilder small_model() {
  return ModelBuilder()
      .input("x", {1, 3, 8, 8})
      .weight("w", {4, 3, 3, 3})
      .integers("shape", {1, -1})
      .node("Conv", {"x", "w"}, {"c"}, "conv")
      .node("Relu", {"c"}, {"r"}, "relu")
      .node("Reshape", {"r", "shape"}, {"y"}, "flat")
      .output("y");
}

std::string complaint_about(const std::string& bytes) {
  return remora::test::refusal_of([&] { read_onnx(bytes, "file.onnx", {}); });
}

bool one_line_with_source(const std::string& text) {
  return text.rfind("file.onnx: ", 0) == 0 && text.find('\n') == std::string::npos;
}

TEST(Reading, EmptyFileIsAnErrorThatSaysSo) {
  const std::string complaint = complaint_about("");
  EXPECT_TRUE(one_line_with_source(complaint)) << complaint;
  EXPECT_TRUE(contains(complaint, "empty")) << complaint;
}

TEST(Reading, AVeryLongNameIsNotShownWhole) {
  const std::string name(10'000'000, 'n');
  ModelBuilder twice = small_model();
  twice.node("Relu", {"r"}, {name}, name).node("Relu", {"r"}, {name}, name + "2");
  ModelBuilder unknown = small_model();
  unknown.node("Relu", {name}, {"z"}, name).output("z");
  ModelBuilder open;
  open.input(name, {symbol(name)}).node("Relu", {name}, {"y"}).output("y");
  ModelBuilder output = small_model();
  output.output(name);
  ModelBuilder mystery = small_model();
  mystery.node(name, {"r"}, {name}).output(name);
  for (const ModelBuilder* const model : {&twice, &unknown, &open, &output, &mystery}) {
    const std::string complaint = complaint_about(model->bytes());
    EXPECT_TRUE(one_line_with_source(complaint));
    EXPECT_LT(complaint.size(), 1000U);
  }
}

TEST(Reading, ModelCutAnywhereIsAnErrorOrComplete) {
  const std::string bytes = small_model().bytes();
  ASSERT_EQ(complaint_about(bytes), "");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string complaint = complaint_about(bytes.substr(0, length));
    EXPECT_TRUE(one_line_with_source(complaint)) << length << ": " << complaint;
  }
}

TEST(Reading, DamageIsLocated) {
  const std::string bytes = small_model().bytes();
  const std::size_t relu = bytes.find("relu");
  const std::string cut = complaint_about(bytes.substr(0, relu));
  EXPECT_TRUE(contains(cut, "graph.node[1], byte ") && contains(cut, " of " + std::to_string(relu))) << cut;

  std::string damaged = bytes;
  damaged[relu - 1] = '\x70';  // the length of the name, which now reaches beyond its node
  EXPECT_TRUE(contains(complaint_about(damaged), "graph.node[1], byte ")) << complaint_about(damaged);

  EXPECT_TRUE(contains(complaint_about("garbage"), "model, byte 0 of 7")) << complaint_about("garbage");
}

TEST(Reading, GarbageIsAnError) {
  const std::string texts[] = {"garbage", "{\"format\": \"remora-graph\"}", std::string(100, '\0'), "\xff\xff\xff\xff"};
  for (const std::string& text : texts) EXPECT_TRUE(one_line_with_source(complaint_about(text))) << text;
}

TEST(Reading, DamagedBytesNeverDoMoreThanThrowInputError) {
  const std::string bytes = small_model().bytes();
  constexpr unsigned kSeed = 20240607;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    const int changes = 1 + round % 3;
    for (int k = 0; k < changes; ++k) damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    try {
      read_onnx(damaged, "file.onnx", {});
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "seed " << kSeed << " round " << round;
    }
  }
}

TEST(Reading, LooksLikeOnnxTellsModelsFromJsonAndGarbage) {
  const std::string bytes = small_model().bytes();
  EXPECT_TRUE(looks_like_onnx(bytes));
  EXPECT_TRUE(looks_like_onnx(bytes.substr(0, bytes.size() / 2)));
  EXPECT_FALSE(looks_like_onnx(""));
  EXPECT_FALSE(looks_like_onnx("{\"format\": \"remora-graph\", \"version\": 1}"));
  EXPECT_FALSE(looks_like_onnx("  \n\t[1, 2]"));
  EXPECT_FALSE(looks_like_onnx("some text"));
  EXPECT_FALSE(looks_like_onnx(std::string(64, '\0')));
}

TEST(Reading, ModelWithoutNodesIsAnError) {
  EXPECT_TRUE(contains(ModelBuilder().input("x", {1}).output("x").complaint(), "no nodes"));
}

TEST(Reading, ModelWithoutOutputsIsAnError) {
  EXPECT_NE(ModelBuilder().input("x", {1}).node("Relu", {"x"}, {"y"}).complaint(), "");
}

TEST(Reading, ModelThatComputesNothingHasAnEmptyGraphAndAWarning) {
  const ModelBuilder model = ModelBuilder().input("x", {2, 3}).node("Flatten", {"x"}, {"y"}).output("y");
  const OnnxResult result = read_onnx(model.bytes(), "test.onnx", {});
  EXPECT_TRUE(result.graph.ops.empty());
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_TRUE(contains(result.warnings[0], "computes nothing")) << result.warnings[0];
}

TEST(Reading, TensorsWithoutElementsTakeNoMemory) {
  ModelBuilder model;
  model.input("past", {1, 2, symbol("past_length"), 4}).input("key", {1, 2, 5, 4});
  model.node("Concat", {"past", "key"}, {"all"}).set("axis", 2);
  model.node("Transpose", {"all"}, {"turned"}).set("perm", std::vector<std::int64_t>{0, 1, 3, 2}).output("turned");
  OnnxOptions options;
  options.dimensions = {{"past_length", 0}};
  const Graph graph = model.graph(options);
  EXPECT_EQ(graph.tensors[0].size, Bytes(0));
  EXPECT_EQ(graph.tensors[graph.ops[0].outputs[0]].size, Bytes(1 * 2 * 5 * 4 * 4));
  options.dimensions = {{"past_length", -1}};
  EXPECT_TRUE(contains(model.complaint(options), "--dim past_length")) << model.complaint(options);
}

TEST(Reading, ValueThatNothingMakesIsNamed) {
  const std::string complaint =
      ModelBuilder().input("x", {1}).node("Add", {"x", "ghost"}, {"y"}, "sum").output("y").complaint();
  EXPECT_TRUE(contains(complaint, "node sum (Add)") && contains(complaint, "\"ghost\"")) << complaint;
}

TEST(Reading, OutputThatNothingMakesIsNamed) {
  EXPECT_TRUE(contains(ModelBuilder().input("x", {1}).node("Relu", {"x"}, {"y"}).output("z").complaint(), "output z"));
}

TEST(Reading, TwoMakersOfOneValueAreBothNamed) {
  const std::string complaint = ModelBuilder()
                                    .input("x", {1})
                                    .node("Relu", {"x"}, {"y"}, "first")
                                    .node("Tanh", {"x"}, {"y"}, "second")
                                    .output("y")
                                    .complaint();
  EXPECT_TRUE(contains(complaint, "first") && contains(complaint, "second")) << complaint;
}

TEST(Reading, CycleIsAnError) {
  const std::string complaint =
      ModelBuilder().input("x", {1}).node("Add", {"x", "b"}, {"a"}).node("Relu", {"a"}, {"b"}).output("b").complaint();
  EXPECT_TRUE(contains(complaint, "cycle")) << complaint;
}

TEST(Reading, UnsortedNodesAreSorted) {
  const Network network = ModelBuilder()
                              .input("x", {4})
                              .node("Tanh", {"a"}, {"b"}, "second")
                              .node("Relu", {"x"}, {"a"}, "first")
                              .output("b")
                              .network();
  EXPECT_EQ(node_names(network), (Strings{"first", "second"}));
}

TEST(Reading, InitializerWhoseDataDoesNotFitItsDimsIsNamed) {
  ModelBuilder model = small_model();
  model.proto().mutable_graph()->mutable_initializer(1)->add_dims(7);
  EXPECT_TRUE(contains(model.complaint(), "initializer shape")) << model.complaint();
}

ModelBuilder with_data_in(const std::string& place) {
  ModelBuilder model = small_model();
  put_outside(*model.proto().mutable_graph()->mutable_initializer(0), place);
  return model;
}

TEST(Reading, ExternalDataIsNeverOpened) {
  EXPECT_EQ(with_data_in("nowhere/weights.bin").graph().fixed_memory, Bytes(4 * 3 * 3 * 3 * 4));
}

TEST(Reading, ExternalDataOutsideTheModelsFolderIsRefused) {
  for (const char* place : {"/nowhere/weights.bin", "../weights.bin", "a/../../weights.bin", "", "..", "/"}) {
    const ModelBuilder model = with_data_in(place);
    EXPECT_TRUE(contains(model.complaint(), "outside the model's folder")) << place << ": " << model.complaint();
    EXPECT_TRUE(contains(model.complaint(), "--allow-external")) << place;
    EXPECT_EQ(model.complaint({.allow_external = true}), "") << place;
  }
  for (const char* place : {"w.bin", "./w.bin", "a/../w.bin", "a/b", "..w"}) {
    EXPECT_EQ(with_data_in(place).complaint({.folder = "/tmp"}), "") << place;
  }
  // A name that is longer than any file's.
  EXPECT_TRUE(contains(with_data_in(std::string(1 << 20, 'x')).complaint({.folder = "/tmp"}), "cannot be looked up"));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
