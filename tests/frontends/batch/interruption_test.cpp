// SPDX-License-Identifier: Apache-2.0
//
// Tasks that are interrupted, and go on (what the commands print: tests/frontends/cli/batch.md).
#include <atomic>
#include <chrono>
#include <csignal>
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
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::batch {
namespace {

using cli::test::Outcome;
using cli::test::run_words;
using nlohmann::json;

/// The text of a graph over a GPU and a store: a chain of layers, and the way back that reads each layer's tensor once more. Each tensor
/// has 4 bytes, each run takes 5, each copy 3.
std::string device_chain(int layers) {
  std::string tensors;
  std::string ops;
  std::string before;
  const auto add = [&](const std::string& name, const std::string& more, bool keep) {
    const std::string separator = tensors.empty() ? "" : ", ";
    tensors += separator + R"({"name": ")" + name + R"(", "size": 4)" + (keep ? R"(, "keep": true})" : "}");
    const std::string inputs = before.empty() ? "" : "\"" + before + "\"" + more;
    ops += separator + R"({"name": "run-)" + name + R"(", "duration": 5, "energy": 2, "inputs": [)" + inputs +
           R"(], "outputs": [")" + name + R"("]})";
    before = name;
  };
  for (int i = 0; i < layers; ++i) add("a" + std::to_string(i), "", false);
  for (int i = layers - 1; i-- > 0;) add("g" + std::to_string(i), ", \"a" + std::to_string(i) + "\"", i == 0);
  return R"({"format": "remora-graph", "version": 2, "name": "chain", "devices": [{"name": "gpu", "fixed_memory": 3}, {"name": "host"}],
 "links": [{"from": "gpu", "to": "host", "latency": 1, "bytes": 2, "per": 1, "energy": 1},
           {"from": "host", "to": "gpu", "latency": 1, "bytes": 2, "per": 1, "energy": 1}],
 "tensors": [)" +
         tensors + R"(], "ops": [)" + ops + "]}";
}

class Interruptions : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write_graph("chain.json", test::generate_chain({.layers = 6}));
  }

  void write_graph(const std::string& name, const Graph& graph) const {
    remora::json::write_file(path(name), [&](std::ostream& out) { remora::json::write_graph(out, graph); });
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

/// An interruption as soon as the search has a schedule within the budget, without a clock.
TEST_F(Interruptions, AnInterruptedTaskGoesOnFromItsSchedule) {
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

TEST_F(Interruptions, AGraphThatChangesBeforeItIsSolvedIsAnError) {
  Task task{.id = "a", .graph = path("chain.json"), .budget = "80%"};
  cli::complete_task(task, {}, folder());
  cli::TaskSolver solver(nullptr);
  const std::string other(64, '0');
  EXPECT_THROW(solver.solve({task, other, std::nullopt}), InputError);
}

TEST_F(Interruptions, ATerminatedBatchSavesItsTaskAndSaysSo) {
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

TEST_F(Interruptions, AnInterruptedTaskOverSeveralDevicesGoesOn) {
  write("devices.json", device_chain(9));
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
