// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/baselines/method.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

Schedule solve_greedy(const Instance& instance, Strategy strategy) {
  SolveOptions options;
  options.strategy = strategy;
  options.work_limit = 1000;
  options.time_limit = kNoTimeLimit;
  Schedule schedule = solve(instance, options);
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  }
  return schedule;
}

TEST(Greedy, RecomputesTheOneOpOfFigureOne) {
  const Instance instance(test::figure_1(), {.budget = Bytes(3)});
  EXPECT_EQ(greedy_plan(instance, Deadline(1e9, nullptr)).size(), 1U);
  EXPECT_EQ(solve_greedy(instance, Strategy::greedy).peak_memory, Bytes(3));
}

TEST(Greedy, LeavesAloneWhatFits) {
  const Instance instance(test::figure_1(), {.budget = Bytes(4)});
  EXPECT_TRUE(greedy_plan(instance, Deadline(1e9, nullptr)).empty());
  EXPECT_EQ(solve_greedy(instance, Strategy::greedy).status, Status::optimal);
  EXPECT_EQ(solve_greedy(instance, Strategy::none).status, Status::optimal);
}

TEST(Greedy, EndsAtTheDeadlineWithItsPlanSoFar) {
  const Instance instance(test::figure_1(), {.budget = Bytes(3)});
  EXPECT_TRUE(greedy_plan(instance, Deadline(0, nullptr)).empty());
}

TEST(Greedy, NeverBeatsTheOptimum) {
  std::mt19937 random(19);
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    const auto graph = test::random_graph(random);
    const Instance unlimited(graph, {.max_computes = 2 + static_cast<int>(random() % 2)});
    const Instance instance = unlimited.with_budget(std::max(Bytes(0), baseline_peak(unlimited) - Bytes(3)));
    const Schedule schedule = solve_greedy(instance, Strategy::greedy);
    const auto truth = test::optimum(instance);
    if (schedule.has_steps()) {
      ++found;
      ASSERT_TRUE(truth.has_value());
      EXPECT_GE(schedule.duration, *truth);
      EXPECT_LE(schedule.lower_bound, *truth);
    } else if (truth) {
      EXPECT_EQ(schedule.status, Status::unknown);
      EXPECT_GT(schedule.solver.reached_peak, instance.budget());
    }
  }
  EXPECT_GT(found, 50);
}

TEST(Greedy, HoldsABudgetOfALayeredGraphThatTheOrderDoesNot) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 100, .edges = 236, .seed = 3}));
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 9 / 10));
  EXPECT_EQ(solve_greedy(instance, Strategy::none).status, Status::unknown);
  const Schedule schedule = solve_greedy(instance, Strategy::greedy);
  ASSERT_TRUE(schedule.has_steps());
  EXPECT_GE(schedule.duration, schedule.lower_bound);
}

}  // namespace
}  // namespace remora
