// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "engine/ask/largest_fit.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/cli/device_chain.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::cli {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_words;
using Json = nlohmann::json;

std::vector<std::int64_t> budgets_of(const std::string& text) {
  std::vector<std::int64_t> budgets;
  for (const Bytes budget : read_budgets("--budgets", text, Bytes(100), Bytes(1100))) budgets.push_back(budget.count());
  return budgets;
}

TEST(ParseBudgets, ReadsRangesWithBothEnds) {
  EXPECT_EQ(budgets_of("100%:40%:20%"), (std::vector<std::int64_t>{1100, 900, 700, 500}));
  EXPECT_EQ(budgets_of("40%:100%:25%"), (std::vector<std::int64_t>{500, 750, 1000}));
  EXPECT_EQ(budgets_of("1KiB:0:256"), (std::vector<std::int64_t>{1024, 768, 512, 256, 0}));
  EXPECT_EQ(budgets_of("99.8%:99.5%:0.1%"), (std::vector<std::int64_t>{1098, 1097, 1096, 1095}));
  EXPECT_EQ(budgets_of("0.3%:0%:0.1%"), (std::vector<std::int64_t>{103, 102, 101, 100}));
  EXPECT_EQ(budgets_of("10737418239:0:10737418240"), (std::vector<std::int64_t>{10737418239}));
}

TEST(ParseBudgets, ReadsListsAndTakesEachBudgetOnce) {
  EXPECT_EQ(budgets_of("300,20%,400:300:50"), (std::vector<std::int64_t>{300, 400, 350}));
}

TEST(ParseBudgets, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", "100%:40%", "100%:40%:0%", "100%:40:5%", "100%:40%:-5%", "90%,,80%", "1:9:0", "a:b:c", "100%:0%:0.001%"}) {
    EXPECT_THROW(budgets_of(text), UsageError) << text;
  }
}

std::optional<Fit> fit_up_to(std::int64_t largest, std::int64_t size, std::set<std::int64_t>& asked) {
  EXPECT_TRUE(asked.insert(size).second) << size << " asked twice";
  return size <= largest ? Fit::fits : Fit::impossible;
}

TEST(LargestFit, IsFoundInLogarithmicallyManyTrials) {
  for (const std::int64_t largest : {1, 2, 3, 7, 8, 9, 1000, 4097}) {
    std::set<std::int64_t> asked;
    const LargestFit answer =
        find_largest_fit(1 << 20, [&](std::int64_t size) { return fit_up_to(largest, size, asked); });
    EXPECT_EQ(answer.largest, largest);
    EXPECT_EQ(answer.next, largest + 1);
    EXPECT_LE(asked.size(), 26U);
  }
}

TEST(LargestFit, SaysWhatItKnowsAtTheEnds) {
  std::set<std::int64_t> asked;
  const LargestFit none = find_largest_fit(100, [&](std::int64_t size) { return fit_up_to(0, size, asked); });
  EXPECT_EQ(none.largest, std::nullopt);
  EXPECT_EQ(none.next, 1);
  asked.clear();
  const LargestFit all = find_largest_fit(100, [&](std::int64_t size) { return fit_up_to(500, size, asked); });
  EXPECT_EQ(all.largest, 100);
  EXPECT_EQ(all.next, std::nullopt);
  int trials = 0;
  const LargestFit cut =
      find_largest_fit(100, [&](std::int64_t) { return ++trials <= 3 ? std::optional<Fit>(Fit::fits) : std::nullopt; });
  EXPECT_EQ(cut.largest, 4);
  EXPECT_EQ(cut.next, std::nullopt);
}

class SweepCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    json::write_file(path("graph.json"), [](std::ostream& out) {
      json::write_graph(out, remora::test::generate_transformer({.layers = 1}));
    });
  }
  [[nodiscard]] Outcome sweep(const std::string& words) const {
    return run_words("sweep " + path("graph.json") + " --work-limit 20000 --threads 2 " + words);
  }
};

