// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/free/free_search.hpp"
#include "engine/order/minimise_peak.hpp"
#include "engine/order/order_problem.hpp"
#include "engine/search/solution.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/random.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

Schedule solve_free(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {},
                    std::span<const Compute> warm_start = {}) {
  Schedule schedule = solve(instance, options, callbacks, warm_start);
  EXPECT_EQ(schedule.order, instance.problem().order);
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  }
  EXPECT_LE(schedule.lower_bound, schedule.has_steps() ? schedule.duration : Duration::max());
  return schedule;
}

struct FreeTally {
  int cases = 0;
  int proved = 0;
  int found = 0;
  int missed = 0;
  int orders_matter = 0;
};

/// Free-order solves of random graphs under budgets below the input order's peak, against brute force over all orders
/// with recomputes.
void check_against_oracle(const test::RandomGraphOptions& kind, int rounds, std::int64_t work, FreeTally& tally,
                          unsigned most_computes = 2) {
  std::mt19937 random(static_cast<unsigned>(kind.most_ops));
  for (int round = 0; round < test::fewer(rounds) && !testing::Test::HasFatalFailure(); ++round) {
    const auto graph = test::random_graph(random, kind);
    const int max_computes = 1 + static_cast<int>(random() % most_computes);
    const Instance unlimited(graph, {.max_computes = max_computes, .order = OrderMode::free});
    const std::int64_t least = least_budget(unlimited).count() - 1;
    const std::int64_t most = std::max(least + 1, baseline_peak(unlimited).count());
    // More often near the peak, where there is something to find.
    const auto draw = [&] { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least)); };
    const Bytes budget(std::max<std::int64_t>(0, least + std::max({draw(), draw(), draw()})));
    const Instance instance = unlimited.with_budget(budget);
    SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(budget.count()));
    SolveOptions options = test::work_limited(work);
    options.seed = round;
    const Schedule schedule = solve_free(instance, options);
    const auto truth = test::optimum(instance);
    ++tally.cases;
    if (schedule.status == Status::optimal || schedule.status == Status::infeasible) ++tally.proved;
    if (truth) {
      ASSERT_NE(schedule.status, Status::infeasible);
      ASSERT_LE(schedule.lower_bound, *truth);
      if (schedule.status == Status::optimal) {
        ASSERT_EQ(schedule.duration, *truth);
      }
      schedule.has_schedule() && schedule.duration == *truth ? ++tally.found : ++tally.missed;
      const Instance staged(graph, {.budget = budget, .max_computes = max_computes});
      const auto in_input_order = test::optimum(staged);
      if (!in_input_order || *in_input_order > *truth) ++tally.orders_matter;
    } else {
      ASSERT_FALSE(schedule.has_schedule());
    }
  }
}

