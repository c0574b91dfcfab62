// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/merge.hpp"

#include <algorithm>
#include <sstream>

#include <nlohmann/json.hpp>

#include "frontends/batch/question.hpp"
#include "frontends/batch/runner.hpp"
#include "model/error.hpp"
#include "tests/frontends/batch/counting_solver.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::batch {
namespace {

using test::answer_of;
using test::CountingSolver;

class Merging : public remora::test::TemporaryFolder {
 protected:
  /// A batch in which each task has come to what its id says.
  std::vector<Task> run(const std::vector<std::string>& ids) {
    std::vector<Task> list;
    for (const std::string& id : ids) {
      write(id + ".json", id);
      list.push_back({.id = id, .graph = path(id + ".json"), .budget = "80%"});
    }
    CountingSolver solver([](const Request& request) -> std::optional<Answer> {
      if (request.task.id.starts_with("error")) throw InputError("there", "a \"fault\", and why");
      if (request.task.id.starts_with("missing")) return std::nullopt;
      return answer_of(request.task.id);
    });
    // One by one: an interruption ends a run.
    for (const Task& task : list) run_batch({task}, store(), solver, {});
    return list;
  }
  [[nodiscard]] Store store() const { return Store::create(path("out")); }
  [[nodiscard]] Merged merged(const std::vector<Task>& list, const RecordCheck& check = {}) const {
    CountingSolver solver;
    return merge(list, store(), solver, check);
  }
};

TEST_F(Merging, TellsWhatBecameOfEveryTask) {
  const auto list = run({"infeasible", "unknown", "interrupted", "error", "missing", "feasible"});
  const Merged all = merged(list);
  ASSERT_EQ(all.tasks.size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(all.tasks[i].status, list[i].id);
  EXPECT_EQ(all.missing(), 2U);
  EXPECT_EQ(all.failed(), 1U);
  EXPECT_EQ(all.results, 3U);
  EXPECT_EQ(all.seconds, 6.0);
  EXPECT_EQ(all.overhead->most, 0.0);
}

TEST_F(Merging, CountsAResultOnceHoweverManyTasksShareIt) {
  auto list = run({"unknown"});
  list.push_back(list[0]);
  list[1].id = "same";
  const Merged all = merged(list);
  EXPECT_EQ(all.counts.at("unknown"), 2U);
  EXPECT_EQ(all.results, 1U);
  EXPECT_EQ(all.seconds, 1.5);
  EXPECT_EQ(merged({}).other_results, 1U);
}

TEST_F(Merging, AGraphThatIsGoneIsMissingUnlessItsDigestIsStated) {
  auto list = run({"unknown"});
  CountingSolver solver;
  const std::string digest = Asking(solver).question_of(list[0]).graph_sha256;
  std::filesystem::remove(list[0].graph);
  EXPECT_EQ(merged(list).tasks[0].status, "missing");
  EXPECT_NE(merged(list).tasks[0].message.find("No such file"), std::string::npos);
  list[0].sha256 = digest;
  EXPECT_EQ(merged(list).tasks[0].status, "unknown");
}

TEST_F(Merging, SaysWhatARunWasKilledAt) {
  const auto list = run({"missing"});
  EXPECT_EQ(merged(list).tasks[0].message, "");
  store().note_begun(merged(list).tasks[0].key);
  EXPECT_EQ(merged(list).tasks[0].status, "missing");
  EXPECT_NE(merged(list).tasks[0].message.find("killed"), std::string::npos);
}

TEST_F(Merging, ADamagedResultIsNoResult) {
  const auto list = run({"unknown", "feasible"});
  const std::string key = merged(list).tasks[0].key;
  const std::string whole = read("out/results/" + key + ".json");
  for (const std::string& bad : {std::string(), whole.substr(0, whole.size() / 2), std::string("{}"),
                                 std::string(whole).replace(whole.find("80%"), 3, "70%"),
                                 std::string(whole).replace(whole.find("\"unknown\""), 9, "\"perfect\"")}) {
    write("out/results/" + key + ".json", bad);
    const Merged all = merged(list);
    EXPECT_EQ(all.tasks[0].status, "damaged");
    EXPECT_NE(all.tasks[0].message.find("remove it"), std::string::npos) << all.tasks[0].message;
    EXPECT_EQ(all.failed(), 1U);
  }
  write("out/results/" + key + ".json", whole);
  const Merged checked = merged(list, [](const Task& task, const Record&) {
    return task.id == "feasible" ? std::string("does not verify") : std::string();
  });
  EXPECT_EQ(checked.tasks[0].status, "unknown");
  EXPECT_EQ(checked.tasks[1].status, "damaged");
  EXPECT_FALSE(checked.overhead.has_value());
}

TEST(Spreads, AreQuartiles) {
  EXPECT_FALSE(spread_of({}).has_value());
  const Spread spread = *spread_of({4, 1, 2, 3, 10});
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.lower, 2);
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.upper, 4);
  EXPECT_EQ(spread.most, 10);
  EXPECT_EQ(spread_of({1, 2})->median, 1.5);
}

TEST_F(Merging, FitsSixtyColumns) {
  constexpr int kColumns = 60;
  std::ostringstream out;
  print_merged(out, merged(run({"feasible", "error, \"of\" a kind", "missing"})), kColumns);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), std::size_t{kColumns}) << line;
}

TEST_F(Merging, IsWrittenForPeopleSpreadsheetsAndPrograms) {
  const Merged all = merged(run({"feasible", "error, \"of\" a kind", "missing"}));
  std::ostringstream table;
  std::ostringstream csv;
  std::ostringstream summary;
  constexpr int kColumns = 100;
  print_merged(table, all, kColumns);
  write_csv(csv, all);
  write_summary(summary, all);
  EXPECT_NE(table.str().find("tasks       3: 1 error, 1 feasible, 1 missing"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("missing     1\n"), std::string::npos);
  EXPECT_NE(table.str().find("there: a \"fault\", and why"), std::string::npos);
  EXPECT_NE(csv.str().find("\"error, \"\"of\"\" a kind\""), std::string::npos) << csv.str();
  std::istringstream lines(csv.str());
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    bool quoted = false;
    long commas = 0;
    for (const char c : line) {
      quoted = quoted != (c == '"');
      commas += c == ',' && !quoted ? 1 : 0;
    }
    EXPECT_EQ(commas, 13) << line;
  }
  EXPECT_EQ(rows, 4);
  const auto document = nlohmann::json::parse(summary.str());
  EXPECT_EQ(document["counts"]["feasible"], 1);
  EXPECT_EQ(document["missing"], nlohmann::json::array({"missing"}));
  EXPECT_EQ(document["tasks"].size(), 3U);
  EXPECT_EQ(document["tasks"][1]["message"], "there: a \"fault\", and why");
}

}  // namespace
}  // namespace remora::batch
