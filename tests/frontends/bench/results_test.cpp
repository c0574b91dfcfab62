// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/comparison.hpp"
#include "frontends/bench/results_file.hpp"
#include "model/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::bench {
namespace {

using Results = remora::test::TemporaryFolder;

Result result(const std::string& contender, std::int64_t seed, std::int64_t duration) {
  Result made;
  made.key = {"graph", "80%", contender, seed, 60, 2};
  made.graph_sha256 = "abc";
  made.ops = 10;
  made.status = duration > 0 ? "feasible" : "unknown";
  made.order = "input";
  made.max_computes = 2;
  made.baseline_duration = 1000;
  made.duration = duration;
  made.lower_bound = 1000;
  made.reached = static_cast<double>(seed);
  made.history = {{0.5, 1300}, {1.25, duration}};
  made.note = "a \"note\"";
  return made;
}

TEST_F(Results, ALineReadsBackAsItWasWritten) {
  const Result written = result("auto", 3, 1234);
  const Result again = from_line(to_line(written));
  EXPECT_EQ(to_line(again), to_line(written));
  EXPECT_EQ(again.key, written.key);
  EXPECT_EQ(again.history, written.history);
  EXPECT_DOUBLE_EQ(*again.overhead(), 100 * (1234.0 / 1000 - 1));
}

TEST_F(Results, ALineKeepsStatisticsAndNeedsNone) {
  Result told = result("auto", 3, 1234);
  EXPECT_EQ(to_line(told).find("statistics"), std::string::npos);
  EXPECT_TRUE(from_line(to_line(told)).statistics.empty());
  told.statistics = {{"levels", 3}, {"compose_seconds", 0.25}};
  EXPECT_EQ(from_line(to_line(told)).statistics, told.statistics);
}

TEST_F(Results, AreThereAfterAStop) {
  {
    ResultsFile file(path("r.jsonl"));
    file.add(result("auto", 1, 1100));
    file.add(result("auto", 2, 1200));
    file.add(result("auto", 1, 1050));
  }
  ResultsFile again(path("r.jsonl"));
  ASSERT_NE(again.find(result("auto", 1, 0).key), nullptr);
  EXPECT_EQ(again.find(result("auto", 1, 0).key)->duration, 1050);
  EXPECT_EQ(again.find(result("greedy", 1, 0).key), nullptr);
}

TEST_F(Results, ALineThatWasCutOffIsDropped) {
  const std::string whole = to_line(result("auto", 1, 1100)) + "\n";
  write("r.jsonl", whole + to_line(result("auto", 2, 1200)).substr(0, 80));
  ResultsFile file(path("r.jsonl"));
  EXPECT_NE(file.find(result("auto", 1, 0).key), nullptr);
  EXPECT_EQ(read("r.jsonl"), whole);
  file.add(result("auto", 3, 1300));
  EXPECT_NE(ResultsFile(path("r.jsonl")).find(result("auto", 3, 0).key), nullptr);
}

TEST_F(Results, AFileOfAnotherKindIsRefusedWithItsLine) {
  write("r.jsonl", to_line(result("auto", 1, 1100)) + "\n{\"instance\": 3}\n");
  try {
    const ResultsFile file(path("r.jsonl"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("r.jsonl:2"), std::string::npos);
  }
}

Suite two_contenders() {
  Suite suite;
  suite.contenders = {{.name = "auto"}, {.name = "greedy"}};
  return suite;
}

TEST(Comparison, TakesMediansInWhichNoScheduleIsWorst) {
  const Comparison comparison =
      compare(two_contenders(), {result("auto", 1, 1100), result("auto", 2, 0), result("auto", 3, 1050),
                                 result("greedy", 1, 1400), result("greedy", 2, 0), result("greedy", 3, 0)});
  ASSERT_EQ(comparison.rows.size(), 1U);
  const Row& row = comparison.rows[0];
  ASSERT_TRUE(row.cells[0].overhead.has_value());
  EXPECT_NEAR(*row.cells[0].overhead, 10, 1e-9);
  EXPECT_EQ(row.cells[0].schedules, 2);
  EXPECT_FALSE(row.cells[1].overhead.has_value());
  EXPECT_NEAR(*row.best, 10, 1e-9);
}

TEST(Comparison, TakesTheWorseOfTwo) {
  const Comparison comparison = compare(two_contenders(), {result("auto", 1, 1100), result("auto", 2, 1200),
                                                           result("greedy", 1, 1400), result("greedy", 2, 0)});
  EXPECT_NEAR(comparison.rows[0].cells[0].overhead.value_or(-1), 20, 1e-9);
  EXPECT_FALSE(comparison.rows[0].cells[1].overhead.has_value());
}

TEST(Comparison, TakesNothingFromAFailedRun) {
  Result failed = result("greedy", 1, 0);
  failed.status = "failed";
  failed.lower_bound = 5000;
  EXPECT_TRUE(contradictions({result("auto", 1, 1100), failed}).empty());
  EXPECT_NEAR(compare(two_contenders(), {result("auto", 1, 1100), failed}).rows[0].bound.value_or(-1), 0, 1e-9);
}

TEST(Comparison, ShowsBoundsOfTheFirstContendersProblemOnly) {
  Result bounded = result("auto", 1, 1100);
  bounded.lower_bound = 1040;
  Result other = result("greedy", 1, 1100);
  other.max_computes = 64;
  other.lower_bound = 1090;
  EXPECT_NEAR(compare(two_contenders(), {bounded, other}).rows[0].bound.value_or(-1), 4, 1e-9);
  EXPECT_FALSE(compare(two_contenders(), {other}).rows[0].bound.has_value());
}

TEST(Comparison, SeesAProofThatASchedulesExcludes) {
  Result bounded = result("auto", 1, 1100);
  bounded.lower_bound = 1080;
  const Result better = result("greedy", 1, 1070);
  EXPECT_EQ(contradictions({bounded, better}).size(), 1U);
  Result other_problem = better;
  other_problem.order = "free";
  EXPECT_TRUE(contradictions({bounded, other_problem}).empty());
  Result infeasible = result("auto", 1, 0);
  infeasible.status = "infeasible";
  EXPECT_EQ(contradictions({infeasible, better}).size(), 1U);
  EXPECT_TRUE(contradictions({result("auto", 1, 1100), better}).empty());
}

}  // namespace
}  // namespace remora::bench
