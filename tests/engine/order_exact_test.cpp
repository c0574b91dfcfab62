// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/order/exact_order.hpp"
#include "engine/order/minimise_peak.hpp"
#include "engine/order/order_within.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/order_oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

using TrialAnswer = WithinResult::Answer;

void expect_is_order(const OrderProblem& problem, const std::vector<NodeId>& order, Bytes peak) {
  EXPECT_TRUE(is_valid(problem, order));
  EXPECT_EQ(peak_of(problem, order), peak);
}

/// Every way to ask for the least peak gives `truth`.
void expect_least_peak(const OrderProblem& problem, Bytes truth) {
  const ExactOrderResult whole = exact_order(problem, {});
  ASSERT_TRUE(whole.found && whole.proved());
  ASSERT_EQ(whole.peak, truth);
  expect_is_order(problem, whole.order, truth);
  const PartwiseResult parts = exact_order_by_parts(problem, given_order(problem), {});
  ASSERT_TRUE(parts.proved());
  ASSERT_EQ(parts.open, 0);
  ASSERT_EQ(parts.peak, truth);
  expect_is_order(problem, parts.order, truth);
  for (const OrderEnd end : {OrderEnd::first, OrderEnd::last}) {
    const WithinResult within = order_within(problem, truth, end, INT64_MAX, {});
    ASSERT_EQ(within.answer, TrialAnswer::found);
    ASSERT_TRUE(is_valid(problem, within.order));
    ASSERT_LE(peak_of(problem, within.order), truth);
    const WithinResult none = order_within(problem, truth - Bytes(1), end, INT64_MAX, {});
    ASSERT_EQ(none.answer, TrialAnswer::none);
    ASSERT_LE(none.least, truth);
    ASSERT_GE(none.least, truth);
  }
}

/// A valid sequence of the instance's ops with some of them run again, `length` computes in all.
std::vector<OpId> random_sequence(const Instance& instance, std::size_t length, std::mt19937& random) {
  Sequence sequence = input_order(instance);
  while (sequence.size() < length) {
    const OpId again = sequence[random() % sequence.size()];
    const auto first = std::find(sequence.begin(), sequence.end(), again) - sequence.begin() + 1;
    const auto place = first + static_cast<std::ptrdiff_t>(random() % (sequence.size() - first + 1));
    sequence.insert(sequence.begin() + place, again);
  }
  return sequence;
}

TEST(ExactOrder, IsTheBestOfAllOrders) {
  std::mt19937 random(61);
  int better = 0;
  for (int round = 0; round < test::fewer(5000); ++round) {
    SCOPED_TRACE(round);
    const auto graph = test::random_graph(random, {.most_ops = 8});
    const Instance instance(graph, {.order = OrderMode::free});
    const OrderProblem problem(instance);
    const Bytes truth = test::least_peak(problem);
    expect_least_peak(problem, truth);
    const Sequence sequence = problem.sequence_of(exact_order(problem, {}).order);
    const Verdict verdict = verify(*graph, schedule_of(instance.with_budget(truth), sequence));
    ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
    ASSERT_EQ(verdict.peak, truth);
    better += truth < peak_of(problem, given_order(problem)) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(better, test::fewer(1000));
}

TEST(ExactOrder, IsTheBestOrderOfASequenceThatRecomputes) {
  std::mt19937 random(62);
  int better = 0;
  for (int round = 0; round < test::fewer(2000); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.most_ops = 5}), {});
    const auto length = static_cast<std::size_t>(instance.op_count()) + random() % 4;
    const OrderProblem problem(instance, random_sequence(instance, length, random));
    const Bytes truth = test::least_peak(problem);
    expect_least_peak(problem, truth);
    better += truth < peak_of(problem, given_order(problem)) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(better, test::fewer(200));
}

TEST(ExactOrder, IsTheBestOfAllSetsOnLargerGraphs) {
  std::mt19937 random(63);
  for (int round = 0; round < test::fewer(600); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.least_ops = 10, .most_ops = 13, .largest_size = 99}), {});
    const OrderProblem problem(instance);
    expect_least_peak(problem, test::least_peak_by_sets(problem));
    if (HasFailure()) return;
  }
}

TEST(ExactOrder, LeavesNothingToRecomputingAtItsPeakAndAllToItBelow) {
  std::mt19937 random(64);
  int solved_below = 0;
  for (int round = 0; round < test::fewer(2000); ++round) {
    SCOPED_TRACE(round);
    const auto graph = test::random_graph(random);
    const Instance instance(graph, {.order = OrderMode::free});
    const ExactOrderResult result = exact_order(OrderProblem(instance), {});
    ASSERT_TRUE(result.proved());
    ASSERT_EQ(test::optimum(instance.with_budget(result.peak)), instance.baseline_duration());
    if (result.peak == Bytes(0)) continue;
    const auto below = test::optimum(instance.with_budget(result.peak - Bytes(1)));
    if (!below) continue;
    ++solved_below;
    // Computing an op again costs nothing if it takes no time.
    const bool free = std::any_of(graph->ops.begin(), graph->ops.end(),
                                  [](const Op& op) { return op.recompute && op.duration == Duration(0); });
    if (free) {
      EXPECT_GE(*below, instance.baseline_duration());
    } else {
      EXPECT_GT(*below, instance.baseline_duration());
    }
  }
  EXPECT_GT(solved_below, test::fewer(100));
}

