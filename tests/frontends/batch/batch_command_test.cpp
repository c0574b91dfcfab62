// SPDX-License-Identifier: Apache-2.0
//
// `remora batch` and `remora merge` as their users meet them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "frontends/batch/question.hpp"
#include "frontends/batch/runner.hpp"
#include "frontends/cli/commands/task_solver.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/error.hpp"
#include "tests/frontends/cli/device_chain.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::batch {
namespace {

using cli::test::Outcome;
using cli::test::run_words;
using nlohmann::json;

class BatchCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    for (const char* name : {"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"}) unsetenv(name);
    write_graph("chain.json", test::generate_chain({.layers = 6}));
  }
  void TearDown() override {
    unsetenv("JOB_COMPLETION_INDEX");
    TemporaryFolder::TearDown();
  }

  void write_graph(const std::string& name, const Graph& graph) const {
    remora::json::write_file(path(name), [&](std::ostream& out) { remora::json::write_graph(out, graph); });
  }

  [[nodiscard]] Outcome batch(const std::string& more = "") const {
    return run_words("batch " + path("m.jsonl") + " -o " + path("out") + " " + more);
  }
  [[nodiscard]] Outcome merge(const std::string& more = "") const {
    return run_words("merge " + path("out") + " " + more);
  }
  [[nodiscard]] std::vector<json> files(const std::string& kind) const {
    std::vector<json> list;
    for (const auto& entry : std::filesystem::directory_iterator(path("out/" + kind))) {
      list.push_back(json::parse(read("out/" + kind + "/" + entry.path().filename().string())));
    }
    return list;
  }
};

long lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

constexpr const char* kMixed = R"({"id": "fits", "graph": "chain.json", "budget": "80%"}
{"id": "tight", "graph": "chain.json", "budget": "1%"}
{"id": "broken", "graph": "broken.json", "budget": "80%"}
{"id": "brief", "graph": "chain.json", "budget": "60%", "options": {"time_limit": 0}}
)";

TEST_F(BatchCommand, InfeasibleAndUnknownAreResults) {
  write("m.jsonl", R"({"id": "tight", "graph": "chain.json", "budget": "1%"}
{"id": "brief", "graph": "chain.json", "budget": "60%", "options": {"time_limit": 0}})");
  const Outcome outcome = batch();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_EQ(files("results").size(), 2U);
  EXPECT_EQ(merge().code, 0);
}

TEST_F(BatchCommand, ABrokenGraphIsThatTasksErrorAndTheRestGoesOn) {
  write("m.jsonl", kMixed);
  write("broken.json", "{\"format\": ");
  EXPECT_EQ(batch("--quiet").code, 65);
  EXPECT_EQ(files("results").size(), 3U);
  ASSERT_EQ(files("errors").size(), 1U);
  EXPECT_EQ(files("errors")[0]["task"], "broken");
  const Outcome merged =
      merge("--csv " + path("all.csv") + " --html " + path("all.html") + " -o " + path("all.json") + " --verify");
  EXPECT_EQ(merged.code, 65);
  const json all = json::parse(read("all.json"));
  EXPECT_EQ(all["counts"], json::parse(R"({"error": 1, "infeasible": 1, "optimal": 1, "unknown": 1})"));
  EXPECT_EQ(lines(read("all.csv")), 5);
  const std::string page = read("all.html");
  EXPECT_NE(page.find("<th>graph</th><th>80%</th><th>1%</th><th>60%</th>"), std::string::npos) << page;
  EXPECT_NE(page.find("<span class=\"hint\">time-limit=0</span>"), std::string::npos) << page;
  for (const char* status : {"optimal", "infeasible", "unknown", "error"}) {
    EXPECT_NE(page.find(std::string("<div class=\"") + status + "\""), std::string::npos) << status << page;
  }
  EXPECT_NE(page.find("<tr><th>broken</th><td class=\"error\">error</td><td>" + path("broken.json")), std::string::npos)
      << page;
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(merged.out.find("error       broken: " + path("broken.json")), std::string::npos) << merged.out;

  std::filesystem::copy_file(path("chain.json"), path("broken.json"),
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome again = batch();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("4 were done"), std::string::npos) << again.err;
  EXPECT_EQ(merge("--verify").code, 0);
}

