// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/cp/solve_retention.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "tests/cp/oracle_check.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"

namespace remora {
namespace {

using cp::RetentionProblem;
using cp::SearchOutcome;
using cp::SearchSettings;

/// All settings of the switches on some problems of a kind; returns how many problems needed a recompute.
int check_every_switch_setting(unsigned seed, int rounds, OrderMode order, bool with_modes) {
  std::mt19937 random(seed);
  int recomputing = 0;
  for (int round = 0; round < rounds; ++round) {
    const int ops = order == OrderMode::free ? 4 : 6;
    auto graph = test::random_graph(random, {.least_ops = ops - 1, .most_ops = ops});
    if (with_modes) graph = test::with_random_modes(random, *graph);
    const Instance unlimited(graph, {.max_computes = 2, .order = order});
    for (const Bytes budget : test::budgets(unlimited)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto reference = test::solve_whole(instance);
      if (reference.extra > Duration(0)) ++recomputing;
      for (unsigned bits = 0; bits < 1U << test::kInferences; ++bits) {
        const auto outcome = test::solve_whole(instance, test::inferences_from_bits(bits), {.learn = bits % 3 == 0});
        EXPECT_EQ(outcome.sequence.has_value(), reference.sequence.has_value()) << "round " << round << ", " << bits;
        EXPECT_EQ(outcome.extra, reference.extra) << "round " << round << ", switches " << bits;
      }
    }
  }
  return recomputing;
}

TEST(SolveRetention, EverySwitchSettingGivesTheSameOptimum) {
  EXPECT_GT(check_every_switch_setting(22, 20, OrderMode::input, false), 8);
  EXPECT_GT(check_every_switch_setting(26, 20, OrderMode::free, false), 2);
  EXPECT_GT(check_every_switch_setting(27, 10, OrderMode::input, true), 5);
  EXPECT_GT(check_every_switch_setting(28, 10, OrderMode::free, true), 5);
}

TEST(SolveRetention, EachInferenceSavesFailuresSomewhere) {
  std::mt19937 random(23);
  std::vector<std::int64_t> without(6, 0);
  std::int64_t with_all = 0;
  for (int round = 0; round < 60; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 9, .most_ops = 11});
    const Instance unlimited(graph, {.max_computes = 2 + round % 2});
    for (const Bytes budget : test::budgets(unlimited)) {
      const Instance instance = unlimited.with_budget(budget);
      SearchSettings settings;
      settings.node_limit = 20000;
      with_all += test::solve_whole(instance, {}, settings).failures;
      for (unsigned i = 0; i < without.size(); ++i) {
        without[i] += test::solve_whole(instance, test::inferences_from_bits(63U & ~(1U << i)), settings).failures;
      }
    }
  }
  for (unsigned i = 0; i < without.size(); ++i) EXPECT_GT(without[i], with_all) << "inference " << i;
}

TEST(SolveRetention, NogoodsSaveFailures) {
  std::mt19937 random(24);
  std::int64_t without = 0;
  std::int64_t with = 0;
  for (int round = 0; round < 15; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 13, .most_ops = 15});
    const Instance unlimited(graph, {.max_computes = 2 + round % 2});
    for (const Bytes budget : test::budgets(unlimited)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto plain = test::solve_whole(instance, {}, {.node_limit = 20000});
      const auto learned = test::solve_whole(instance, {}, {.node_limit = 100000, .learn = true});
      EXPECT_GE(learned.complete, plain.complete);
      if (!plain.complete) continue;
      EXPECT_EQ(learned.sequence.has_value(), plain.sequence.has_value());
      EXPECT_EQ(learned.extra, plain.extra);
      if (plain.failures < 100) continue;
      without += plain.failures;
      with += learned.failures;
    }
  }
  EXPECT_GT(without, 300);
  EXPECT_LT(3 * with, without);
}

void check_interruptions(bool learn) {
  const auto graph = test::training_chain(9);
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 3 / 5));
  const auto all = input_order(instance);
  const RetentionProblem problem(instance, computes_of(input_order(instance)), all, {instance.budget()});
  const SearchSettings settings{.learn = learn};
  const auto whole = cp::solve_retention(problem, settings);
  ASSERT_TRUE(whole.complete);
  ASSERT_TRUE(whole.sequence.has_value());
  cp::RetentionSearch search(problem, settings);
  int pieces = 0;
  while (!search.advance(7).complete) ++pieces;
  EXPECT_GT(pieces, 2);
  EXPECT_EQ(search.advance(0).extra, whole.extra);
  EXPECT_EQ(search.advance(0).nodes, whole.nodes);
}

/// A question that is answered with yes now and then: propagators then leave out what only prunes.
TEST(SolveRetention, InterruptedInPropagatorsAndTakenUpAgainItProvesTheSame) {
  std::mt19937 random(24);
  int interruptions = 0;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE("seed 24, round " + std::to_string(round));
    const OrderMode order = round % 2 == 0 ? OrderMode::input : OrderMode::free;
    const int most = order == OrderMode::free ? 4 : 7;
    const auto graph = test::random_graph(random, {.least_ops = most - 1, .most_ops = most});
    const Instance unlimited(graph, {.max_computes = 2, .order = order});
    for (const Bytes budget : test::budgets(unlimited)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto reference = test::solve_whole(instance);
      ASSERT_TRUE(reference.complete);
      const auto all = input_order(instance);
      const RetentionProblem problem(instance, computes_of(all), all, {instance.budget()});
      SearchSettings settings{.learn = round % 3 == 0};
      settings.interrupted = [&] {
        const bool yes = random() % 4 == 0;
        interruptions += yes ? 1 : 0;
        return yes;
      };
      cp::RetentionSearch search(problem, settings);
      while (!search.advance(INT64_MAX).complete) {
      }
      const SearchOutcome& outcome = search.advance(0);
      ASSERT_EQ(outcome.sequence.has_value(), reference.sequence.has_value());
      ASSERT_EQ(outcome.extra, reference.extra);
    }
  }
  EXPECT_GT(interruptions, 1000);
}

