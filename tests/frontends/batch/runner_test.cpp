// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/runner.hpp"

#include <algorithm>
#include <new>
#include <sstream>
#include <thread>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "model/error.hpp"
#include "tests/frontends/batch/counting_solver.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::batch {
namespace {

using test::answer_of;
using test::CountingSolver;
using Ids = std::vector<std::string>;

class Runner : public remora::test::TemporaryFolder {
 protected:
  /// Tasks of these ids, each with a graph of its own.
  [[nodiscard]] std::vector<Task> tasks(const Ids& ids) const {
    std::vector<Task> list;
    for (const std::string& id : ids) {
      write(id + ".json", id);
      list.push_back({.id = id, .graph = path(id + ".json"), .budget = "80%"});
    }
    return list;
  }
  [[nodiscard]] Store store() const { return Store::create(path("out")); }
  [[nodiscard]] static std::string key(const Task& task) {
    CountingSolver solver;
    return key_of(Asking(solver).question_of(task));
  }
  [[nodiscard]] Ids files(const std::string& kind) const {
    Ids names;
    for (const auto& entry : std::filesystem::directory_iterator(path("out/" + kind))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
};

TEST_F(Runner, KeepsTheBestSoFarOfATaskInWork) {
  const auto list = tasks({"a"});
  const std::string file = "out/partial/" + key(list[0]) + ".json";
  std::string kept;
  CountingSolver solver([&](const Request& request) {
    request.keep(answer_of("feasible"));
    kept = read(file);
    return answer_of("optimal");
  });
  EXPECT_EQ(run_batch(list, store(), solver, {}).solved.at("optimal"), 1U);
  const Record record = read_record(kept, key(list[0]));
  EXPECT_EQ(record.status, "interrupted");
  EXPECT_EQ(record.work, 10);
  EXPECT_FALSE(std::filesystem::exists(path(file))) << "there is a result";

  // A process that is killed there is gone on from.
  std::filesystem::remove(path("out/results/" + key(list[0]) + ".json"));
  write(file, kept);
  CountingSolver next([&](const Request& request) {
    EXPECT_TRUE(request.begun.has_value());
    EXPECT_EQ(request.begun.value_or(Begun{}).work, 10);
    return answer_of("optimal");
  });
  run_batch(list, store(), next, {});
  EXPECT_EQ(next.asked, Ids{"a"});
}

TEST_F(Runner, GoesOnWhereTheBestSoFarCannotBeKept) {
  const auto list = tasks({"a"});
  std::ostringstream log;
  CountingSolver solver([&](const Request& request) {
    std::filesystem::remove_all(path("out/partial"));
    write("out/partial", "no folder");
    request.keep(answer_of("feasible"));
    request.keep(answer_of("feasible"));
    std::filesystem::remove(path("out/partial"));
    std::filesystem::create_directory(path("out/partial"));
    return answer_of("optimal");
  });
  EXPECT_EQ(run_batch(list, store(), solver, {.log = &log}).solved.at("optimal"), 1U);
  const std::string lines = log.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3) << lines;
  EXPECT_NE(lines.find("warning: the best so far is not kept: "), std::string::npos) << lines;
}

TEST_F(Runner, SolvesEachTaskOfItsShardOnce) {
  const auto list = tasks({"a", "b", "c", "d", "e"});
  CountingSolver solver;
  const RunSummary first = run_batch(list, store(), solver, {.shard = {.index = 0, .count = 2}});
  EXPECT_EQ(solver.asked, (Ids{"a", "c", "e"}));
  EXPECT_EQ(first.tasks, 3U);
  EXPECT_EQ(first.solved.at("unknown"), 3U);
  const RunSummary all = run_batch(list, store(), solver, {});
  EXPECT_EQ(solver.asked, (Ids{"a", "c", "e", "b", "d"}));
  EXPECT_EQ(all.skipped, 3U);
  EXPECT_EQ(files("results").size(), 5U);
  EXPECT_FALSE(all.interrupted);
}

TEST_F(Runner, AResultSaysWhatWasAskedAndWhoSolvedIt) {
  const auto list = tasks({"a"});
  CountingSolver solver;
  run_batch(list, store(), solver, {.shard = {.index = 0, .count = 4}});
  const auto record = store().result(key(list[0]));
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->task, "a");
  EXPECT_EQ(record->status, "unknown");
  EXPECT_EQ(record->origin.shard, "1/4");
  EXPECT_EQ(record->question.budget, "80%");
  EXPECT_EQ(record->runs, 1);
  EXPECT_FALSE(record->origin.host.empty());
  EXPECT_LE(record->started, record->origin.when);
}

TEST_F(Runner, TasksThatAskTheSameShareAResult) {
  auto list = tasks({"a", "b"});
  list[1].graph = list[0].graph;
  CountingSolver solver;
  const RunSummary summary = run_batch(list, store(), solver, {});
  EXPECT_EQ(solver.asked, Ids{"a"});
  EXPECT_EQ(summary.skipped, 1U);
  EXPECT_EQ(files("results").size(), 1U);
}

TEST_F(Runner, WhatCannotBeSolvedIsAnErrorAndTheRestGoesOn) {
  auto list = tasks({"absent", "a", "other", "broken", "memory", "b"});
  std::filesystem::remove(list[0].graph);
  list[2].sha256 = std::string(64, '0');
  CountingSolver solver([](const Request& request) -> std::optional<Answer> {
    if (request.task.id == "broken") throw InputError("$.ops", "broken \xff\n");
    if (request.task.id == "memory") throw std::bad_alloc();
    return answer_of("infeasible");
  });
  std::ostringstream log;
  const RunSummary summary = run_batch(list, store(), solver, {.log = &log});
  EXPECT_EQ(solver.asked, (Ids{"a", "broken", "memory", "b"}));
  EXPECT_EQ(summary.errors, 4U);
  EXPECT_EQ(summary.solved.at("infeasible"), 2U);
  EXPECT_NE(store().error(list[0])->message.find("No such file"), std::string::npos);
  EXPECT_NE(store().error(list[2])->message.find("sha256"), std::string::npos);
  EXPECT_NE(store().error(list[3])->message.find("$.ops: broken"), std::string::npos);
  EXPECT_EQ(store().error(list[4])->message, "out of memory");
  EXPECT_NE(log.str().find("[1/6] absent  error: "), std::string::npos) << log.str();
}

TEST_F(Runner, AnErrorIsOfItsManifestLineAndNotOfItsId) {
  auto list = tasks({"a"});
  std::filesystem::remove(list[0].graph);
  CountingSolver solver;
  run_batch(list, store(), solver, {});
  EXPECT_TRUE(store().error(list[0]).has_value());
  Task mended = list[0];
  mended.budget = "70%";
  EXPECT_FALSE(store().error(mended).has_value());
  store().forget_error(mended);
  EXPECT_TRUE(store().error(list[0]).has_value());
}

TEST_F(Runner, AnErrorIsTriedAgainAndGoesWhenItIsMended) {
  const auto list = tasks({"a"});
  std::filesystem::remove(list[0].graph);
  CountingSolver solver;
  EXPECT_EQ(run_batch(list, store(), solver, {}).errors, 1U);
  EXPECT_EQ(run_batch(list, store(), solver, {}).errors, 1U);
  EXPECT_EQ(files("errors").size(), 1U);
  write("a.json", "a");
  EXPECT_EQ(run_batch(list, store(), solver, {}).solved.at("unknown"), 1U);
  EXPECT_TRUE(files("errors").empty());
}

TEST_F(Runner, AChangedGraphIsSolvedAnew) {
  const auto list = tasks({"a"});
  CountingSolver solver;
  run_batch(list, store(), solver, {});
  write("a.json", "changed");
  run_batch(list, store(), solver, {});
  EXPECT_EQ(solver.asked, (Ids{"a", "a"}));
  EXPECT_EQ(files("results").size(), 2U);
}

TEST_F(Runner, CancelledItSavesTheTaskInWorkAndBeginsNoOther) {
  const auto list = tasks({"a", "b", "c"});
  std::atomic<bool> cancel = false;
  CountingSolver solver([&](const Request& request) {
    if (request.task.id != "b") return answer_of("unknown");
    cancel = true;
    return answer_of("interrupted");
  });
  const RunSummary summary = run_batch(list, store(), solver, {.cancel = &cancel});
  EXPECT_TRUE(summary.interrupted);
  EXPECT_EQ(solver.asked, (Ids{"a", "b"}));
  EXPECT_EQ(files("results"), Ids{key(list[0]) + ".json"});
  EXPECT_EQ(files("partial"), Ids{key(list[1]) + ".json"});
}

TEST_F(Runner, ResumedItGoesOnWithWhatWasSaved) {
  const auto list = tasks({"a"});
  int run = 0;
  CountingSolver solver([&](const Request& request) {
    EXPECT_EQ(request.begun.has_value(), run > 0);
    if (run > 0) {
      EXPECT_EQ(request.begun->seconds, 1.5 * run);
      EXPECT_EQ(request.begun->work, 10 * run);
      EXPECT_NE(request.begun->schedule.find("remora-schedule"), std::string::npos);
    }
    return answer_of(++run < 3 ? "interrupted" : "unknown");
  });
  EXPECT_TRUE(run_batch(list, store(), solver, {}).interrupted);
  EXPECT_TRUE(run_batch(list, store(), solver, {}).interrupted);
  EXPECT_FALSE(run_batch(list, store(), solver, {}).interrupted);
  EXPECT_EQ(run, 3);
  const auto record = store().result(key(list[0]));
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->runs, 3);
  EXPECT_EQ(record->seconds, 4.5);
  EXPECT_EQ(record->work, 30);
  EXPECT_TRUE(files("partial").empty());
}