TEST(ExactOrder, LooksOnlyBelowWhatIsAskedFor) {
  std::mt19937 random(65);
  for (int round = 0; round < test::fewer(500); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.most_ops = 8}), {});
    const OrderProblem problem(instance);
    const Bytes truth = test::least_peak(problem);
    const ExactOrderResult none = exact_order(problem, {.below = truth});
    EXPECT_FALSE(none.found);
    EXPECT_TRUE(none.proved());
    EXPECT_EQ(none.lower_bound, truth);
    const ExactOrderResult found = exact_order(problem, {.below = truth + Bytes(1)});
    EXPECT_TRUE(found.found && found.proved());
    EXPECT_EQ(found.peak, truth);
    const ExactOrderResult enough = exact_order(problem, {.enough = truth + Bytes(3)});
    EXPECT_LE(enough.peak, truth + Bytes(3));
    EXPECT_LE(enough.lower_bound, truth);
  }
}

TEST(ExactOrder, SaysSoWhenItRanOutOfWork) {
  std::mt19937 random(66);
  int open = 0;
  for (int round = 0; round < test::fewer(1000); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.least_ops = 8, .most_ops = 12}), {});
    const OrderProblem problem(instance);
    const Bytes truth = test::least_peak_by_sets(problem);
    const ExactOrderResult result = exact_order(problem, {.work_limit = 1 + static_cast<int>(random() % 60)});
    EXPECT_LE(result.lower_bound, truth);
    EXPECT_GE(result.peak, truth);
    if (result.found) expect_is_order(problem, result.order, result.peak);
    open += result.proved() ? 0 : 1;
    const PartwiseResult parts = exact_order_by_parts(problem, given_order(problem), {.work_limit = 20});
    EXPECT_LE(parts.lower_bound, truth);
    EXPECT_GE(parts.peak, truth);
    EXPECT_EQ(parts.open == 0, parts.proved());
    expect_is_order(problem, parts.order, parts.peak);
  }
  EXPECT_GT(open, test::fewer(100));
}

TEST(ExactOrder, StopsWhenInterrupted) {
  const Instance instance(test::figure_1(), {});
  const ExactOrderResult result = exact_order(OrderProblem(instance), {.interrupted = [] { return true; }});
  EXPECT_FALSE(result.found);
  EXPECT_FALSE(result.proved());
}

TEST(ExactOrder, SolvesALongTrainingChain) {
  const Instance instance(test::training_chain(500), {});
  const OrderProblem problem(instance);
  const ExactOrderResult result = exact_order(problem, {.work_limit = 10000});
  ASSERT_TRUE(result.found && result.proved());
  EXPECT_EQ(result.peak, peak_of(problem, given_order(problem)));
}

/// Branches of sizes that go up and down, joined at the end.
std::shared_ptr<const Graph> branches(int count, int length) {
  std::mt19937 random(67);
  Graph graph;
  const TensorId input = graph.add_tensor("input", Bytes(50));
  graph.add_op({.name = "first", .duration = Duration(1), .outputs = {input}});
  Op join{.name = "join", .duration = Duration(1)};
  for (int i = 0; i < count; ++i) {
    TensorId last = input;
    for (int k = 0; k < length; ++k) {
      const std::string name = std::to_string(i) + "_" + std::to_string(k);
      const TensorId next = graph.add_tensor(name, Bytes(1 + static_cast<std::int64_t>(random() % 100)));
      graph.add_op({.name = name, .duration = Duration(1), .inputs = {last}, .outputs = {next}});
      last = next;
    }
    join.inputs.push_back(last);
  }
  join.outputs.push_back(graph.add_tensor("joined", Bytes(1), true));
  graph.add_op(std::move(join));
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(ExactOrder, SolvesManyBranches) {
  const Instance instance(branches(12, 12), {});
  const OrderProblem problem(instance);
  const ExactOrderResult result = exact_order(problem, {.work_limit = 100000});
  ASSERT_TRUE(result.found && result.proved());
  expect_is_order(problem, result.order, result.peak);
  EXPECT_LT(result.peak, peak_of(problem, given_order(problem)));
}

TEST(ExactOrder, SolvesARandomLayeredGraphWhicheverOrderIsGiven) {
  const Instance instance(std::make_shared<const Graph>(generate::generate_layered({.ops = 100, .seed = 4})), {});
  const OrderProblem problem(instance);
  const ExactOrderResult result = exact_order(problem, {.work_limit = 2000000});
  ASSERT_TRUE(result.found && result.proved());
  Random random(68);
  const OrderProblem other(instance, problem.sequence_of(list_order(problem, 3, random)));
  const ExactOrderResult again = exact_order(other, {.work_limit = 2000000});
  ASSERT_TRUE(again.found && again.proved());
  EXPECT_EQ(result.peak, again.peak);
  expect_is_order(problem, result.order, result.peak);
}

}  // namespace
}  // namespace remora
