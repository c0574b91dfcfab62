// SPDX-License-Identifier: Apache-2.0
//
// remora-graph 2 without devices: what an op takes over of its inputs' storage, in everything that solves.
#include <algorithm>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/order/minimise_peak.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

/// a (4) -> b takes over a's storage; c reads b, and a again where `read_again`.
std::shared_ptr<const Graph> chain_in_place(bool read_again, std::int64_t size_of_b = 4) {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(4));
  const TensorId b = graph.add_tensor("b", Bytes(size_of_b));
  const TensorId c = graph.add_tensor("c", Bytes(1), true);
  graph.add_op({.name = "A", .duration = Duration(1), .outputs = {a}});
  graph.add_op({.name = "B", .duration = Duration(1), .inputs = {a}, .outputs = {b}, .in_place = {{b, a}}});
  Op last{.name = "C", .duration = Duration(1), .inputs = {b}, .outputs = {c}};
  if (read_again) last.inputs.push_back(a);
  graph.add_op(last);
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(InPlace, CountsTheLargerSizeWhereTheInputIsReleased) {
  EXPECT_EQ(baseline_peak(Instance(chain_in_place(false), {})), Bytes(5));
  EXPECT_EQ(baseline_peak(Instance(chain_in_place(false, 7), {})), Bytes(8));
  EXPECT_EQ(baseline_peak(Instance(chain_in_place(false, 2), {})), Bytes(4));
  EXPECT_EQ(baseline_peak(Instance(chain_in_place(true), {})), Bytes(9));
}

TEST(InPlace, ALargerExampleMayHaveAnInputThatIsComputedAgain) {
  // B could take over a's storage if a were computed again for C, but C needs both.
  const Instance instance(chain_in_place(true), {});
  EXPECT_EQ(test::optimum(instance.with_budget(Bytes(9))), Duration(3));
  EXPECT_EQ(test::optimum(instance.with_budget(Bytes(8))), std::nullopt);
}

TEST(InPlace, OfAnInputOfTheGraphNothingIsTakenOver) {
  Graph graph;
  const TensorId x = graph.add_tensor("x", Bytes(4));
  const TensorId y = graph.add_tensor("y", Bytes(4), true);
  graph.add_op({.name = "Y", .duration = Duration(1), .inputs = {x}, .outputs = {y}, .in_place = {{y, x}}});
  const Instance instance(std::make_shared<const Graph>(graph), {});
  EXPECT_FALSE(instance.has_in_place());
  EXPECT_EQ(baseline_peak(instance), Bytes(8));
}

SolveOptions quick(std::int64_t work) {
  SolveOptions options;
  options.work_limit = work;
  options.time_limit = kNoTimeLimit;
  options.threads = 1;
  return options;
}

/// The schedule verifies and is no better than the truth; proofs are right.
void check(const Instance& instance, const Schedule& schedule, const std::optional<Duration>& truth) {
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
    ASSERT_TRUE(truth.has_value());
    ASSERT_GE(schedule.duration, *truth);
  }
  if (schedule.status == Status::infeasible) {
    ASSERT_EQ(truth, std::nullopt);
  }
  if (truth) {
    ASSERT_LE(schedule.lower_bound, *truth);
  }
  if (schedule.status == Status::optimal) {
    ASSERT_EQ(schedule.duration, *truth);
  }
}

Bytes budget_between(const Instance& instance, std::mt19937& random) {
  const std::int64_t least = std::max<std::int64_t>(0, least_budget(instance).count() - 1);
  const std::int64_t most = std::max(least, baseline_peak(instance).count());
  return Bytes(least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1)));
}

struct InPlaceTally {
  int cases = 0;
  int proved = 0;
  int dear = 0;
};

InPlaceTally check_solves(OrderMode order, const test::RandomGraphOptions& kind, int rounds, std::int64_t work) {
  InPlaceTally tally;
  std::mt19937 random(static_cast<unsigned>(kind.most_ops) + (order == OrderMode::free ? 100 : 0));
  for (int round = 0; round < test::fewer(rounds) && !testing::Test::HasFatalFailure(); ++round) {
    const auto graph = test::random_graph(random, kind);
    const int max_computes = 1 + static_cast<int>(random() % 3);
    const Instance unlimited(graph, {.max_computes = max_computes, .order = order});
    const Instance instance = unlimited.with_budget(budget_between(unlimited, random));
    SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(instance.budget().count()));
    SolveOptions options = quick(work);
    options.seed = round;
    const Schedule schedule = solve(instance, options);
    const auto truth = test::optimum(instance);
    check(instance, schedule, truth);
    ++tally.cases;
    tally.proved += schedule.status == Status::optimal || schedule.status == Status::infeasible ? 1 : 0;
    tally.dear += truth && *truth > instance.baseline_duration() ? 1 : 0;
  }
  return tally;
}

