// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/checkmate/checkmate.hpp"

#include <atomic>

#include <gtest/gtest.h>

#include "benchmarks/methods/checkmate/program.hpp"
#include "engine/ask/problem.hpp"
#include "engine/bound/cover_mip.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

/// Without our bound, so that what is proved is the method's.
SolveOptions usual_options() {
  SolveOptions options;
  options.threads = 1;
  options.time_limit = kNoTimeLimit;
  options.covering = Covering::off;
  return options;
}

SolveOptions by_complete_search() {
  SolveOptions options = usual_options();
  options.workers = Workers::complete;
  return options;
}

Schedule checked(const Instance& instance, Schedule schedule) {
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
    EXPECT_GE(schedule.duration, schedule.lower_bound);
  }
  return schedule;
}

Schedule solve_checkmate(const Instance& instance, Method method, const SolveOptions& options = usual_options(),
                         const SolveCallbacks& callbacks = {}) {
  return checked(instance, solve_by_method(method, instance, options, callbacks));
}

/// A budget between what some op alone needs and the peak without recompute.
Instance with_random_budget(std::shared_ptr<const Graph> graph, std::mt19937& random) {
  const Instance unlimited(std::move(graph), {.max_computes = 2 + static_cast<int>(random() % 2)});
  Bytes least = unlimited.base_memory();
  for (int i = 0; i < unlimited.op_count(); ++i) least = std::max(least, unlimited.footprint(OpId(i)));
  const std::int64_t range = (baseline_peak(unlimited) - least).count() + 1;
  return unlimited.with_budget(least + Bytes(static_cast<std::int64_t>(random()) % range));
}

class Checkmate : public testing::Test {
 protected:
  void SetUp() override {
    if (!cover_mip_available()) GTEST_SKIP() << "this build has no CBC";
  }
};

TEST(CheckmateWithoutCbc, SaysSo) {
  if (cover_mip_available()) GTEST_SKIP() << "this build has CBC";
  const Instance instance(test::figure_1(), {.budget = Bytes(3)});
  for (const Method method : {run_checkmate, run_checkmate_lp}) {
    const Schedule schedule = solve_checkmate(instance, method);
    EXPECT_FALSE(schedule.has_steps());
    EXPECT_NE(schedule.solver.note.find("no COIN-OR CBC"), std::string::npos);
  }
}

TEST_F(Checkmate, RecomputesTheOneOpOfFigureOne) {
  const Instance instance(test::figure_1(), {.budget = Bytes(3)});
  const Schedule schedule = solve_checkmate(instance, run_checkmate);
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_EQ(schedule.duration, Duration(6));
  EXPECT_EQ(solve_checkmate(instance, run_checkmate_lp).duration, Duration(6));
}

TEST_F(Checkmate, FindsAndProvesTheOptimumOfRandomGraphs) {
  std::mt19937 random(2020);
  int dearer = 0;
  int infeasible = 0;
  for (int round = 0; round < test::fewer(800); ++round) {
    SCOPED_TRACE(round);
    const Instance instance = with_random_budget(test::random_graph(random), random);
    const auto truth = test::optimum(instance);
    const Schedule schedule = solve_checkmate(instance, run_checkmate);
    ASSERT_EQ(schedule.has_steps(), truth.has_value()) << schedule.solver.note;
    if (!truth) {
      ++infeasible;
      EXPECT_NE(schedule.status, Status::feasible);
      continue;
    }
    ASSERT_EQ(schedule.duration, *truth) << schedule.solver.note;
    EXPECT_EQ(schedule.lower_bound, *truth);
    EXPECT_EQ(schedule.status, Status::optimal);
    if (*truth > instance.baseline_duration()) ++dearer;
  }
  EXPECT_GE(dearer, test::fewer(100));
  EXPECT_GT(infeasible, test::fewer(50));
}

