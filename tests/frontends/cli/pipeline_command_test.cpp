// SPDX-License-Identifier: Apache-2.0
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

class PipelineCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("block.json", R"({"format": "remora-stage", "version": 1, "name": "block", "fixed_memory": 10, "modes": [
      {"forward": 20, "backward": 40, "saved": 10}, {"forward": 20, "backward": 60, "saved": 2}]})");
    // Two layers forward and backward; what the first saves may be made again.
    write("step.json", R"({"format": "remora-graph", "version": 1, "name": "step", "fixed_memory": 100,
      "tensors": [{"name": "x", "size": 1}, {"name": "a", "size": 8}, {"name": "b", "size": 8}, {"name": "db", "size": 8}, {"name": "da", "size": 1, "keep": true}],
      "ops": [{"name": "A", "duration": 3, "phase": "forward", "inputs": ["x"], "outputs": ["a"]},
              {"name": "B", "duration": 4, "phase": "forward", "inputs": ["a"], "outputs": ["b"]},
              {"name": "DB", "duration": 5, "phase": "backward", "inputs": ["b"], "outputs": ["db"]},
              {"name": "DA", "duration": 6, "phase": "backward", "inputs": ["a", "db"], "outputs": ["da"]}]})");
  }
  [[nodiscard]] Outcome pipeline(std::string words) const {
    for (auto at = words.find('@'); at != std::string::npos; at = words.find('@')) words.replace(at, 1, path(""));
    return run_words("pipeline " + words);
  }
};

TEST_F(PipelineCommand, IsFasterThanOneModeForAll) {
  const Outcome outcome =
      pipeline("@block.json @block.json @block.json @block.json -m 8 --budget 40B --classes 2 -o @plan.json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json plan = Json::parse(read("plan.json"));
  EXPECT_EQ(plan["status"], "optimal");
  EXPECT_EQ(plan["lower_bound"], plan["makespan"]);
  EXPECT_EQ(plan["uniform"]["mode"], 1);
  EXPECT_EQ(plan["uniform"]["makespan"], (8 + 3) * 80);
  EXPECT_LT(plan["makespan"], plan["uniform"]["makespan"]);
  for (const Json& device : plan["devices"]) EXPECT_LE(device["peak_memory"], 40);
  EXPECT_EQ(plan["stages"][3]["modes"].size(), 2U);
}

TEST_F(PipelineCommand, MakesTheModesOfAStep) {
  const Outcome outcome = pipeline("@step.json -m 2 --modes 9 --stages " + path(""));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json stage = Json::parse(read("STAGE-0.json"));
  EXPECT_EQ(stage["fixed_memory"], 100);
  ASSERT_EQ(stage["modes"].size(), 3U) << stage.dump();
  // All three are saved; x and b alone, and A runs again; x alone, and both do.
  EXPECT_EQ(stage["modes"][0]["saved"], 17);
  EXPECT_EQ(stage["modes"][0]["backward"], 11);
  EXPECT_EQ(stage["modes"][1]["saved"], 9);
  EXPECT_EQ(stage["modes"][1]["backward"], 14);
  EXPECT_EQ(stage["modes"][2]["saved"], 1);
  EXPECT_EQ(stage["modes"][2]["backward"], 18);
  EXPECT_EQ(pipeline("@STAGE-0.json -m 2 --budget 130B -q").code, 0);
}

/// The devices that lack memory, each with a budget that is enough and the modes that reach it.
TEST_F(PipelineCommand, SaysWhatEachDeviceNeeds) {
  const std::string step = "@block.json @block.json @block.json @block.json -m 8 ";
  const Outcome none = pipeline(step + "--budget 15B -o @none.json");
  EXPECT_EQ(none.code, 20);
  EXPECT_NE(none.out.find("impossible  device 0 needs at least 18 bytes (mode 1), and has 15\n"
                          "impossible  device 1 needs at least 16 bytes (mode 1), and has 15\n"),
            std::string::npos)
      << none.out;
  const Json devices = Json::parse(read("none.json"))["devices"];
  EXPECT_EQ(devices[0]["needs"], Json::parse(R"({"least": 18, "enough": 18, "modes": [1]})"));
  EXPECT_FALSE(devices[2].contains("needs"));
  EXPECT_EQ(pipeline(step + "--budget 18B,16B,15B,15B -q").code, 0);
  EXPECT_EQ(pipeline(step + "--budget 17B,16B,15B,15B -q").code, 20);
}

TEST_F(PipelineCommand, SaysWhatIsWrong) {
  EXPECT_EQ(pipeline("@block.json @block.json -m 2 --budget 13B").code, 20);
  EXPECT_NE(pipeline("@block.json @block.json -m 2 --budget 13B").out.find("device 0 needs at least 14 bytes"),
            std::string::npos);
  EXPECT_EQ(pipeline("@block.json -m 0").code, 64);
  const Outcome many = pipeline("@block.json @block.json @block.json @block.json @block.json -m 1048576");
  EXPECT_EQ(many.code, 64);
  EXPECT_EQ(
      many.err,
      "remora: --microbatches: 1048576 through 5 stages are more than 2^23 tasks, the most that can be planned\n");
  EXPECT_EQ(pipeline("@block.json @block.json @block.json -m 2 --schedule interleaved --devices 2").code, 64);
  EXPECT_EQ(pipeline("@block.json -m 2 --budget 1MiB,2MiB").code, 64);
  EXPECT_EQ(pipeline("@none.json -m 2").code, 65);
  write("bad.json",
        R"({"format": "remora-stage", "version": 1, "modes": [{"forward": -1, "backward": 2, "saved": 1}]})");
  const Outcome bad = pipeline("@bad.json -m 2");
  EXPECT_EQ(bad.code, 65);
  EXPECT_NE(bad.err.find("bad.json: $.modes[0].forward"), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace remora::cli