TEST_F(Runner, CancelledBeforeATaskBeganItKeepsWhatWasSaved) {
  const auto list = tasks({"a"});
  CountingSolver once([](const Request&) { return answer_of("interrupted"); });
  run_batch(list, store(), once, {});
  CountingSolver never([](const Request&) { return std::nullopt; });
  EXPECT_TRUE(run_batch(list, store(), never, {}).interrupted);
  EXPECT_EQ(store().partial(key(list[0]))->runs, 1);
}

TEST_F(Runner, ADamagedPartialIsTheTasksErrorAndSaysWhatToDo) {
  const auto list = tasks({"a"});
  static_cast<void>(store());
  write("out/partial/" + key(list[0]) + ".json", "{");
  CountingSolver solver;
  EXPECT_EQ(run_batch(list, store(), solver, {}).errors, 1U);
  EXPECT_NE(store().error(list[0])->message.find("remove it"), std::string::npos);
}

TEST_F(Runner, WhatKilledProcessesLeftBehindGoesWithTheTask) {
  const auto list = tasks({"a", "b"});
  static_cast<void>(store());
  const Ids left{key(list[0]) + "-1-0", error_name_of(list[0]) + "-1-0", "manifest-1-0"};
  for (const std::string& name : left) write("out/temporary/" + name, "{");
  write("out/temporary/" + key(list[1]) + "-1-0", "{");
  CountingSolver solver;
  run_batch(list, store(), solver, {.shard = {.index = 0, .count = 2}});
  // That of b may be of a process that is still at work.
  EXPECT_EQ(files("temporary"), Ids{key(list[1]) + "-1-0"});
  run_batch(list, store(), solver, {.shard = {.index = 1, .count = 2}});
  EXPECT_TRUE(files("temporary").empty());
}