TEST_F(Checkmate, ClaimsNothingFalseWhereAmountsAreFarApart) {
  // Sizes from bytes to gigabytes and durations of 10^12 are what double precision is bad at.
  std::mt19937 random(77);
  int proved = 0;
  for (int round = 0; round < 150; ++round) {
    Graph graph = *test::random_graph(random);
    const auto draw = [&](std::int64_t most) { return static_cast<std::int64_t>(random()) % most; };
    for (Tensor& tensor : graph.tensors) tensor.size = Bytes(1 + draw(20) + (draw(2) * (1 + draw(5)) * 1'000'000'000));
    for (Op& op : graph.ops) op.duration = Duration(draw(5) * 1'000'000'000'000 + draw(9));
    const Instance instance = with_random_budget(std::make_shared<const Graph>(std::move(graph)), random);
    const Schedule schedule = solve_checkmate(instance, run_checkmate);
    const auto truth = test::optimum(instance);
    if (!truth) {
      EXPECT_FALSE(schedule.has_schedule());
      continue;
    }
    EXPECT_LE(schedule.lower_bound, *truth) << "round " << round;
    if (schedule.has_schedule()) {
      EXPECT_GE(schedule.duration, *truth) << "round " << round;
    }
    proved += schedule.status == Status::optimal ? 1 : 0;
  }
  EXPECT_GT(proved, 30);
}

TEST_F(Checkmate, RoundingNeverBeatsTheOptimumNorItsBoundExceedsIt) {
  std::mt19937 random(5);
  int found = 0;
  int feasible = 0;
  int raised = 0;
  for (int round = 0; round < test::fewer(400); ++round) {
    SCOPED_TRACE(round);
    const Instance instance = with_random_budget(test::random_graph(random), random);
    const auto truth = test::optimum(instance);
    const Schedule schedule = solve_checkmate(instance, run_checkmate_lp);
    if (!truth) {
      EXPECT_FALSE(schedule.has_steps());
      continue;
    }
    ++feasible;
    EXPECT_LE(schedule.lower_bound, *truth);
    if (schedule.lower_bound > instance.baseline_duration()) ++raised;
    if (!schedule.has_steps()) {
      EXPECT_GT(schedule.solver.reached_peak, instance.budget()) << schedule.solver.note;
      continue;
    }
    ++found;
    EXPECT_GE(schedule.duration, *truth);
  }
  EXPECT_GT(found, feasible / 2);
  EXPECT_GT(raised, test::fewer(30));
}

TEST_F(Checkmate, AgreesWithTheCompleteSearchOnTrainingGraphs) {
  std::vector<std::shared_ptr<const Graph>> graphs{test::training_chain(6)};
  graphs.push_back(std::make_shared<const Graph>(test::generate_chain({.layers = 5})));
  graphs.push_back(std::make_shared<const Graph>(test::generate_unet({.levels = 2, .size = 16})));
  int agreed = 0;
  for (const auto& graph : graphs) {
    const Instance unlimited(graph, {});
    for (const int percent : {95, 85, 75, 65}) {
      const Bytes base = unlimited.base_memory();
      const Bytes room = baseline_peak(unlimited) - base;
      const Instance instance = unlimited.with_budget(base + Bytes(room.count() * percent / 100));
      SolveOptions options = usual_options();
      // Enough for all of these where CBC does not go astray.
      options.time_limit = 20;
      const Schedule ours = checked(instance, solve(instance, by_complete_search()));
      const Schedule theirs = solve_checkmate(instance, run_checkmate, options);
      EXPECT_FALSE(ours.status == Status::infeasible && theirs.has_steps());
      if (ours.status != Status::optimal || theirs.status != Status::optimal) continue;
      EXPECT_EQ(ours.duration, theirs.duration) << graph->name << " at " << percent << " %";
      ++agreed;
    }
  }
  EXPECT_GE(agreed, 4);
}

TEST_F(Checkmate, RoundingGivesTheSameForASeed) {
  const auto graph = test::training_chain(8);
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 6 / 10));
  const Schedule first = solve_checkmate(instance, run_checkmate_lp);
  const Schedule second = solve_checkmate(instance, run_checkmate_lp);
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.lower_bound, second.lower_bound);
  EXPECT_EQ(first.solver.work, second.solver.work);
}