TEST(InPlace, SolvesOfTheInputOrderProveTheBruteForceOptimum) {
  const InPlaceTally tally = check_solves(OrderMode::input, {.in_place = true}, 700, 20'000);
  EXPECT_EQ(tally.proved, tally.cases);
  EXPECT_GT(tally.dear, test::fewer(40));
}

TEST(InPlace, SolvesThatEndEarlyAreNeverWrong) {
  check_solves(OrderMode::input, {.least_ops = 5, .most_ops = 7, .in_place = true}, 300, 20);
}

TEST(InPlace, SolvesOfTheFreeOrderAreRight) {
  const InPlaceTally tally = check_solves(OrderMode::free, {.most_ops = 5, .in_place = true}, 700, 10'000);
  EXPECT_GE(tally.proved, tally.cases * 98 / 100);
}

TEST(InPlace, MethodsOfTheLiteratureAndGroupsAreRight) {
  std::mt19937 random(7);
  for (int round = 0; round < test::fewer(150) && !HasFatalFailure(); ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 4, .most_ops = 7, .in_place = true});
    const Instance unlimited(graph, {});
    const Instance instance = unlimited.with_budget(budget_between(unlimited, random));
    const auto truth = test::optimum(instance);
    SolveOptions options = quick(500);
    options.group_size = 2;
    options.top_size = 3;
    for (const Strategy strategy : {Strategy::none, Strategy::greedy, Strategy::sqrt, Strategy::rotor}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", " + std::string(strategy_name(strategy)));
      SolveOptions by_method = options;
      by_method.strategy = strategy;
      check(instance, solve(instance, by_method), truth);
    }
    SCOPED_TRACE("round " + std::to_string(round));
    options.groups = GroupStart::on;
    check(instance, solve(instance, options), truth);
    options.groups = GroupStart::automatic;
    options.workers = Workers::local;
    check(instance, solve(instance, options), truth);
  }
}

/// The network with ops that take over some input's storage.
std::shared_ptr<const Graph> with_in_place(const Graph& network, std::mt19937& random) {
  Graph graph = network;
  for (Op& op : graph.ops) {
    if (!op.inputs.empty() && random() % 2 == 0)
      op.in_place = {{op.outputs.front(), op.inputs[random() % op.inputs.size()]}};
  }
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(InPlace, GroupsOfTrainingStepsVerifyAndAreNeverBetterThanTheOptimum) {
  std::mt19937 random(8);
  for (int round = 0; round < test::fewer(60) && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const bool small = round % 2 == 0;
    const auto graph =
        with_in_place(small ? *test::blocks_in_a_chain(random, 2, 2) : *test::random_network(random, 24), random);
    const Instance unlimited(graph, {});
    const Bytes peak = baseline_peak(unlimited);
    const Instance instance =
        unlimited.with_budget(Bytes(peak.count() * (5 + static_cast<std::int64_t>(random() % 5)) / 10));
    SolveOptions options = quick(3000);
    options.groups = GroupStart::on;
    options.group_size = 3;
    options.top_size = 4;
    const Schedule schedule = solve(instance, options);
    if (small) {
      check(instance, schedule, test::optimum(instance));
    } else if (schedule.has_steps()) {
      const Verdict verdict = verify(*graph, schedule);
      ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
    }
  }
}

TEST(InPlace, OrdersSayWhatTheyTakeAndTheirBoundHolds) {
  std::mt19937 random(9);
  int optimal = 0;
  const int rounds = test::fewer(300);
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance(test::random_graph(random, {.most_ops = 7, .in_place = true}), {});
    const OrderProblem problem(instance);
    const OrderResult result = minimise_peak(problem, {.work_limit = 300}, [] { return false; });
    ASSERT_EQ(evaluate(instance, problem.sequence_of(result.order)).peak, result.peak);
    Bytes least = baseline_peak(instance);
    std::vector<NodeId> order = given_order(problem);
    do {
      if (is_valid(problem, order)) least = std::min(least, evaluate(instance, problem.sequence_of(order)).peak);
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_LE(result.lower_bound, least);
    ASSERT_GE(result.peak, least);
    optimal += result.peak == least ? 1 : 0;
  }
  EXPECT_GE(optimal, rounds * 8 / 10);
}

TEST(InPlace, LeastBudgetsAndSweepsAreRight) {
  std::mt19937 random(10);
  for (int round = 0; round < test::fewer(60) && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance(test::random_graph(random, {.most_ops = 6, .in_place = true}), {});
    Bytes least = baseline_peak(instance);
    while (least > Bytes(0) && test::optimum(instance.with_budget(least - Bytes(1)))) least -= Bytes(1);
    const BudgetBracket found = least_budget(test::asked(instance, quick(20'000)));
    ASSERT_LE(found.proved, least);
    ASSERT_GE(found.reached, least);
  }
}

}  // namespace
}  // namespace remora