TEST_F(SweepCommand, WritesTheCurveAsJsonTableAndPictureWithItsSchedules) {
  const Outcome outcome =
      sweep("--budgets 100%:60%:10% -o " + path("out/curve.json") + " --csv " + path("out/curve.csv"));
  EXPECT_EQ(outcome.code, 65) << "the folder out is not there: nothing is solved in vain";
  fs::create_directories(path("out"));
  const Outcome second =
      sweep("--budgets 100%:60%:10% -o " + path("out/curve.json") + " --csv " + path("out/curve.csv") + " --svg " +
            path("out/curve.svg") + " --schedules " + path("schedules"));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  const Curve curve = json::read_curve(json::Text(read("out/curve.json")));
  ASSERT_EQ(curve.points.size(), 5U);
  EXPECT_EQ(curve.points.back().duration, curve.baseline_duration);
  EXPECT_EQ(curve.graph_sha256.size(), 64U);
  for (const CurvePoint& point : curve.points) {
    if (!point.has_schedule()) continue;
    const std::string file = path("out/" + point.schedule_file);
    const Outcome verdict = run_words("verify " + path("graph.json") + " " + file);
    EXPECT_EQ(verdict.code, 0) << verdict.err;
    const auto schedule = nlohmann::json::parse(json::read_file(file));
    EXPECT_EQ(schedule["budget"], point.budget.count());
    EXPECT_EQ(schedule["duration"], point.duration.count());
  }
  const std::string csv = read("out/curve.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_NE(csv.find("smallest"), std::string::npos);
  EXPECT_NE(read("out/curve.svg").find("</svg>"), std::string::npos);
  EXPECT_NE(second.err.find("settled"), std::string::npos);
}

TEST_F(SweepCommand, ChoosesBudgetsItselfAndIsQuietWhenAsked) {
  const Outcome outcome = sweep("--points 5 --resolution 0.1 -q");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Curve curve = json::read_curve(json::Text(outcome.out));
  EXPECT_GE(curve.points.size(), 3U);
  EXPECT_LE(curve.points.size(), 5U);
}

TEST_F(SweepCommand, TellsAnInfeasibleSweepByItsExitCode) {
  const Outcome outcome = sweep("--budgets 1B,2B,3B -q");
  EXPECT_EQ(outcome.code, 20);
  for (const CurvePoint& point : json::read_curve(json::Text(outcome.out)).points) {
    EXPECT_EQ(point.status, Status::infeasible);
  }
}

TEST_F(SweepCommand, RefusesWhatContradictsItself) {
  for (const char* words :
       {"--budgets 90% --points 4", "--budget 5", "--overhead 5%", "--batch-size n", "--points 1", "--resolution 2",
        "--warm-start x", "--batch-size n --budget 5 --csv x", "--batch-size n --budget 80%",
        "--batch-size n --budget 5 --overhead 0.1", "--budgets 90%,x", "--budgets nan%:40%:5%"}) {
    const Outcome outcome = sweep(words);
    EXPECT_EQ(outcome.code, 64) << words << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(SweepCommand, NamesSchedulesRelativeToTheCurveWhereverItIs) {
  fs::create_directories(path("here/deep"));
  fs::create_directories(path("there"));
  const fs::path before = fs::current_path();
  fs::current_path(path("here/deep"));
  const Outcome outcome = sweep("--budgets 100%,90% -q -o ../../there/curve.json --schedules schedules");
  fs::current_path(before);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const CurvePoint& point : json::read_curve(json::Text(read("there/curve.json"))).points) {
    ASSERT_TRUE(point.has_schedule());
    EXPECT_TRUE(fs::exists(path("there/" + point.schedule_file))) << point.schedule_file;
  }
}

TEST_F(SweepCommand, GivesTheWholeCurveAfterASignal) {
  const pid_t child = remora::test::start_child({REMORA_PROGRAM, "sweep", path("graph.json"), "--points", "4",
                                                 "--resolution", "0", "--time-limit", "600", "-o", path("curve.json")},
                                                path("err.txt"));
  constexpr int kPolls = 3000;
  for (int i = 0; i < kPolls && read("err.txt").find(" of 1\n") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(kill(child, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << read("err.txt");
  const Curve curve = json::read_curve(json::Text(read("curve.json")));
  EXPECT_GE(curve.points.size(), 1U);
  EXPECT_TRUE(curve.points.back().has_schedule());
}

class BatchSize : public remora::test::TemporaryFolder {
 protected:
  [[nodiscard]] Outcome find(const std::string& words) const {
    return run_words(std::string("sweep " REMORA_SOURCE_DIR "/tests/data/onnx/unet_symbolic.onnx --training ") + words);
  }
};

TEST_F(BatchSize, FindsTheLargestBatchThatFits) {
  const Outcome outcome = find(
      "--batch-size batch --budget 4MiB --overhead 5% --work-limit 5000 "
      "--schedules " +
      path("schedules") + " -o " + path("answer.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(read("answer.json"));
  ASSERT_TRUE(answer.contains("largest")) << answer;
  const std::int64_t largest = answer["largest"];
  EXPECT_GE(largest, 2);
  EXPECT_EQ(answer["next"], largest + 1);
  for (const auto& trial : answer["trials"]) {
    EXPECT_EQ(trial["answer"] == "fits", trial["size"] <= largest);
    if (trial["answer"] == "fits") {
      EXPECT_LE(trial["overhead"], 0.05);
      EXPECT_LE(trial["peak_memory"], 4 << 20);
    }
  }
  const auto schedule = nlohmann::json::parse(read("schedules/batch-" + std::to_string(largest) + ".json"));
  EXPECT_EQ(schedule["budget"], 4 << 20);
}

TEST_F(BatchSize, MoreComputesMayFitMore) {
  const auto largest = [&](const std::string& computes) {
    const Outcome outcome = find("--batch-size batch --budget 1MiB --overhead 60% --work-limit 5000 " + computes);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const auto two = largest("--max-computes 2");
  for (const auto& trial : two["trials"]) EXPECT_EQ(trial["max_computes"], 2);
  const auto chosen = largest("");
  EXPECT_GT(chosen["largest"], two["largest"]);
  bool has_more = false;
  for (const auto& trial : chosen["trials"])
    has_more = has_more || (trial["answer"] == "fits" && trial["max_computes"] > 2);
  EXPECT_TRUE(has_more);
  EXPECT_EQ(largest("--max-computes auto")["largest"], chosen["largest"]);
}

TEST_F(BatchSize, SaysWhenNotEvenOneFits) {
  const Outcome outcome = find("--batch-size batch --budget 1KiB --work-limit 5000 -q");
  EXPECT_EQ(outcome.code, 20);
  EXPECT_FALSE(nlohmann::json::parse(outcome.out).contains("largest"));
}

TEST_F(BatchSize, IsForModelsInFiles) {
  ASSERT_EQ(run_words("generate layered -o " + path("graph.json")).code, 0);
  const Outcome graph = run_words("sweep " + path("graph.json") + " --batch-size n --budget 1GiB");
  EXPECT_EQ(graph.code, 65);
  EXPECT_NE(graph.err.find("is not an ONNX model"), std::string::npos) << graph.err;
  EXPECT_EQ(run_words("sweep - --batch-size n --budget 1GiB").code, 64);
}

TEST_F(BatchSize, RefusesADimensionThatTheModelHasNot) {
  const Outcome outcome = find("--dim batch=1 --batch-size lots --budget 1MiB");
  EXPECT_EQ(outcome.code, 65) << outcome.err;
  EXPECT_NE(outcome.err.find("lots"), std::string::npos) << outcome.err;
}

/// One device's budgets, beside a store.
class DeviceSweep : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("graph.json", test::device_chain(7));
  }

  [[nodiscard]] Outcome sweep(const std::string& more) const {
    return run_words("sweep " + path("graph.json") + " " + more);
  }
};

TEST_F(DeviceSweep, GivesACurveWithSchedules) {
  const Outcome outcome = sweep("--budgets gpu=100%:30%:10%,9 --work-limit 6000 -o " + path("curve.json") + " --csv " +
                                path("curve.csv") + " --svg " + path("curve.svg") + " --schedules " + path("points"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json curve = Json::parse(read("curve.json"));
  EXPECT_EQ(curve["device"], "gpu");
  EXPECT_EQ(curve["fixed_memory"], 3);
  ASSERT_EQ(curve["points"].size(), 9U);
  EXPECT_EQ(curve["points"].front()["status"], "infeasible");
  EXPECT_GT(curve["least_budget"], 9);
  EXPECT_EQ(curve["points"].back()["duration"], curve["baseline_duration"]);
  const Curve read_again = json::read_curve(json::Text(read("curve.json")));
  EXPECT_EQ(read_again.device, "gpu");
  std::int64_t before = 0;
  for (const Json& point : curve["points"]) {
    if (!point.contains("duration")) continue;
    if (before > 0) {
      EXPECT_LE(point["duration"].get<std::int64_t>(), before);
    }
    before = point["duration"].get<std::int64_t>();
    const std::string file = point["schedule"].get<std::string>();
    EXPECT_EQ(run_words("verify " + path("graph.json") + " " + path(file) +
                        " --budget gpu=" + std::to_string(point["budget"].get<std::int64_t>()))
                  .code,
              0);
  }
  EXPECT_NE(read("curve.svg").find("overhead against budget"), std::string::npos);
  EXPECT_TRUE(read("curve.csv").starts_with("budget,part,status,"));
  EXPECT_NE(outcome.err.find(" of 9"), std::string::npos) << outcome.err;
  // The report takes the curve with its schedules.
  ASSERT_EQ(run_words("report " + path("graph.json") + " " + path("curve.json") + " -o " + path("p.html")).code, 0);
  EXPECT_NE(read("p.html").find("schedule-data-1"), std::string::npos);
  EXPECT_EQ(run_words("report " + path("graph.json") + " " + path("curve.json") + " --table -").out, read("curve.csv"));
}

TEST_F(DeviceSweep, RepeatsItselfUnderAWorkLimit) {
  const std::string words = "--budgets gpu=31:15:4 --budget host=8 --work-limit 2000 --seed 5 -q -o ";
  ASSERT_EQ(sweep(words + path("a.json")).code, 0);
  ASSERT_EQ(sweep(words + path("b.json")).code, 0);
  Json a = Json::parse(read("a.json"));
  Json b = Json::parse(read("b.json"));
  for (Json* curve : {&a, &b}) {
    curve->erase("seconds");
    for (Json& point : (*curve)["points"]) point.erase("seconds");
  }
  EXPECT_EQ(a, b);
}

TEST_F(DeviceSweep, RefusesWhatItDoesNotKnow) {
  for (const char* words : {"", "--budgets 100%:40%:5%", "--budgets tpu=9", "--budgets gpu=9 --budget gpu=9",
                            "--budgets gpu=9 --objective energy", "--points 5", "--budgets gpu=9 --stall 2",
                            "--budgets gpu=9 --warm-start x.json", "--batch-size n --budget gpu=9"}) {
    EXPECT_EQ(sweep(words).code, 64) << words;
  }
  EXPECT_EQ(sweep("--budgets gpu=9,10 -q --work-limit 100 -o " + path("c.json")).code, 20);
}

/// Solved, verified, shown and swept with copies beside computing: never longer than one thing at a time.
TEST_F(DeviceSweep, CopiesMayOverlap) {
  const auto solve = [&](const std::string& more) {
    return run_words("solve " + path("graph.json") + " -q --budget gpu=19 --work-limit 2000 " + more).code;
  };
  ASSERT_EQ(solve("-o " + path("s.json")), 0);
  ASSERT_EQ(solve("--copies overlap -o " + path("o.json")), 0);
  const Json schedule = Json::parse(read("o.json"));
  EXPECT_EQ(schedule["copies"], "overlap");
  EXPECT_FALSE(Json::parse(read("s.json")).contains("copies"));
  EXPECT_LT(schedule["duration"], Json::parse(read("s.json"))["duration"]);
  EXPECT_EQ(run_words("verify -q " + path("graph.json") + " " + path("o.json")).code, 0);
  const std::string report = "report " + path("graph.json") + " " + path("o.json");
  EXPECT_EQ(run_words(report + " -o " + path("p.html") + " --svg " + path("p.svg") + " --trace " + path("t.json")).code,
            0);
  ASSERT_EQ(sweep("--budgets gpu=31:15:4 --copies overlap --work-limit 2000 -q -o " + path("c.json") + " --schedules " +
                  path("points"))
                .code,
            0);
  for (const Json& point : Json::parse(read("c.json"))["points"]) {
    if (!point.contains("duration")) continue;
    EXPECT_EQ(run_words("verify -q " + path("graph.json") + " " + path(point["schedule"].get<std::string>())).code, 0);
  }
  EXPECT_EQ(solve("--copies beside"), 64);
}

/// A schedule of another budget as the start of a solve.
TEST_F(DeviceSweep, ASolveStartsFromASchedule) {
  const auto solve = [&](const std::string& more) {
    return run_words("solve " + path("graph.json") + " -q " + more).code;
  };
  ASSERT_EQ(solve("--budget gpu=19 --work-limit 3000 -o " + path("tight.json")), 0);
  ASSERT_EQ(solve("--budget gpu=23 --work-limit 1 --warm-start " + path("tight.json") + " -o " + path("s.json")), 0);
  EXPECT_EQ(run_words("verify -q " + path("graph.json") + " " + path("s.json")).code, 0);
  EXPECT_LE(Json::parse(read("s.json"))["duration"], Json::parse(read("tight.json"))["duration"]);
  write("none.json", read("tight.json"));
  Json broken = Json::parse(read("tight.json"));
  broken["steps"].erase(broken["steps"].begin());
  write("broken.json", broken.dump());
  EXPECT_EQ(solve("--budget gpu=23 --warm-start " + path("broken.json")), 65);
  EXPECT_EQ(solve("--budget gpu=23 --warm-start " + path("nowhere.json")), 65);
}

}  // namespace
}  // namespace remora::cli