TEST_F(Checkmate, EndsWhenCancelledOrOutOfTime) {
  const Instance unlimited(std::make_shared<const Graph>(test::generate_unet({.levels = 5})), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 9 / 10));
  const std::atomic<bool> cancelled = true;
  for (const Method method : {run_checkmate, run_checkmate_lp}) {
    const Schedule schedule = solve_checkmate(instance, method, usual_options(), {.cancel = &cancelled});
    EXPECT_EQ(schedule.status, Status::unknown);
    EXPECT_FALSE(schedule.has_steps());
    for (const double seconds : {0.0, 0.05, 0.3}) {
      SolveOptions options = usual_options();
      options.time_limit = seconds;
      // What was found or proved until then is sound all the same.
      solve_checkmate(instance, method, options);
    }
  }
}

TEST_F(Checkmate, RefusesWhatIsTooLargeForCbc) {
  const Instance unlimited(test::training_chain(1500), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() / 2));
  for (const Method method : {run_checkmate, run_checkmate_lp}) {
    const Schedule schedule = solve_checkmate(instance, method);
    EXPECT_FALSE(schedule.has_steps());
    EXPECT_NE(schedule.solver.note.find("too large for CBC"), std::string::npos);
  }
}

TEST_F(Checkmate, WhatItProvesHoldsUnderAGapAndUnderANodeLimit) {
  std::mt19937 random(7);
  int raised = 0;
  for (int round = 0; round < test::fewer(400); ++round) {
    SCOPED_TRACE(round);
    const Instance instance = with_random_budget(test::random_graph(random), random);
    const auto truth = test::optimum(instance);
    SolveOptions options = usual_options();
    options.gap = round % 2 == 0 ? 0.5 : 0.0;
    options.work_limit = round % 4 == 1 ? 1 : 0;
    const Schedule schedule = solve_checkmate(instance, run_checkmate, options);
    ASSERT_TRUE(options.work_limit > 0 || schedule.has_steps() == truth.has_value());
    EXPECT_LE(schedule.lower_bound, truth.value_or(Duration::max()));
    if (schedule.lower_bound > instance.baseline_duration()) ++raised;
  }
  EXPECT_GT(raised, test::fewer(30));
}

TEST(CheckmateProgram, IsNotLargerThanItsSizeSays) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Instance instance = with_random_budget(test::random_graph(random), random);
    const checkmate::Columns columns(instance);
    const auto program = checkmate::make_program(instance, columns, Deadline(kNoTimeLimit, nullptr));
    ASSERT_TRUE(program.has_value());
    const checkmate::ProgramSize size = checkmate::program_size(instance);
    EXPECT_LE(static_cast<std::int64_t>(program->costs.size()), size.columns);
    EXPECT_LE(static_cast<std::int64_t>(program->rows.factors.size()), size.coefficients);
  }
}

TEST(CheckmateRounding, RetainsEverythingOrNothing) {
  const Instance instance(test::training_chain(5), {.max_computes = 6});
  const checkmate::Columns columns(instance);
  const std::vector<double> values(static_cast<std::size_t>(columns.count()), 0.5);
  checkmate::Rounding rounding(instance, columns, values);
  EXPECT_TRUE(rounding.deterministic(0.4).empty());
  // Every stage computes all that its op rests on; the last forward op's output feeds the first backward op anew.
  const RecomputePlan all = rounding.deterministic(0.6);
  EXPECT_FALSE(all.empty());
  for (const Recompute& recompute : all) EXPECT_LT(Stage(recompute.op), recompute.stage);
}

TEST(CheckmateRounding, KeepsToTheLimitsOfOps) {
  std::mt19937 random(3);
  Random draws(3);
  int recomputes = 0;
  for (int round = 0; round < 300; ++round) {
    const Instance instance = with_random_budget(test::random_graph(random), random);
    const checkmate::Columns columns(instance);
    const std::vector<double> values(static_cast<std::size_t>(columns.count()), 0.3);
    const RecomputePlan plan = checkmate::Rounding(instance, columns, values).randomized(draws);
    recomputes += static_cast<int>(plan.size());
    EXPECT_TRUE(is_permitted(instance, sequence_of(instance, plan)));
  }
  EXPECT_GT(recomputes, 100);
}

}  // namespace
}  // namespace remora