TEST_F(BatchCommand, ResultsHoldSchedulesThatVerify) {
  write("m.jsonl", kMixed);
  write("broken.json", "");
  EXPECT_EQ(batch().code, 65);
  int schedules = 0;
  for (const json& result : files("results")) {
    EXPECT_EQ(result["schedule"]["graph_sha256"], result["question"]["graph_sha256"]);
    EXPECT_EQ(result["status"], result["schedule"]["status"]);
    if (result["schedule"]["steps"].empty()) continue;
    write("schedule.json", result["schedule"].dump());
    EXPECT_EQ(run_words("verify " + path("chain.json") + " " + path("schedule.json")).code, 0);
    ++schedules;
    const std::filesystem::path script = REMORA_SHARED_DIR "/tools/verify.py";
    if (!std::filesystem::exists(script)) continue;
    const std::string command =
        "python3 '" + script.string() + "' '" + path("chain.json") + "' '" + path("schedule.json") + "' --quiet";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  EXPECT_EQ(schedules, 1);
}

TEST_F(BatchCommand, BadManifestsAreRefusedBeforeAnythingIsSolved) {
  write("m.jsonl", std::string(kMixed) + "{\n" + R"({"id": "fits", "graph": "g", "budget": 1})");
  const Outcome outcome = batch();
  EXPECT_EQ(outcome.code, 65);
  EXPECT_EQ(lines(outcome.err), 2) << outcome.err;
  EXPECT_NE(outcome.err.find("m.jsonl: line 5: "), std::string::npos);
  EXPECT_NE(outcome.err.find("m.jsonl: line 6: $.id: \"fits\" is line 1's"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  write("m.jsonl", "\n");
  EXPECT_EQ(batch().code, 65);
  EXPECT_EQ(run_words("batch " + path("absent.jsonl") + " -o " + path("out")).code, 65);
}

TEST_F(BatchCommand, BadUsageIsSixtyFour) {
  write("m.jsonl", kMixed);
  for (const char* more : {"--shard 0/2", "--shard 3/2", "--shard x", "--shard-count 4", "--budget much",
                           "--order random", "--threads -1", "--colour", "--strategy greedy --work-limit 5"}) {
    const Outcome outcome = batch(more);
    EXPECT_EQ(outcome.code, 64) << more;
    EXPECT_EQ(lines(outcome.err), 1) << outcome.err;
  }
  EXPECT_EQ(run_words("batch " + path("m.jsonl")).code, 64);
  EXPECT_EQ(run_words("merge " + path("nowhere")).code, 65);
  setenv("JOB_COMPLETION_INDEX", "1", 1);
  EXPECT_EQ(batch().code, 64);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(BatchCommand, OptionsOfTheCommandLineAreDefaults) {
  write("m.jsonl", R"({"id": "a", "graph": "chain.json"}
{"id": "b", "graph": "chain.json", "budget": "90%", "options": {"seed": 5}})");
  EXPECT_EQ(batch("--budget 80% --seed 4 --strategy greedy").code, 0);
  const auto results = files("results");
  ASSERT_EQ(results.size(), 2U);
  for (const json& result : results) {
    const bool is_a = result["task"] == "a";
    EXPECT_EQ(result["question"]["budget"], is_a ? "80%" : "90%");
    EXPECT_EQ(result["question"]["options"]["seed"], is_a ? "4" : "5");
    EXPECT_EQ(result["question"]["options"]["strategy"], "greedy");
  }
  EXPECT_EQ(merge().code, 0);
}

TEST_F(BatchCommand, TheOrderIsPartOfTheQuestion) {
  std::string text;
  for (const char* const order : {"input", "free", "auto"}) {
    text.append(R"({"id": ")").append(order).append(R"(", "graph": "chain.json", "options": {"order": ")");
    text.append(order).append("\"}}\n");
  }
  write("m.jsonl", text);
  EXPECT_EQ(batch("--budget 80% --work-limit 2000 --threads 1").code, 0);
  const auto results = files("results");
  ASSERT_EQ(results.size(), 3U);
  for (const json& result : results) {
    EXPECT_EQ(result["question"]["options"]["order"], result["task"]);
    const std::string order = result["schedule"]["order"];
    const std::string task = result["task"];
    EXPECT_TRUE(order == task || task == "auto") << order;
  }
  // Every record is replayed and held against its question.
  EXPECT_EQ(merge().code, 0);
}

TEST_F(BatchCommand, ShardsTogetherSolveEveryTask) {
  std::string text;
  for (int i = 50; i < 60; ++i) {
    text +=
        R"({"id": "t)" + std::to_string(i) + R"(", "graph": "chain.json", "budget": ")" + std::to_string(i) + "%\"}\n";
  }
  write("m.jsonl", text);
  const Outcome dry = batch("--dry-run --shard 1/3");
  EXPECT_EQ(lines(dry.out), 4) << dry.out;
  EXPECT_TRUE(dry.out.starts_with("new\t")) << dry.out;
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  const Outcome first = batch("--shard 1/3");
  EXPECT_EQ(first.code, 0);
  EXPECT_TRUE(first.err.starts_with("remora: shard 1/3 (--shard)\n")) << first.err;
  EXPECT_TRUE(batch("--dry-run --shard 1/3").out.starts_with("done\t"));
  setenv("JOB_COMPLETION_INDEX", "1", 1);
  EXPECT_TRUE(batch("--shard-count 3").err.starts_with("remora: shard 2/3 (JOB_COMPLETION_INDEX)\n"));
  unsetenv("JOB_COMPLETION_INDEX");
  const Outcome incomplete = merge("--manifest " + path("m.jsonl"));
  EXPECT_EQ(incomplete.code, 75);
  EXPECT_NE(incomplete.out.find("missing     3\n"), std::string::npos) << incomplete.out;
  EXPECT_EQ(batch("--shard 3/3").code, 0);
  EXPECT_EQ(merge().code, 0);
  EXPECT_EQ(files("results").size(), 10U);
}

TEST_F(BatchCommand, TheExamplesManifestAndJobScriptDoAnElementsShare) {
  if (std::system("python3 -c pass 2> /dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const std::string scripts = REMORA_SOURCE_DIR "/examples/slurm";
  const std::string make = "'" + scripts +
                           "/make_manifest' --option time_limit=5 --budgets 90% 80% 70% 60% --graphs '" +
                           path("chain.json") + "' > '" + path("m.jsonl") + "'";
  ASSERT_EQ(std::system(make.c_str()), 0);
  const std::string folder_of_program = std::filesystem::path(REMORA_PROGRAM).parent_path().string();
  const std::string element = "PATH='" + folder_of_program +
                              "':\"$PATH\" SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_MIN=11 SLURM_ARRAY_TASK_MAX=13 "
                              "SLURM_ARRAY_TASK_STEP=1 SLURM_ARRAY_TASK_COUNT=3 '" +
                              scripts + "/job.sh' '" + path("m.jsonl") + "' '" + path("out") + "' --seed 9 2> '" +
                              path("err.txt") + "'";
  ASSERT_EQ(std::system(element.c_str()), 0) << read("err.txt");
  EXPECT_TRUE(read("err.txt").starts_with("remora: shard 2/3 (SLURM_ARRAY_TASK_ID)\n")) << read("err.txt");
  const auto results = files("results");
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0]["task"], "chain-80%");
  EXPECT_EQ(results[0]["question"]["options"]["seed"], "9");
  EXPECT_EQ(results[0]["question"]["options"]["time_limit"], "5");
}

/// An interruption as soon as the search has a schedule within the budget, without a clock.
TEST_F(BatchCommand, AnInterruptedTaskGoesOnFromItsSchedule) {
  ASSERT_EQ(run_words("generate layered --ops 60 --seed 3 -o " + path("graph.json")).code, 0);
  Task task{.id = "a", .graph = path("graph.json"), .budget = "75%"};
  cli::complete_task(task, {{"work-limit", {"8000"}}, {"threads", {"1"}}, {"without", {"segments,period-bound"}}},
                     folder());
  const Store store = Store::create(path("out"));
  std::atomic<bool> cancel = false;
  cli::TaskSolver stopping(&cancel, true, [&](const Progress& progress) { cancel = cancel || progress.phase == 2; });
  EXPECT_TRUE(run_batch({task}, store, stopping, {.cancel = &cancel}).interrupted);
  ASSERT_EQ(files("partial").size(), 1U);
  const json partial = files("partial")[0];
  EXPECT_EQ(partial["status"], "interrupted");
  EXPECT_EQ(partial["schedule"]["status"], "feasible");
  EXPECT_FALSE(partial["schedule"]["steps"].empty());

  std::vector<Duration> started;
  cli::TaskSolver resuming(nullptr, true, [&](const Progress& progress) { started.push_back(progress.duration); });
  const RunSummary summary = run_batch({task}, store, resuming, {});
  EXPECT_FALSE(summary.interrupted);
  ASSERT_FALSE(started.empty());
  EXPECT_LE(started.front().count(), partial["schedule"]["duration"].get<std::int64_t>());
  ASSERT_EQ(files("results").size(), 1U);
  EXPECT_TRUE(files("partial").empty());
  const json result = files("results")[0];
  EXPECT_EQ(result["runs"], 2);
  EXPECT_LE(result["schedule"]["duration"], partial["schedule"]["duration"]);
  EXPECT_GE(result["schedule"]["lower_bound"], partial["schedule"]["lower_bound"]);
  EXPECT_GT(result["work"], partial["work"]);
  EXPECT_EQ(result["schedule"]["solver"]["limits"]["work"].get<std::int64_t>(),
            8000 - partial["work"].get<std::int64_t>());
  write("schedule.json", result["schedule"].dump());
  EXPECT_EQ(run_words("verify " + path("graph.json") + " " + path("schedule.json")).code, 0);
}

TEST_F(BatchCommand, AGraphThatChangesBeforeItIsSolvedIsAnError) {
  Task task{.id = "a", .graph = path("chain.json"), .budget = "80%"};
  cli::complete_task(task, {}, folder());
  cli::TaskSolver solver(nullptr);
  const std::string other(64, '0');
  EXPECT_THROW(solver.solve({task, other, std::nullopt}), InputError);
}

TEST_F(BatchCommand, ATerminatedBatchSavesItsTaskAndSaysSo) {
  const std::string model = REMORA_SOURCE_DIR "/tests/data/onnx/transformer_tiny.onnx";
  write("m.jsonl",
        R"({"id": "done", "graph": "chain.json", "budget": "80%"}
{"id": "long", "graph": ")" +
            model +
            R"(", "budget": "60%", "options": {"training": true, "time_limit": 600, "without": "period-bound"}}
{"id": "never", "graph": "chain.json", "budget": "70%"})");
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t child =
        remora::test::start_child({REMORA_PROGRAM, "batch", path("m.jsonl"), "-o", path("out")}, path("err.txt"));
    // Ten minutes do not end the second task without the period relaxation.
    constexpr int kPolls = 3000;
    for (int i = 0; i < kPolls && read("err.txt").find("[2/3] long  ") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    // Time to read the model: before that there would be nothing to save.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ASSERT_EQ(kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << signal;
    EXPECT_EQ(WEXITSTATUS(status), 75) << read("err.txt");
    EXPECT_NE(read("err.txt").find("run again to go on"), std::string::npos);
    EXPECT_EQ(files("results").size(), 1U);
    const std::vector<json> saved = files("partial");
    ASSERT_EQ(saved.size(), 1U);
    EXPECT_EQ(saved.front()["status"], "interrupted");
    EXPECT_TRUE(saved.front()["schedule"].contains("steps"));
    std::filesystem::remove(path("err.txt"));
  }
  const Outcome merged = merge();
  EXPECT_EQ(merged.code, 75);
  EXPECT_NE(merged.out.find("missing     2\n"), std::string::npos) << merged.out;
  EXPECT_NE(merged.out.find("missing     never\n"), std::string::npos) << merged.out;
}

TEST_F(BatchCommand, MergeFindsAScheduleOfAnotherBudget) {
  write("m.jsonl", R"({"id": "a", "graph": "chain.json", "budget": "90%"}
{"id": "b", "graph": "chain.json", "budget": "80%"})");
  ASSERT_EQ(batch().code, 0);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path("out/results"))) {
    names.push_back("out/results/" + entry.path().filename().string());
  }
  ASSERT_EQ(names.size(), 2U);
  // The question's digest is over its keys as they come.
  using nlohmann::ordered_json;
  ordered_json record = ordered_json::parse(read(names[0]));
  record["schedule"] = ordered_json::parse(read(names[1]))["schedule"];
  write(names[0], record.dump());
  const Outcome merged = merge("--verify");
  EXPECT_EQ(merged.code, 65);
  EXPECT_NE(merged.out.find("another budget"), std::string::npos) << merged.out;
  // A graph that is gone says nothing about the results.
  std::filesystem::remove(path(names[0]));
  ASSERT_EQ(batch().code, 0);
  std::filesystem::remove(path("chain.json"));
  for (const auto& line : {merge("--verify"), merge()}) EXPECT_NE(line.code, 65) << line.out;
}

TEST_F(BatchCommand, TasksShareTheGroupsThatWereSolvedBefore) {
  write_graph("transformer.json", test::generate_transformer({.layers = 2}));
  const std::string options = R"("options": {"groups": "on", "group_size": 8, "top_size": 6,
    "work_limit": 4000, "without": "segments,period-bound", "max_computes": 2}})";
  std::string manifest;
  for (const char* budget : {"90%", "80%"}) {
    std::string line = std::string(R"({"id": ")") + budget + R"(", "graph": "transformer.json", "budget": ")" + budget +
                       "\", " + options;
    std::replace(line.begin(), line.end(), '\n', ' ');
    manifest += line + "\n";
  }
  write("m.jsonl", manifest);
  for (const bool shared : {true, false}) {
    std::filesystem::remove_all(path("out"));
    ASSERT_EQ(batch(shared ? "" : "--blocks off").code, 0);
    EXPECT_EQ(std::filesystem::exists(path("out/blocks")), shared);
    int known = 0;
    for (const json& record : files("results")) {
      const json statistics = record["schedule"]["solver"]["statistics"];
      if (statistics.contains("known_groups") && statistics["known_groups"] > 0) ++known;
    }
    EXPECT_EQ(known, shared ? 1 : 0);
  }
}