TEST(FreeOrder, FindsAndProvesTheBruteForceOptimumOfSmallGraphs) {
  FreeTally tally;
  check_against_oracle({.least_ops = 2, .most_ops = 6}, 4500, 20'000, tally);
  EXPECT_EQ(tally.proved, tally.cases);
  EXPECT_EQ(tally.missed, 0);
  EXPECT_GT(tally.found, tally.cases / 4);
  EXPECT_GT(tally.orders_matter, tally.cases / 20);
}

TEST(FreeOrder, FindsAndProvesTheBruteForceOptimumWithThreeComputesAndOfEightOps) {
  FreeTally tally;
  check_against_oracle({.least_ops = 7, .most_ops = 8}, 500, 20'000, tally);
  check_against_oracle({.least_ops = 5, .most_ops = 6}, 800, 20'000, tally, 3);
  check_against_oracle({.least_ops = 4, .most_ops = 6, .in_place = true}, 800, 20'000, tally, 3);
  EXPECT_EQ(tally.proved, tally.cases);
  EXPECT_EQ(tally.missed, 0);
}

/// Without a brute force, which takes longer.
TEST(FreeOrder, SettlesTenThousandSmallProblemsWithLittleWork) {
  std::mt19937 random(9035);
  int infeasible = 0;
  for (int round = 0; round < test::fewer(10'000) && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = test::random_graph(random, {.least_ops = 4, .most_ops = 8, .in_place = round % 2 == 0});
    const Instance unlimited(graph, {.max_computes = 3, .order = OrderMode::free});
    const std::int64_t least = least_budget(unlimited).count();
    const std::int64_t more = std::max<std::int64_t>(1, baseline_peak(unlimited).count() - least);
    const Bytes budget(least + static_cast<std::int64_t>(random()) % more / (1 + round % 3));
    const Schedule schedule = solve_free(unlimited.with_budget(budget), test::work_limited(20'000));
    ASSERT_TRUE(schedule.status == Status::optimal || schedule.status == Status::infeasible);
    infeasible += schedule.status == Status::infeasible ? 1 : 0;
  }
  EXPECT_GT(infeasible, test::fewer(100));
}

Instance layered_instance(int percent, OrderMode order) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 60, .seed = 3}));
  const Instance unlimited(graph, {.order = order});
  return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * percent / 100));
}

TEST(FreeOrder, TheSameSeedGivesTheSameScheduleWhateverTheNumberOfThreads) {
  const Instance instance = layered_instance(70, OrderMode::free);
  SolveOptions options = test::work_limited(3000);
  const Schedule two = solve_free(instance, options);
  options.threads = 1;
  const Schedule one = solve_free(instance, options);
  EXPECT_EQ(one.steps, two.steps);
  EXPECT_EQ(one.solver.work, two.solver.work);
}

TEST(FreeOrder, HandsOutEveryBetterScheduleOnceAndReturnsTheLast) {
  const Instance instance = layered_instance(70, OrderMode::free);
  const auto by_time = [](const Incumbent& a, const Incumbent& b) { return a.seconds < b.seconds; };
  std::vector<Duration> durations;
  SolveCallbacks callbacks;
  callbacks.incumbent = [&](const Schedule& schedule) {
    EXPECT_TRUE(verify(instance.graph(), schedule).valid());
    EXPECT_TRUE(durations.empty() || schedule.duration < durations.back());
    const auto& history = schedule.solver.history;
    EXPECT_TRUE(std::is_sorted(history.begin(), history.end(), by_time));
    EXPECT_EQ(history.back().duration, schedule.duration);
    durations.push_back(schedule.duration);
  };
  double latest = 0;
  std::int64_t work = 0;
  const auto goes_on = [&](const Progress& progress) {
    EXPECT_GE(progress.seconds, latest);
    EXPECT_GE(progress.work, work);
    latest = progress.seconds;
    work = progress.work;
  };
  callbacks.heartbeat = goes_on;
  callbacks.enough = [&](const Progress& progress) {
    goes_on(progress);
    return false;
  };
  callbacks.progress = [&](const Progress& progress) {
    goes_on(progress);
    // Whoever is told of a schedule has been given it.
    if (progress.phase == 2) {
      EXPECT_EQ(progress.duration, durations.back());
    }
  };
  const Schedule schedule = solve_free(instance, test::work_limited(3000), callbacks);
  ASSERT_FALSE(durations.empty());
  EXPECT_EQ(schedule.duration, durations.back());
  const auto& history = schedule.solver.history;
  EXPECT_TRUE(std::is_sorted(history.begin(), history.end(), by_time));
  EXPECT_GT(work, 0);
}

TEST(FreeOrder, StartsFromAnySequenceAndRefusesWhatIsNone) {
  const Instance instance = layered_instance(75, OrderMode::free);
  const Schedule good = solve_free(instance, test::work_limited(6000));
  ASSERT_TRUE(good.has_schedule());
  const Schedule again = solve_free(instance, test::work_limited(1), {}, computes_of(good));
  EXPECT_LE(again.duration, good.duration);

  std::vector<Compute> backwards = computes_of(input_order(instance));
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_THROW(static_cast<void>(solve(instance, test::work_limited(1), {}, backwards)), InputError);
}

TEST(FreeOrder, AWarmStartInInputOrderHidesNoOtherOrder) {
  const Instance instance = layered_instance(85, OrderMode::free);
  const Schedule cold = solve_free(instance, test::work_limited(3000));
  ASSERT_EQ(cold.status, Status::optimal);
  const Schedule start = solve_free(layered_instance(85, OrderMode::input), test::work_limited(3000));
  ASSERT_GT(start.duration, cold.duration);
  const Schedule warm = solve_free(instance, test::work_limited(3000), {}, computes_of(start));
  EXPECT_EQ(warm.status, Status::optimal);
}

TEST(FreeOrder, EnoughEndsTheSolveInEveryKindOfTurn) {
  const Instance instance = layered_instance(70, OrderMode::free);
  for (const int asked : {1, 3, 20}) {
    int left = asked;
    SolveCallbacks callbacks;
    callbacks.enough = [&left](const Progress&) { return --left <= 0; };
    SolveOptions options = test::work_limited(0);
    options.time_limit = 600;
    solve_free(instance, options, callbacks);
    // It may be asked once more where a turn ends.
    EXPECT_GE(left, -6) << asked;
  }
}

TEST(FreeOrder, ACancelledSolveKeepsItsIncumbent) {
  const Instance instance = layered_instance(70, OrderMode::free);
  std::atomic<bool> cancel{false};
  SolveCallbacks callbacks;
  callbacks.cancel = &cancel;
  callbacks.incumbent = [&](const Schedule&) { cancel = true; };
  SolveOptions options = test::work_limited(0);
  options.time_limit = 600;
  const Schedule schedule = solve_free(instance, options, callbacks);
  EXPECT_EQ(schedule.status, Status::feasible);
}

/// Some ops again, each in a stage after its own.
RecomputePlan random_recomputes(const Instance& staged, std::mt19937& random) {
  RecomputePlan plan;
  for (OpId op{0}; op < staged.op_count(); op = OpId(op + 1)) {
    if (random() % 2 == 0 || staged.max_computes(op) < 2) continue;
    const auto stages = static_cast<unsigned>(staged.op_count() - op);
    plan.push_back({Stage(op) + 1 + static_cast<int>(random() % stages), op});
  }
  std::sort(plan.begin(), plan.end());
  return plan;
}

TEST(OrderView, ItsSequencesAreTheFreeProblemsWithTheSameAmounts) {
  std::mt19937 random(7);
  Random noise(7);
  std::size_t recomputes = 0;
  int other_orders = 0;
  for (int round = 0; round < test::fewer(400); ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 3, .most_ops = 8});
    const Instance free(graph, {.max_computes = 3, .order = OrderMode::free});
    const OrderProblem problem(free);
    const OrderView view(free, Order(problem.sequence_of(list_order(problem, 1.0, noise))));
    const RecomputePlan plan = random_recomputes(view.staged(), random);
    const std::vector<Compute> runs = computes_of(sequence_of(view.staged(), plan));
    const Sequence sequence = ops_of(view.sequence_of(runs));
    ASSERT_TRUE(is_free_sequence(free, sequence));
    ASSERT_EQ(first_computes(free, sequence), view.order());
    ASSERT_EQ(view.staged_runs(computes_of(sequence)), runs);
    const Evaluation mine = evaluate(view.staged(), sequence_of(view.staged(), plan));
    const Evaluation theirs = evaluate(free, sequence);
    ASSERT_EQ(mine.memory, theirs.memory);
    ASSERT_EQ(mine.duration, theirs.duration);
    recomputes += plan.size();
    if (view.order() != input_order(free)) ++other_orders;
  }
  EXPECT_GT(recomputes, test::fewer(200U));
  EXPECT_GT(other_orders, test::fewer(100));
}

TEST(Reordered, RenamesWhatNamesAnOp) {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(1));
  const TensorId b = graph.add_tensor("b", Bytes(1));
  const TensorId c = graph.add_tensor("c", Bytes(1));
  const OpId first = graph.add_op({.name = "A", .duration = Duration(1), .outputs = {a}});
  graph.add_op({.name = "B", .duration = Duration(1), .outputs = {b}});
  graph.add_op(
      {.name = "C", .duration = Duration(1), .inputs = {a}, .outputs = {c}, .backward_of = first, .after = {first}});
  const Graph other = reordered(graph, Order{OpId(1), OpId(0), OpId(2)});
  EXPECT_NO_THROW(validate(other));
  EXPECT_EQ(other.ops[0].name, "B");
  EXPECT_EQ(other.ops[2].backward_of, OpId(1));
  EXPECT_EQ(other.ops[2].after, std::vector{OpId(1)});
  EXPECT_EQ(reordered(other, Order{OpId(1), OpId(0), OpId(2)}), graph);
}

}  // namespace
}  // namespace remora
