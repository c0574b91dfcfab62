// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "onnx/onnx_pb.h"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using onnx_frontend::test::extent;
using onnx_frontend::test::ModelBuilder;
using onnx_frontend::test::put_outside;
using onnx_frontend::test::Strings;
using test::Outcome;
using test::run_words;

/// Four branches, of which the file computes all wide tensors first.
ModelBuilder wide_first() {
  ModelBuilder builder;
  builder.input("x", {extent(4), extent(4)}).weight("w", {4, 400});
  Strings narrow;
  for (int i = 0; i < 4; ++i) builder.node("MatMul", {"x", "w"}, {"a" + std::to_string(i)}, "A" + std::to_string(i));
  for (int i = 0; i < 4; ++i) {
    narrow.push_back("b" + std::to_string(i));
    builder.node("ReduceMean", {"a" + std::to_string(i)}, {narrow.back()}, "B" + std::to_string(i));
    builder.set("axes", std::vector<std::int64_t>{1});
  }
  builder.node("Sum", narrow, {"y"}, "S").output("y");
  return builder;
}

class OrderCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    model_ = path("model.onnx");
    write("model.onnx", wide_first().bytes());
    graph_ = path("graph.json");
    ASSERT_EQ(run_words("convert " + model_ + " -o " + graph_).code, 0);
  }
  [[nodiscard]] static Outcome order(const std::string& words) {
    return run_words("order --work-limit 20000 --threads 1 " + words);
  }
  [[nodiscard]] static Json figures(const std::string& words) {
    const Outcome outcome = order("--json -q " + words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.empty()) << outcome.err;
    return Json::parse(outcome.out);
  }
  [[nodiscard]] static std::int64_t own_peak(const std::string& file) {
    const Outcome outcome = run_words("info --json -q " + file);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["no_recompute_peak"].get<std::int64_t>();
  }
  static std::multiset<std::string> ops_of(const Json& graph) {
    std::multiset<std::string> ops;
    for (const Json& op : graph["ops"]) ops.insert(op.dump());
    return ops;
  }
  /// Exit code and one line.
  static void expect_refused(const Outcome& outcome, int code, const std::string& says) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }

  std::string model_;
  std::string graph_;
};

TEST_F(OrderCommand, WritesTheGraphInAnOrderOfSmallerPeak) {
  const Json told = figures(graph_ + " -o " + path("ordered.json"));
  EXPECT_LT(told["peak_memory"], told["input_peak_memory"]);
  EXPECT_LE(told["lower_bound"], told["peak_memory"]);
  EXPECT_EQ(told["input_peak_memory"], own_peak(graph_));
  EXPECT_EQ(told["peak_memory"], own_peak(path("ordered.json")));
  EXPECT_EQ(told["ops"], 9);
  const Json before = Json::parse(read("graph.json"));
  const Json after = Json::parse(read("ordered.json"));
  EXPECT_NE(before["ops"], after["ops"]);
  EXPECT_EQ(ops_of(before), ops_of(after));
  EXPECT_EQ(before["tensors"], after["tensors"]);
}

TEST_F(OrderCommand, WritesTheModelInThatOrder) {
  const Json told = figures(model_ + " -o " + path("ordered.onnx"));
  EXPECT_LT(told["peak_memory"], told["input_peak_memory"]);
  EXPECT_EQ(told["peak_memory"], own_peak(path("ordered.onnx")));
  onnx::ModelProto before;
  onnx::ModelProto after;
  ASSERT_TRUE(before.ParseFromString(read("model.onnx")));
  ASSERT_TRUE(after.ParseFromString(read("ordered.onnx")));
  std::multiset<std::string> nodes;
  for (const auto& node : before.graph().node()) nodes.insert(node.SerializeAsString());
  for (const auto& node : after.graph().node()) {
    const auto found = nodes.find(node.SerializeAsString());
    ASSERT_NE(found, nodes.end()) << node.name();
    nodes.erase(found);
  }
  EXPECT_TRUE(nodes.empty());
}