TEST_F(BatchCommand, SolvesTasksOverSeveralDevices) {
  write("devices.json", cli::test::device_chain(6));
  write("m.jsonl", R"({"id": "tight", "graph": "devices.json", "budget": "gpu=19"}
{"id": "both", "graph": "devices.json", "budget": "gpu=23,host=4B", "options": {"objective": "energy"}}
{"id": "overlap", "graph": "devices.json", "budget": "gpu=19", "options": {"copies": "overlap"}}
{"id": "none", "graph": "devices.json", "budget": "gpu=9"}
{"id": "chain", "graph": "chain.json", "budget": "80%"})");
  const Outcome run = batch("--work-limit 800 -q");
  ASSERT_EQ(run.code, 0) << run.err;
  const Outcome merged = merge("--verify --csv " + path("t.csv") + " -o " + path("t.json"));
  ASSERT_EQ(merged.code, 0) << merged.out << merged.err;
  const json tasks = json::parse(read("t.json"))["tasks"];
  ASSERT_EQ(tasks.size(), 5U);
  EXPECT_EQ(tasks[0]["budget_bytes"], (json{{"gpu", 19}}));
  EXPECT_LE(tasks[0]["peak_memory"]["gpu"], 19);
  EXPECT_TRUE(tasks[1]["energy"].is_number());
  EXPECT_LT(tasks[2]["duration"], tasks[0]["duration"]);
  EXPECT_EQ(tasks[3]["status"], "infeasible");
  EXPECT_TRUE(tasks[4]["peak_memory"].is_number());
  EXPECT_NE(read("t.csv").find("gpu=23 host=4"), std::string::npos) << read("t.csv");
  // Done once, done for ever.
  EXPECT_EQ(batch("--work-limit 800").err.find("5 were done") == std::string::npos, false);
  // Results that say what is not so are found.
  for (const auto& entry : std::filesystem::directory_iterator(path("out/results"))) {
    const std::string name = "out/results/" + entry.path().filename().string();
    json record = json::parse(read(name));
    if (record["task"] != "tight") continue;
    record["schedule"]["duration"] = record["schedule"]["duration"].get<int>() + 1;
    write(name, record.dump());
  }
  EXPECT_EQ(merge("--verify -q").code, 65);
}