TEST(SolveRetention, AnInterruptedSearchTakenUpAgainEndsTheSame) {
  check_interruptions(false);
  check_interruptions(true);
}

void check_tighter_requirements(bool learn) {
  const SearchSettings settings{.learn = learn};
  const auto graph = test::training_chain(9);
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 3 / 5));
  const auto all = input_order(instance);
  const RetentionProblem problem(instance, computes_of(input_order(instance)), all, {instance.budget()});
  const Duration optimum = cp::solve_retention(problem, {}).extra;
  for (const std::int64_t nodes : {1, 5, 20, 60}) {
    cp::RetentionSearch search(problem, settings);
    search.advance(nodes);
    search.require_below(optimum + Duration(1));
    const auto found = search.advance(INT64_MAX);
    ASSERT_TRUE(found.complete);
    EXPECT_EQ(found.extra, optimum);

    cp::RetentionSearch impossible(problem, settings);
    impossible.advance(nodes);
    impossible.require_below(optimum);
    const auto none = impossible.advance(INT64_MAX);
    ASSERT_TRUE(none.complete);
    EXPECT_TRUE(!none.sequence || none.extra >= optimum);
  }
}

TEST(SolveRetention, ATighterRequirementInMidSearchKeepsTheProof) {
  check_tighter_requirements(false);
  check_tighter_requirements(true);
}

TEST(SolveRetention, ACeilingIsStrict) {
  const Instance instance(test::figure_1(), {.budget = Bytes(3)});
  const auto all = input_order(instance);
  const auto solve_below = [&](std::int64_t cutoff) {
    const RetentionProblem problem(instance, computes_of(input_order(instance)), all,
                                   {instance.budget(), Duration(cutoff)});
    return cp::solve_retention(problem, {});
  };
  EXPECT_TRUE(solve_below(2).sequence.has_value());
  EXPECT_FALSE(solve_below(1).sequence.has_value());
  EXPECT_TRUE(solve_below(1).complete);
}

/// Sizes up to 10^13 bytes and durations up to 10^15; returns how many problems needed a recompute.
int check_large_amounts(OrderMode order, bool with_modes) {
  constexpr std::int64_t kLargestSize = 10'000'000'000'000;
  constexpr std::int64_t kLongestDuration = 1'000'000'000'000'000;
  std::mt19937 random(25);
  int recomputing = 0;
  for (int round = 0; round < 60; ++round) {
    auto graph = test::random_graph(random, {.most_ops = order == OrderMode::free ? 4 : 6,
                                             .largest_size = kLargestSize,
                                             .longest_duration = kLongestDuration});
    if (with_modes) graph = test::with_random_modes(random, *graph, kLargestSize, kLongestDuration);
    const Instance unlimited(graph, {.max_computes = 1 + round % 3, .order = order});
    const Bytes peak = baseline_peak(unlimited);
    for (const int percent : {60, 75, 90, 99}) {
      const Instance instance = unlimited.with_budget(Bytes(peak.count() / 100 * percent));
      const auto outcome = test::solve_whole(instance);
      const auto truth = test::optimum(instance);
      EXPECT_EQ(outcome.sequence.has_value(), truth.has_value());
      if (!truth || !outcome.sequence) continue;
      EXPECT_EQ(instance.baseline_duration() + outcome.extra, *truth);
      if (outcome.extra > Duration(0)) ++recomputing;
    }
  }
  return recomputing;
}

TEST(SolveRetention, LargeSizesAndDurationsDoNotOverflow) {
  EXPECT_GT(check_large_amounts(OrderMode::input, false), 5);
  EXPECT_GT(check_large_amounts(OrderMode::free, false), 0);
  EXPECT_GT(check_large_amounts(OrderMode::input, true), 5);
  EXPECT_GT(check_large_amounts(OrderMode::free, true), 5);
}

TEST(RetentionProblem, RefusesMoreStartsThanGecodeCanNumber) {
  // Half of the ops free over the other half: 50,000 gaps of 100,000 places.
  Graph graph;
  std::vector<OpId> every_other;
  for (int v = 0; v < 100'000; ++v) {
    const TensorId t = graph.add_tensor("t" + std::to_string(v), Bytes(1), true);
    graph.add_op({.name = "op" + std::to_string(v), .duration = Duration(1), .outputs = {t}});
    if (v % 2 == 0) every_other.emplace_back(v);
  }
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {.order = OrderMode::free});
  const auto sequence = computes_of(input_order(instance));
  EXPECT_THROW(RetentionProblem(instance, sequence, every_other, {instance.budget()}), InputError);
}

}  // namespace
}  // namespace remora
