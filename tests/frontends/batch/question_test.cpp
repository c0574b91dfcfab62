// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/question.hpp"

#include <set>

#include "engine/base/options.hpp"
#include "frontends/cli/commands/task_solver.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::batch {
namespace {

class Questions : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("g.json", "graph");
  }
  [[nodiscard]] Task task(const TaskOptions& options = {}) const {
    Task task{.id = "a", .graph = path("g.json"), .budget = "80%", .options = options};
    cli::complete_task(task, {}, folder());
    return task;
  }
  [[nodiscard]] static std::string key(const Task& task) {
    cli::TaskSolver solver(nullptr);
    return key_of(Asking(solver).question_of(task));
  }
};

TEST_F(Questions, TheKeyIsOfWhatIsAskedNotForWhomWhereOrHowFast) {
  write("copy.json", "graph");
  Task other = task({{"threads", {"3"}}, {"time-limit", {"60.0"}}, {"strategy", {"auto"}}, {"training", {"off"}}});
  other.id = "b";
  other.graph = path("copy.json");
  other.sha256 = text::sha256_hex("graph");
  EXPECT_EQ(key(task()), key(other));
  EXPECT_EQ(key(task()).size(), 64U);
}

TEST_F(Questions, EveryOptionThatChangesWhatIsAskedChangesTheKey) {
  std::set<std::string> keys{key(task())};
  Task budget = task();
  budget.budget = "81%";
  keys.insert(key(budget));
  std::size_t expected = 2;
  for (const OptionRow& row : option_rows()) {
    if (std::string(row.name) == "threads") continue;
    // The first of these that is in the option's range and not its default.
    for (const std::string value : {"off", "on", "3", "1", "0.5", "cp", "lns", "chain", "nogoods"}) {
      if (value == row.initial) continue;
      try {
        keys.insert(key(task({{text::dashed(row.name), {value}}})));
        break;
      } catch (const cli::UsageError&) {
        EXPECT_NE(value, "nogoods") << row.name;
      }
    }
    ++expected;
  }
  EXPECT_EQ(keys.size(), expected);
}

TEST_F(Questions, WhatIsReadOfAModelAndWhoSolvesItChangesTheKey) {
  const std::vector<TaskOptions> questions{{},
                                           {{"training", {"on"}}},
                                           {{"training", {"on"}}, {"backward", {"checkmate"}}},
                                           {{"training", {"on"}}, {"gradients", {"keep"}}},
                                           {{"cost", {"flops"}}},
                                           {{"dim", {"batch=8"}}},
                                           {{"dim", {"batch=9"}}},
                                           {{"dim", {"batch=8", "height=9"}}},
                                           {{"strategy", {"cp"}}},
                                           {{"group-size", {"12"}}},
                                           {{"strategy", {"rotor"}}},
                                           {{"strategy", {"rotor"}}, {"order", {"free"}}},
                                           {{"max-computes", {"3"}}}};
  std::set<std::string> keys;
  for (const TaskOptions& options : questions) keys.insert(key(task(options)));
  EXPECT_EQ(keys.size(), questions.size());
  EXPECT_EQ(key(task({{"training", {"off"}}})), key(task()));
  EXPECT_EQ(key(task({{"dim", {"height=9", "batch=8"}}})), key(task({{"dim", {"batch=8", "height=9"}}})));
}

TEST_F(Questions, ValuesOfWhichTheLastWouldWinAreRefused) {
  EXPECT_THROW(key(task({{"training", {"off", "on"}}})), cli::UsageError);
  EXPECT_THROW(key(task({{"dim", {"batch=8", "batch=16"}}})), cli::UsageError);
}

TEST_F(Questions, GraphsDevicesAndWarmStartsCountByTheirBytes) {
  write("device.json", "one");
  write("start.json", "one");
  // Only the digest matters here; whether it is a device is found out when it is used.
  const Task with_device = task({{"device", {"device.json"}}});
  const Task with_start = task({{"warm-start", {"start.json"}}});
  const std::set<std::string> before{key(task()), key(with_device), key(with_start)};
  EXPECT_EQ(before.size(), 3U);
  write("device.json", "two");
  write("start.json", "two");
  write("g.json", "another");
  std::set<std::string> after{key(task()), key(with_device), key(with_start)};
  EXPECT_EQ(after.size(), 3U);
  after.insert(before.begin(), before.end());
  EXPECT_EQ(after.size(), 6U);
  std::filesystem::remove(path("start.json"));
  EXPECT_THROW(key(with_start), InputError);
}

TEST_F(Questions, AStatedDigestSparesReadingTheGraph) {
  Task stated = task();
  stated.sha256 = text::sha256_hex("graph");
  const std::string before = key(stated);
  std::filesystem::remove(path("g.json"));
  EXPECT_EQ(key(stated), before);
  EXPECT_THROW(key(task()), InputError);
}

TEST_F(Questions, AnotherVersionIsAnotherQuestion) {
  const Question question{.version = "1.0", .graph_sha256 = "ab", .budget = "5", .settings = {{"seed", "1"}}};
  Question next = question;
  next.version = "1.1";
  EXPECT_NE(key_of(question), key_of(next));
  const remora::json::Document document = json::parse(question_text(question));
  const remora::json::Node root(document);
  EXPECT_EQ(read_question(root), question);
}

}  // namespace
}  // namespace remora::batch