TEST_F(OrderCommand, TellsPeopleWhatItFound) {
  const Outcome told = order(graph_);
  EXPECT_EQ(told.code, 0);
  for (const char* const word : {"9 ops", "before", "after", "bound", "seed 1", "%"}) {
    EXPECT_NE(told.out.find(word), std::string::npos) << told.out;
  }
  EXPECT_NE(told.err.find("of the input order's"), std::string::npos) << told.err;
  // The graph itself on standard output leaves the figures to standard error.
  const Outcome graph = order(graph_ + " -o -");
  EXPECT_EQ(ops_of(Json::parse(graph.out)), ops_of(Json::parse(read("graph.json"))));
  EXPECT_NE(graph.err.find("before"), std::string::npos);
}

TEST_F(OrderCommand, WhatMeetsTheBoundIsOptimal) {
  const Json told = figures(graph_);
  EXPECT_LT(told["peak_memory"], told["input_peak_memory"]);
  EXPECT_EQ(told["lower_bound"], told["peak_memory"]);
  EXPECT_EQ(told["status"], "optimal");
}

TEST_F(OrderCommand, ATargetThatIsThereNeedsNoSearch) {
  const Json told = figures(graph_ + " --target 100%");
  EXPECT_EQ(told["peak_memory"], told["input_peak_memory"]);
}

TEST_F(OrderCommand, TrainingStepsAreGraphsAndNoModels) {
  const std::string training = std::string(REMORA_SOURCE_DIR "/tests/data/onnx/gpt2_tiny.onnx") + " --training ";
  const Json told = figures(training + "-o " + path("step.json"));
  EXPECT_EQ(told["peak_memory"], own_peak(path("step.json")));
  expect_refused(order(training + "-o " + path("step.onnx")), 64, "--training");
  EXPECT_FALSE(fs::exists(path("step.onnx")));
}

TEST_F(OrderCommand, AModelThatNeedsShapesOfOtherBranchesIsWrittenInAnyOrder) {
  ModelBuilder builder = wide_first();
  // The last branch's shape is needed beside the branches, by what reads nothing of them.
  builder.node("Shape", {"a3"}, {"s"}, "Shape").node("Exp", {"x"}, {"e"}, "E");
  builder.node("ReduceMean", {"e"}, {"m"}, "M").node("Expand", {"m", "s"}, {"v"}, "V").output("v");
  write("shapes.onnx", builder.bytes());
  const Json told = figures(path("shapes.onnx") + " -o " + path("ordered.onnx"));
  EXPECT_EQ(told["peak_memory"], own_peak(path("ordered.onnx")));
  ASSERT_EQ(run_words("convert " + path("shapes.onnx") + " -o " + path("shapes.json")).code, 0);
  EXPECT_NE(read("shapes.json").find("\"after\""), std::string::npos);
}

TEST_F(OrderCommand, WhatIsReadIsNotWrittenOver) {
  const std::string before = read("model.onnx");
  expect_refused(order(model_ + " -o " + model_), 64, "GRAPH itself");
  expect_refused(order(graph_ + " -o " + graph_), 64, "GRAPH itself");
  EXPECT_EQ(read("model.onnx"), before);
}

TEST_F(OrderCommand, DataOfTheModelIsNotWrittenOver) {
  ModelBuilder builder = wide_first();
  auto& weight = *builder.proto().mutable_graph()->mutable_initializer(0);
  const std::string data = "weights";
  write("w.bin", data);
  weight.clear_raw_data();
  put_outside(weight, "w.bin");
  write("external.onnx", builder.bytes());
  for (const char* const command : {"order", "solve --budget 80%"}) {
    expect_refused(
        run_words(std::string(command) + " --work-limit 100 " + path("external.onnx") + " -o " + path("w.bin")), 64,
        "data of the model");
  }
  EXPECT_EQ(read("w.bin"), data);
}

TEST_F(OrderCommand, BadWordsAndBadInputHaveTheirCodes) {
  expect_refused(order(graph_ + " -o " + path("ordered.onnx")), 65, "neither an ONNX model nor an HLO module");
  EXPECT_FALSE(fs::exists(path("ordered.onnx")));
  expect_refused(order(path("absent.json")), 65, "absent.json");
  write("broken.json", "{\"format\": 3}");
  expect_refused(order(path("broken.json")), 65, "broken.json");
  expect_refused(order(graph_ + " -o " + path("nowhere/ordered.json")), 65, "nowhere");
  expect_refused(order(graph_ + " --target much"), 64, "--target");
  expect_refused(order(graph_ + " --seed -1"), 64, "--seed");
  expect_refused(order(graph_ + " --json -o -"), 64, "--json");
  expect_refused(run_words("order"), 64, "GRAPH");
}

