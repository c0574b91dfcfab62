// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

using Json = nlohmann::json;
using test::Outcome;
using test::run_words;

/// The tiny models of tests/data, and one that recomputing helps.
class RewriteCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    for (const char* const name : {"transformer_tiny", "gpt2_tiny"}) {
      std::filesystem::copy_file(std::string(REMORA_SOURCE_DIR "/tests/data/onnx/") + name + ".onnx",
                                 path(std::string(name) + ".onnx"));
    }
    model_ = path("transformer_tiny.onnx");
  }

  [[nodiscard]] Outcome rewrite(const std::string& words) const {
    return run_words("rewrite " + model_ + " --work-limit 20000 --threads 1 -o " + path("out.onnx") + " " + words);
  }
  [[nodiscard]] Outcome apply(const std::string& words) const {
    return run_words("rewrite " + model_ + " --schedule " + path("schedule.json") + " -o " + path("out.onnx") + " " +
                     words);
  }
  [[nodiscard]] bool written() const { return std::filesystem::exists(path("out.onnx")); }
  /// One line, of this code, and no file.
  void expect_refused(const Outcome& outcome, int code, const std::string& says) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_FALSE(written());
  }
  void solve(const std::string& words) const {
    const Outcome outcome = run_words("solve " + model_ + " -q -o " + path("schedule.json") + " " + words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  [[nodiscard]] static std::int64_t figure(const std::string& file, const std::string& key) {
    const Outcome outcome = run_words("solve " + file + " -b 1000% --strategy none -q");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)[key].get<std::int64_t>();
  }

  std::string model_;
};

TEST_F(RewriteCommand, SolvesAndWritesAModelThatNeedsWhatTheScheduleSays) {
  solve("-b 98% --work-limit 20000 --threads 1");
  const Json schedule = Json::parse(read("schedule.json"));
  ASSERT_GT(schedule["duration"], schedule["baseline_duration"]);
  ASSERT_EQ(rewrite("-b 98% -q").code, 0);
  EXPECT_EQ(figure(path("out.onnx"), "baseline_peak_memory"), schedule["peak_memory"]);
  EXPECT_EQ(figure(path("out.onnx"), "baseline_duration"), schedule["duration"]);
}

TEST_F(RewriteCommand, TellsWhatItDidUnlessQuiet) {
  const Outcome told = rewrite("-b 98%");
  EXPECT_NE(told.err.find("recomputed"), std::string::npos);
  EXPECT_TRUE(told.out.empty());
  const Outcome quiet = rewrite("-b 98% -q");
  EXPECT_TRUE(quiet.err.empty()) << quiet.err;
}

TEST_F(RewriteCommand, WritesByAScheduleThatIsThere) {
  solve("-b 98% --work-limit 20000 --threads 1");
  ASSERT_EQ(rewrite("-b 98% -q").code, 0);
  const std::string solved = read("out.onnx");
  ASSERT_EQ(apply("-q").code, 0);
  EXPECT_EQ(read("out.onnx"), solved);
}

TEST_F(RewriteCommand, TakesOtherOrders) {
  solve("-b 150% --strategy twremat");
  ASSERT_EQ(apply("-q").code, 0);
  EXPECT_LE(figure(path("out.onnx"), "baseline_peak_memory"),
            Json::parse(read("schedule.json"))["peak_memory"].get<std::int64_t>());
}

TEST_F(RewriteCommand, ABudgetThatNothingHoldsWritesNothing) {
  const Outcome outcome = rewrite("-b 10% -q");
  EXPECT_EQ(outcome.code, 20);
  EXPECT_FALSE(written());
  write("out.onnx", "before");
  EXPECT_EQ(rewrite("-b 10% -q").code, 20);
  EXPECT_EQ(read("out.onnx"), "before");
}

