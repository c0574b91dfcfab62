// SPDX-License-Identifier: Apache-2.0
//
// solve() where ops have several modes, against brute force.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

std::vector<Compute> computes_in(const Schedule& schedule) {
  std::vector<Compute> computes;
  for (const Step& step : schedule.steps) computes.push_back({step.op, step.mode});
  return computes;
}

/// The schedule is what it says, by the evaluator.
void expect_sound_modes(const Instance& instance, const Schedule& schedule) {
  const std::vector<Compute> computes = computes_in(schedule);
  const std::vector<OpId> ops = ops_of(computes);
  const Evaluation evaluation = evaluate(instance, computes);
  EXPECT_TRUE(modes_hold(instance, computes));
  EXPECT_TRUE(is_free_sequence(instance, ops));
  EXPECT_TRUE(instance.problem().order == OrderMode::free || is_staged(instance, ops));
  EXPECT_LE(evaluation.peak, instance.budget());
  EXPECT_EQ(schedule.peak_memory, evaluation.peak);
  EXPECT_EQ(schedule.duration, evaluation.duration);
  EXPECT_EQ(schedule.steps, steps_of(instance, computes));
  EXPECT_LE(schedule.lower_bound, schedule.duration);
}

Instance random_modes_instance(std::mt19937& random, OrderMode order) {
  const int most_ops = order == OrderMode::free ? 4 : 6;
  const auto graph = random() % 2 == 0 ? test::random_graph(random, {.least_ops = 2, .most_ops = most_ops})
                                       : test::random_training_graph(random, order == OrderMode::free ? 2 : 3);
  const auto modes = test::random_modes(random, *graph);
  const Instance unlimited(graph, {.max_computes = 1 + static_cast<int>(random() % 2), .order = order}, modes);
  const std::int64_t most = evaluate(unlimited, computes_of(input_order(unlimited))).peak.count();
  return unlimited.with_budget(Bytes(most - static_cast<std::int64_t>(random() % static_cast<unsigned>(most / 2 + 1))));
}

struct ModesTally {
  int optimal = 0;
  int infeasible = 0;
  int undecided = 0;
  /// Feasible, and mode 0 of every op does not do.
  int by_choice = 0;
};

ModesTally solve_many_modes(unsigned seed, int rounds, OrderMode order) {
  std::mt19937 random(seed);
  ModesTally tally;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, order);
    const Schedule schedule = solve(instance, test::work_limited(20'000, 1));
    const auto optimum = test::optimum(instance);
    if (schedule.has_schedule()) expect_sound_modes(instance, schedule);
    tally.optimal += schedule.status == Status::optimal ? 1 : 0;
    tally.infeasible += schedule.status == Status::infeasible ? 1 : 0;
    tally.undecided += schedule.status == Status::feasible || schedule.status == Status::unknown ? 1 : 0;
    if (!optimum) {
      EXPECT_FALSE(schedule.has_schedule());
      continue;
    }
    EXPECT_NE(schedule.status, Status::infeasible);
    EXPECT_LE(schedule.lower_bound, *optimum);
    EXPECT_TRUE(!schedule.has_schedule() || schedule.duration >= *optimum);
    EXPECT_TRUE(schedule.status != Status::optimal || schedule.duration == *optimum);
    const auto computes = computes_in(schedule);
    tally.by_choice += std::any_of(computes.begin(), computes.end(), [](const Compute& c) { return c.mode > 0; });
  }
  return tally;
}

TEST(SolveModes, AgreesWithBruteForceInTheInputOrder) {
  const ModesTally tally = solve_many_modes(20261901, 600, OrderMode::input);
  EXPECT_GT(tally.optimal, 200);
  EXPECT_GT(tally.infeasible, 50);
  EXPECT_GT(tally.by_choice, 100);
  EXPECT_LE(tally.undecided, 6);
}

TEST(SolveModes, AgreesWithBruteForceInFreeOrder) {
  const ModesTally tally = solve_many_modes(20261902, 300, OrderMode::free);
  EXPECT_GT(tally.optimal, 100);
  EXPECT_GT(tally.infeasible, 20);
  EXPECT_GT(tally.by_choice, 50);
  EXPECT_LE(tally.undecided, 6);
}

TEST(SolveModes, SaysTheSameAtAnyNumberOfThreads) {
  std::mt19937 random(20261903);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    SolveOptions options = test::work_limited(3'000, 1);
    const Schedule once = solve(instance, options);
    options.threads = 3;
    const Schedule again = solve(instance, options);
    EXPECT_EQ(once.status, again.status);
    EXPECT_EQ(once.steps, again.steps);
    EXPECT_EQ(once.lower_bound, again.lower_bound);
  }
}

TEST(SolveModes, TheLeastBudgetIsBracketed) {
  std::mt19937 random(20261905);
  int bracketed = 0;
  int below_one_mode = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    if (!modes_hold(instance, computes_of(input_order(instance)))) {
      EXPECT_THROW(least_budget(test::asked(instance, test::work_limited(2'000, 1))), InputError);
      continue;
    }
    SolveOptions options = test::work_limited(2'000, 1);
    options.time_limit = 100;
    const BudgetBracket bracket = least_budget(test::asked(instance, options));
    EXPECT_TRUE(test::optimum(instance.with_budget(bracket.reached)));
    EXPECT_FALSE(bracket.proved > Bytes(0) && test::optimum(instance.with_budget(bracket.proved - Bytes(1))));
    ++bracketed;
    below_one_mode +=
        bracket.reached < least_budget(test::asked({instance.shared_graph(), instance.problem()}, options)).reached;
  }
  EXPECT_GT(bracketed, 20);
  EXPECT_GT(below_one_mode, 5);
}

TEST(SolveModes, ACancelledBracketIsWhatIsKnownByThen) {
  std::mt19937 random(20261906);
  const Instance instance(test::random_graph(random, {.least_ops = 5, .most_ops = 6}), {});
  const std::atomic<bool> cancel{true};
  const BudgetBracket bracket = least_budget(test::asked(instance, test::work_limited(0, 1)), &cancel);
  EXPECT_LE(bracket.proved, bracket.reached);
  EXPECT_EQ(bracket.reached, baseline_peak(instance));
}

TEST(SolveModes, RefusesWhatKnowsOneModeAnOp) {
  std::mt19937 random(20261904);
  const Instance instance = random_modes_instance(random, OrderMode::input);
  for (const Strategy strategy : {Strategy::greedy, Strategy::checkmate, Strategy::none}) {
    SolveOptions options = test::work_limited(100, 1);
    options.strategy = strategy;
    EXPECT_THROW(solve(instance, options), InputError);
  }
  EXPECT_THROW(sweep(test::asked(instance, test::work_limited(100, 1)), {}), InputError);
}

}  // namespace
}  // namespace remora