TEST_F(OrderCommand, ASignalEndsItWithTheBestOrderSoFar) {
  ASSERT_EQ(run_words("generate layered --ops 600 -o " + path("large.json")).code, 0);
  const pid_t child = remora::test::start_child(
      {REMORA_PROGRAM, "order", path("large.json"), "--time-limit", "600", "-o", path("ordered.json")},
      path("err.txt"));
  // The first line of the table comes once signals are taken.
  constexpr int kPolls = 3000;
  for (int i = 0; i < kPolls && read("err.txt").find("100.0 %") == std::string::npos; ++i) usleep(20'000);
  ASSERT_EQ(kill(child, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_LE(own_peak(path("ordered.json")), own_peak(path("large.json")));
}

TEST_F(OrderCommand, SolveChoosesTheOrderAndSaysWhy) {
  const std::string schedule = path("schedule.json");
  const std::string words = graph_ + " --work-limit 20000 --threads 1 -o " + schedule + " ";
  const Outcome chosen = run_words("solve " + words + "-b 60% --order auto");
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_NE(chosen.err.find("order free: another order needs"), std::string::npos) << chosen.err;
  const Json free = Json::parse(read("schedule.json"));
  EXPECT_EQ(free["order"], "free");
  EXPECT_NE(free["solver"].dump().find("order free"), std::string::npos);
  EXPECT_EQ(run_words("verify " + graph_ + " " + schedule).code, 0);

  EXPECT_EQ(run_words("solve -q " + words + "-b 100% --order auto").code, 0);
  EXPECT_EQ(Json::parse(read("schedule.json"))["order"], "input");
  EXPECT_EQ(run_words("solve -q " + words + "-b 60% --order free").code, 0);
  EXPECT_EQ(Json::parse(read("schedule.json"))["duration"], free["baseline_duration"]);
  // A schedule in free order is a start for both orders' searches, and has no stages.
  EXPECT_EQ(run_words("report " + graph_ + " " + schedule + " -o " + path("report.html")).code, 0);
  EXPECT_EQ(run_words("convert " + graph_ + " --schedule " + schedule + " --to rs").code, 65);
  EXPECT_EQ(run_words("convert " + graph_ + " --schedule " + schedule + " --to minimalloc").code, 0);
}

TEST_F(OrderCommand, AMethodThatKeepsToTheInputOrderProvesNothingOfAnother) {
  Json graph = Json::parse(read("graph.json"));
  for (Json& op : graph["ops"]) op["recompute"] = "never";  // the input order cannot be mended, another one fits
  write("once.json", graph.dump());
  const std::string words = "solve -q " + path("once.json") + " -b 60% --time-limit 10 -o " + path("schedule.json");
  ASSERT_EQ(run_words(words + " --order free").code, 0);
  for (const char* method : {"greedy", "sqrt", "rotor", "checkmate", "none"}) {
    const std::string with_method = words + " --strategy " + method;
    const Outcome input = run_words(with_method + " --order input");
    EXPECT_EQ(input.code, 20) << method << input.err;
    const Outcome chosen = run_words(with_method + " --order auto");
    EXPECT_EQ(chosen.code, 21) << method << chosen.err;
    EXPECT_EQ(chosen.err.find("proved"), std::string::npos) << method << chosen.err;
    const Json schedule = Json::parse(read("schedule.json"));
    EXPECT_EQ(schedule["status"], "unknown") << method;
    EXPECT_EQ(schedule["solver"]["note"].get<std::string>().find("order free: another order needs"), 0U)
        << method << schedule["solver"];
  }
}

TEST_F(OrderCommand, RewritesInFreeOrder) {
  const std::string fitted = path("fitted.onnx");
  const Outcome outcome =
      run_words("rewrite " + model_ + " -b 60% --order free --work-limit 20000 --threads 1 -q -o " + fitted);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LE(own_peak(fitted), own_peak(model_));
  EXPECT_LT(own_peak(fitted), 0.7 * static_cast<double>(own_peak(model_)));
}

TEST_F(OrderCommand, ASweepSaysWhatItTakesInstead) {
  expect_refused(run_words("sweep " + graph_ + " --order free"), 64, "remora order");
  expect_refused(run_words("sweep " + graph_ + " --order auto"), 64, "keeps to the input order");
}

}  // namespace
}  // namespace remora::cli