TEST_F(RewriteCommand, PlansAroundWhatHasNoSize) {
  model_ = REMORA_SOURCE_DIR "/tests/data/onnx/detection/fasterrcnn.onnx";
  expect_refused(rewrite("-b 100% -q"), 65, "--bound NonZero=N");
  expect_refused(rewrite("-b 100% -q --training --allow-unknown"), 64, "needs every size");
  const Outcome devices = run_words("convert " + model_ + " --allow-unknown --devices gpu=a100");
  EXPECT_EQ(devices.code, 64) << devices.err;
  const Json info = Json::parse(run_words("info " + model_ + " --json -q --allow-unknown").out);
  EXPECT_GT(info["unknown_tensors"], 0);
  EXPECT_LT(info["unknown_tensors"], info["tensors"]);
  solve("-b 100% --allow-unknown --strategy none");
  // The schedule remembers it.
  const Outcome told = apply("");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_NE(told.err.find("values is unknown and counts as 0 bytes"), std::string::npos) << told.err;
  const Outcome summary = run_words("solve " + model_ + " -b 100% --allow-unknown --strategy none -o /dev/null");
  EXPECT_NE(summary.err.find("tensors of unknown size not counted"), std::string::npos) << summary.err;
}

TEST_F(RewriteCommand, RefusesSchedulesOfOtherModels) {
  solve("-b 98% --work-limit 20000 --threads 1");
  const std::string own = model_;
  model_ = path("gpt2_tiny.onnx");
  expect_refused(apply("-q"), 65, "schedule.json: $.steps[0].op");
  model_ = own;
  // The same graph, another file.
  Json schedule = Json::parse(read("schedule.json"));
  schedule["graph_sha256"] = std::string(64, 'a');
  write("schedule.json", schedule.dump());
  expect_refused(apply("-q"), 65, "$.graph_sha256: it is the schedule of another file");
}

TEST_F(RewriteCommand, RefusesSchedulesThatAreNotValid) {
  solve("-b 98% --work-limit 20000 --threads 1");
  expect_refused(apply("-q --cost unit"), 65, "not a valid schedule of this graph");
  Json schedule = Json::parse(read("schedule.json"));
  schedule["steps"].erase(3);
  write("schedule.json", schedule.dump());
  expect_refused(apply("-q"), 65, "not a valid schedule of this graph");
  run_words("solve " + model_ + " -b 10% -q -o " + path("schedule.json"));
  expect_refused(apply("-q"), 65, "the search found none");
}

TEST_F(RewriteCommand, RefusesWhatIsNoModel) {
  solve("-b 98% --work-limit 20000 --threads 1");
  model_ = path("schedule.json");
  expect_refused(rewrite("-b 98% -q"), 65, "neither an ONNX model nor an HLO module");
  model_ = path("nowhere.onnx");
  expect_refused(rewrite("-b 98% -q"), 65, "nowhere.onnx: cannot read");
}

TEST_F(RewriteCommand, RefusesOptionsThatContradictEachOther) {
  solve("-b 98% --work-limit 20000 --threads 1");
  expect_refused(apply("-b 98%"), 64, "--budget says how to solve");
  expect_refused(apply("--strategy greedy"), 64, "--strategy says how to solve");
  expect_refused(apply("--seed 3"), 64, "--seed says how to solve");
  expect_refused(rewrite("-q"), 64, "give --budget");
  const std::string before = read("transformer_tiny.onnx");
  const Outcome same = run_words("rewrite " + model_ + " -b 98% -q -o " + model_);
  EXPECT_EQ(same.code, 64);
  EXPECT_EQ(read("transformer_tiny.onnx"), before);
}

TEST_F(RewriteCommand, OfATrainingStepWritesTheScheduleInTheModelsNames) {
  const Outcome outcome =
      run_words("rewrite " + model_ + " --training -b 70% --work-limit 2000 --without period-bound --threads 1 -q");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json plan = Json::parse(outcome.out);
  EXPECT_EQ(plan["format"], "remora-runtime-schedule");
  EXPECT_LE(plan["peak_memory"], plan["budget"]);
  const auto recomputes = std::count_if(plan["steps"].begin(), plan["steps"].end(),
                                        [](const Json& step) { return step["kind"] == "recompute"; });
  EXPECT_GT(recomputes, 0);
  const Json graph = Json::parse(run_words("convert " + model_ + " --training").out);
  EXPECT_EQ(plan["steps"].size(), graph["ops"].size() + static_cast<std::size_t>(recomputes));
}

}  // namespace
}  // namespace remora::cli