TEST_F(Runner, WhatARunWasKilledAtComesLast) {
  const auto list = tasks({"a", "b", "c"});
  const Store kept = store();
  kept.note_begun(key(list[0]));
  CountingSolver solver;
  std::ostringstream log;
  run_batch(list, kept, solver, {.log = &log});
  EXPECT_EQ(solver.asked, (Ids{"b", "c", "a"}));
  EXPECT_NE(log.str().find("[1/3] a  unknown"), std::string::npos) << log.str();
  EXPECT_TRUE(files("begun").empty());
}

TEST_F(Runner, AMarkIsThereWhileATaskIsInWorkAndGoesHoweverItEnds) {
  const auto list = tasks({"solved", "broken", "stopped"});
  const Store kept = store();
  CountingSolver solver([&](const Request& request) {
    EXPECT_EQ(files("begun"), Ids{key(request.task)});
    if (request.task.id == "broken") throw InputError("", "broken");
    return answer_of(request.task.id == "stopped" ? "interrupted" : "unknown");
  });
  run_batch(list, kept, solver, {});
  EXPECT_EQ(solver.asked.size(), 3U);
  EXPECT_TRUE(files("begun").empty());
}

TEST_F(Runner, ManyMayWriteIntoOneFolder) {
  Ids ids;
  for (int i = 0; i < 30; ++i) ids.push_back("t" + std::to_string(i));
  auto list = tasks(ids);
  for (std::size_t i = 0; i < list.size(); i += 5) std::filesystem::remove(list[i].graph);
  const Store shared = store();
  std::vector<std::thread> threads;
  std::vector<std::size_t> errors(6, 0);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      CountingSolver solver;
      shared.put_manifest(list);
      errors[i] = run_batch(list, shared, solver, {}).errors;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, std::vector<std::size_t>(6, 6));
  EXPECT_EQ(files("results").size(), 24U);
  EXPECT_EQ(files("errors").size(), 6U);
  EXPECT_TRUE(files("temporary").empty());
  for (const std::string& kept : shared.result_keys()) EXPECT_TRUE(shared.result(kept).has_value());
  EXPECT_EQ(read("out/manifest.jsonl"), manifest_text(list));
}

TEST_F(Runner, AFolderThatCannotBeWrittenEndsTheBatch) {
  const auto list = tasks({"a"});
  const Store gone = store();
  std::filesystem::remove_all(path("out"));
  CountingSolver solver;
  EXPECT_THROW(run_batch(list, gone, solver, {}), InputError);
  write("file", "");
  EXPECT_THROW(Store::create(path("file")), InputError);
}

}  // namespace
}  // namespace remora::batch
