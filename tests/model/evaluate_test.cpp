// SPDX-License-Identifier: Apache-2.0
#include "model/evaluate.hpp"

#include <gtest/gtest.h>

#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/useful_plan.hpp"

namespace remora {
namespace {

std::vector<OpId> ops(std::initializer_list<int> numbers) {
  std::vector<OpId> result;
  for (const int number : numbers) result.emplace_back(number);
  return result;
}

std::vector<Bytes> bytes(std::initializer_list<int> numbers) {
  std::vector<Bytes> result;
  for (const int number : numbers) result.emplace_back(number);
  return result;
}

TEST(Evaluate, FigureOneOfKumarNeedsFourUnitsAndThreeWithOneRecompute) {
  const Instance instance(test::figure_1(), {});
  const Evaluation plain = evaluate(instance, input_order(instance));
  EXPECT_EQ(plain.memory, bytes({1, 2, 3, 4, 3}));
  EXPECT_EQ(plain.peak, Bytes(4));
  EXPECT_EQ(plain.peak_step, 3);
  const Evaluation again = evaluate(instance, ops({0, 1, 2, 3, 0, 4}));
  EXPECT_EQ(again.memory, bytes({1, 2, 3, 3, 2, 3}));
  EXPECT_EQ(again.peak, Bytes(3));
  EXPECT_EQ(again.duration, Duration(6));
}

TEST(Evaluate, RefusesAnOpBeforeItsInput) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(evaluate(instance, ops({1, 0})), std::logic_error);
}

TEST(Evaluate, RefusesAnUnknownOp) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(evaluate(instance, ops({0, 5})), std::logic_error);
  EXPECT_THROW(evaluate(instance, ops({-1})), std::logic_error);
}

TEST(Evaluate, EveryRandomPlanVerifiesAndAgreesWithTheReplay) {
  std::mt19937 random(11);
  for (int round = 0; round < 4000; ++round) {
    const auto graph = test::random_graph(random, {.in_place = round >= 2000});
    const Instance instance(graph, {.max_computes = 3});
    RecomputePlan plan;
    for (int v = 0; v < instance.op_count(); ++v) {
      int left = instance.max_computes(OpId(v)) - 1;
      for (Stage stage{v + 1}; stage <= instance.op_count() && left > 0; ++stage) {
        if (random() % 4 != 0) continue;
        plan.push_back({stage, OpId(v)});
        --left;
      }
    }
    std::sort(plan.begin(), plan.end());
    const auto sequence = sequence_of(instance, plan);
    ASSERT_TRUE(is_staged(instance, sequence));
    ASSERT_EQ(plan_of(instance, sequence), plan);
    const Verdict verdict = verify(*graph, schedule_of(instance, sequence));
    ASSERT_TRUE(verdict.valid()) << "round " << round << ": " << verdict.errors.front();
    ASSERT_EQ(verdict.recomputes, static_cast<int>(plan.size()));

    const auto useful = test::without_useless(instance, plan);
    const auto shorter = evaluate(instance, sequence_of(instance, useful));
    ASSERT_LE(shorter.peak, verdict.peak);
    const PlanEvaluation at_once = evaluate_plan(instance, plan);
    ASSERT_EQ(at_once.plan, useful);
    ASSERT_EQ(at_once.extra, shorter.duration - instance.baseline_duration());
    ASSERT_EQ(at_once.peak, shorter.peak);
    ASSERT_TRUE(verify(*graph, schedule_of(instance, sequence_of(instance, useful))).valid());
  }
}

TEST(Evaluate, NoOtherReleasesNeedLessMemory) {
  // At the input order's own peak the oracle, which tries all releases, needs no recompute; a byte below it does.
  std::mt19937 random(12);
  for (int round = 0; round < 600; ++round) {
    const auto graph = test::random_graph(random, {.in_place = round >= 300});
    const Instance instance(graph, {});
    const Bytes peak = baseline_peak(instance);
    ASSERT_EQ(test::optimum(Instance(graph, {.budget = peak, .max_computes = 1})), instance.baseline_duration())
        << "round " << round;
    if (peak == Bytes(0)) continue;
    ASSERT_EQ(test::optimum(Instance(graph, {.budget = peak - Bytes(1), .max_computes = 1})), std::nullopt)
        << "round " << round;
  }
}

TEST(RecomputePlan, KnowsWhatIsNotStaged) {
  const Instance instance(test::figure_1(), {});
  EXPECT_TRUE(is_staged(instance, ops({0, 1, 2, 3, 0, 4})));
  EXPECT_FALSE(is_staged(instance, ops({0, 2, 1, 3, 4})));        // first computes out of order
  EXPECT_FALSE(is_staged(instance, ops({0, 1, 2, 1, 0, 3, 4})));  // recomputes of a stage out of order
  EXPECT_FALSE(is_staged(instance, ops({0, 1, 2, 3, 0, 0, 4})));  // twice in a stage
  EXPECT_FALSE(is_staged(instance, ops({0, 1, 2, 3})));           // one missing
  EXPECT_THROW(plan_of(instance, ops({0, 1})), std::logic_error);
}

}  // namespace
}  // namespace remora