TEST_F(BatchCommand, TasksOverSeveralDevicesAreCheckedBeforeAnythingIsSolved) {
  write("devices.json", cli::test::device_chain(3));
  for (const char* task : {R"({"id": "a", "graph": "devices.json", "budget": "gpu=80%"})",
                           R"({"id": "a", "graph": "devices.json", "budget": "gpu=x"})"}) {
    write("m.jsonl", task);
    EXPECT_EQ(batch("-q").code, 65) << task;
  }
  // What only the graph can tell is the task's error.
  write("m.jsonl", R"({"id": "a", "graph": "devices.json", "budget": "tpu=9"}
{"id": "b", "graph": "chain.json", "budget": "80%", "options": {"objective": "energy"}})");
  EXPECT_EQ(batch("-q --work-limit 100").code, 65);
  EXPECT_EQ(files("errors").size(), 2U);
}

TEST_F(BatchCommand, AnInterruptedTaskOverSeveralDevicesGoesOn) {
  write("devices.json", cli::test::device_chain(9));
  Task task{.id = "a", .graph = path("devices.json"), .budget = "gpu=23"};
  cli::complete_task(task, {{"work-limit", {"900"}}}, folder());
  cli::TaskSolver solver(nullptr);
  Asking asking(solver);
  const Question question = asking.question_of(task);
  const std::optional<Answer> first = solver.solve({task, question.graph_sha256, std::nullopt});
  ASSERT_TRUE(first.has_value());
  const json begun = json::parse(first->schedule);
  const std::optional<Answer> second = solver.solve({task, question.graph_sha256, Begun{first->schedule, 0, 800}});
  ASSERT_TRUE(second.has_value());
  const json finished = json::parse(second->schedule);
  EXPECT_LE(finished["duration"], begun["duration"]);
  EXPECT_GE(finished["lower_bound"], begun["lower_bound"]);
  EXPECT_EQ(finished["solver"]["limits"]["work"], 100);
}

}  // namespace
}  // namespace remora::batch
