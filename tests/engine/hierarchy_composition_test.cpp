// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/groups/composition.hpp"
#include "engine/search/local/mode_exchange.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora {
namespace {

/// How the compositions of many instances did.
struct CompositionTally {
  int feasible = 0;
  /// Feasible, but not with every op once by its shortest mode.
  int harder = 0;
  int reached = 0;
  int complete = 0;
};

/// Within what the input order needs and half of it.
Bytes random_budget(const Instance& unlimited, std::mt19937& random) {
  const std::int64_t most = evaluate(unlimited, computes_of(input_order(unlimited))).peak.count();
  return Bytes(most - static_cast<std::int64_t>(random() % static_cast<unsigned>(most / 2 + 1)));
}

void check(const Instance& instance, const Composition& composition, CompositionTally& tally) {
  const Evaluation evaluation = evaluate(instance, composition.sequence);
  EXPECT_TRUE(is_staged(instance, ops_of(composition.sequence)));
  EXPECT_TRUE(modes_hold(instance, composition.sequence));
  EXPECT_EQ(composition.peak, evaluation.peak);
  EXPECT_EQ(composition.extra + instance.baseline_duration(), evaluation.duration);
  const auto optimum = test::optimum(instance);
  const bool holds = composition.peak <= instance.budget();
  tally.complete += composition.complete ? 1 : 0;
  if (!optimum) {
    EXPECT_FALSE(holds) << "a composition within the budget where there is none";
    return;
  }
  ++tally.feasible;
  tally.harder += *optimum > instance.baseline_duration() ? 1 : 0;
  EXPECT_TRUE(holds || !composition.complete) << "wrongly proved infeasible";
  if (!holds) return;
  EXPECT_GE(evaluation.duration, *optimum);
  EXPECT_TRUE(evaluation.duration == *optimum || !composition.complete) << "wrongly proved optimal";
  tally.reached += evaluation.duration == *optimum ? 1 : 0;
}

Instance random_instance(std::mt19937& random) {
  auto graph = random() % 2 == 0 ? test::random_graph(random, {.least_ops = 2, .most_ops = 6})
                                 : test::random_training_graph(random, 3);
  graph = test::with_random_modes(random, *graph);
  const int most = 1 + static_cast<int>(random() % 2);
  const Instance unlimited(graph, {.max_computes = most});
  return unlimited.with_budget(random_budget(unlimited, random));
}

/// Compositions of random instances with so much effort each.
CompositionTally compose_many(unsigned seed, std::int64_t effort) {
  std::mt19937 random(seed);
  CompositionTally tally;
  for (int round = 0; round < test::fewer(1500) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const Instance instance = random_instance(random);
    // Compositions begin with mode 0 of every op, which a block's modes always allow.
    if (!modes_hold(instance, computes_of(input_order(instance)))) continue;
    check(instance, compose(instance, {}, random(), {.effort = effort}), tally);
  }
  return tally;
}

TEST(HierarchyComposition, IsTheOptimumOfSmallInstances) {
  const CompositionTally tally = compose_many(20261151, 1'000'000);
  EXPECT_GT(tally.harder, test::fewer(100));
  // All of them as measured.
  EXPECT_GE(tally.reached, tally.feasible * 99 / 100);
  EXPECT_GE(tally.complete, tally.feasible * 9 / 10);
}

TEST(HierarchyComposition, IsNeverBetterThanTheOptimumWhereItIsCutShort) {
  for (const std::int64_t effort : {30, 1500, 9000}) {
    const CompositionTally tally = compose_many(20261155, effort);
    EXPECT_GE(tally.reached, tally.feasible / 2) << "effort " << effort;
  }
}

TEST(HierarchyComposition, IsTheSameForTheSameSeed) {
  std::mt19937 random(20261152);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("seed 20261152, round " + std::to_string(round));
    const Instance instance = random_instance(random);
    if (!modes_hold(instance, computes_of(input_order(instance)))) continue;
    const Composition once = compose(instance, {}, 7, {.effort = 600'000});
    const Composition again = compose(instance, {}, 7, {.effort = 600'000});
    EXPECT_EQ(once.sequence, again.sequence);
    EXPECT_EQ(once.effort, again.effort);
  }
}

TEST(HierarchyComposition, StopsWhenInterrupted) {
  std::mt19937 random(20261153);
  for (int round = 0; round < 40; ++round) {
    const Instance instance = random_instance(random);
    if (!modes_hold(instance, computes_of(input_order(instance)))) continue;
    const Composition composition =
        compose(instance, {}, 1, {.effort = 30'000'000, .interrupted = [] { return true; }});
    EXPECT_TRUE(modes_hold(instance, composition.sequence));
    EXPECT_EQ(composition.sequence.size(), static_cast<std::size_t>(instance.op_count()));
  }
}

/// What changes of modes do, against evaluations from nothing.
TEST(HierarchyOptionState, ScoresAreThoseOfTheEvaluator) {
  std::mt19937 random(20261154);
  for (int round = 0; round < test::fewer(1000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261154, round " + std::to_string(round));
    const Instance instance = random_instance(random);
    const std::vector<Compute> start = test::random_sequence(instance, random);
    if (!modes_hold(instance, start)) continue;
    ModeState state(instance, start);
    const auto expect_score = [&](const ModeScore& score, const std::vector<Compute>& sequence) {
      const Evaluation evaluation = evaluate(instance, sequence);
      Bytes overflow;
      for (const Bytes here : evaluation.memory) overflow += std::max(Bytes(0), here - instance.budget());
      EXPECT_EQ(score.overflow, overflow);
      EXPECT_EQ(score.duration, evaluation.duration);
    };
    for (int i = 0; i < 10 && state.choice_count() > 0; ++i) {
      const int choice = static_cast<int>(random() % static_cast<unsigned>(state.choice_count()));
      const auto mode = static_cast<ModeNumber>(random() % static_cast<unsigned>(state.mode_count(choice)));
      const std::vector<Compute> before = state.sequence();
      const auto score = state.probe(choice, mode);
      EXPECT_EQ(state.sequence(), before);
      if (!score) continue;
      state.set(choice, mode);
      EXPECT_TRUE(modes_hold(instance, state.sequence()));
      EXPECT_EQ(state.mode(choice), mode);
      expect_score(*score, state.sequence());
      expect_score(state.score(), state.sequence());
    }
  }
}

}  // namespace
}  // namespace remora
