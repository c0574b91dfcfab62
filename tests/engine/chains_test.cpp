// SPDX-License-Identifier: Apache-2.0
//
// Strategies sqrt and rotor on training graphs.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "engine/baselines/chains/checkpoint_sqrt.hpp"
#include "engine/baselines/chains/rotor.hpp"
#include "engine/baselines/method.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

using GraphPointer = std::shared_ptr<const Graph>;

GraphPointer chain_graph(std::int64_t layers, std::int64_t batch = 64, std::int64_t channels = 4) {
  return std::make_shared<const Graph>(test::generate_chain({.layers = layers, .batch = batch, .channels = channels}));
}

GraphPointer transformer_graph() {
  return std::make_shared<const Graph>(test::generate_transformer({.layers = 3}));
}

GraphPointer unet_graph() {
  return std::make_shared<const Graph>(test::generate_unet({.levels = 4}));
}

/// Generated graphs keep their loss, of so many bytes.
constexpr Bytes kLoss(4);

/// The strategy's usual problem within a percentage of the memory above the base. The loss comes on top: the optimum
/// gains these bytes by running the whole forward part once more at the end, which is no matter for checkpointing.
Instance instance_at(const GraphPointer& graph, Strategy strategy, std::int64_t percent) {
  const Instance unlimited(graph, {.max_computes = default_computes(strategy)});
  const Bytes base = unlimited.base_memory() + kLoss;
  return unlimited.with_budget(base + Bytes((baseline_peak(unlimited) - base).count() * percent / 100));
}

Schedule solve_with(const Instance& instance, Strategy strategy, Workers workers = Workers::all) {
  SolveOptions options;
  options.strategy = strategy;
  options.workers = workers;
  options.threads = 1;
  options.work_limit = 20'000;
  options.time_limit = kNoTimeLimit;
  Schedule schedule = solve(instance, options);
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
    EXPECT_GE(schedule.duration, schedule.lower_bound);
  }
  return schedule;
}

TEST(Chains, GraphsWithoutPhasesAreLeftAloneWithANote) {
  const Instance instance = instance_at(test::training_chain(5), Strategy::sqrt, 80);
  for (const Strategy strategy : {Strategy::sqrt, Strategy::rotor}) {
    const Schedule schedule = solve_with(instance, strategy);
    EXPECT_EQ(schedule.status, Status::unknown);
    EXPECT_NE(schedule.solver.note.find("need a training graph"), std::string::npos);
  }
}

// What the dynamic program counts is at least what the evaluator finds, so that every schedule it finds within an
// amount holds that amount.
TEST(Rotor, CountsAtLeastTheEvaluatorsMemory) {
  std::mt19937 random(5);
  int schedules = 0;
  for (int round = 0; round < 1000; ++round) {
    const Instance instance(test::random_training_graph(random, 8), {.max_computes = 64});
    const auto forward = forward_part(instance);
    ASSERT_TRUE(forward);
    const auto blocks = block_chain(instance, *forward);
    const Chain chain = chain_costs(instance, blocks);
    const RotorTable table(chain, memory_to_save_all(chain), {});
    const Bytes beside = memory_beside_chain(instance, *forward);
    for (const Bytes memory : table.breakpoints()) {
      const auto sequence = sequence_of(instance, expand(instance, blocks, table.schedule(memory)));
      ++schedules;
      ASSERT_TRUE(is_staged(instance, sequence));
      EXPECT_LE(evaluate(instance, sequence).peak, beside + memory) << "round " << round;
    }
  }
  EXPECT_GT(schedules, 600);
}

TEST(Rotor, HoldsBudgetsOfChainsAndIsNeverWorseThanSqrt) {
  int compared = 0;
  int better = 0;
  for (const std::int64_t layers : {2, 3, 5, 8, 13, 20, 30}) {
    const auto graph = chain_graph(layers);
    for (std::int64_t percent = 20; percent <= 100; percent += 5) {
      const Schedule rotor = solve_with(instance_at(graph, Strategy::rotor, percent), Strategy::rotor);
      const Schedule sqrt = solve_with(instance_at(graph, Strategy::sqrt, percent), Strategy::sqrt);
      if (sqrt.has_steps()) {
        ASSERT_TRUE(rotor.has_steps()) << layers << " layers, " << percent << " %";
        EXPECT_LE(rotor.duration, sqrt.duration) << layers << " layers, " << percent << " %";
        ++compared;
        if (rotor.duration < sqrt.duration) ++better;
      }
    }
  }
  EXPECT_GT(compared, 30);
  EXPECT_GT(better, 3);
}

TEST(Rotor, IsNeverShorterThanTheProvedOptimumAndEqualsItOnUniformChains) {
  int proved = 0;
  for (const std::int64_t layers : {3, 4, 5}) {
    for (std::int64_t percent = 30; percent < 100; percent += 10) {
      const Instance instance = instance_at(chain_graph(layers), Strategy::rotor, percent);
      const Schedule best = solve_with(instance, Strategy::automatic, Workers::complete);
      const Schedule rotor = solve_with(instance, Strategy::rotor);
      if (best.status != Status::optimal) continue;
      ++proved;
      ASSERT_TRUE(rotor.has_steps()) << layers << " layers, " << percent << " %";
      EXPECT_EQ(rotor.duration, best.duration) << layers << " layers, " << percent << " %";
    }
  }
  EXPECT_GT(proved, 8);
}

TEST(Rotor, JoinsTheBlocksOfLongChains) {
  const Schedule schedule = solve_with(instance_at(chain_graph(400), Strategy::rotor, 30), Strategy::rotor);
  ASSERT_TRUE(schedule.has_steps());
  EXPECT_NE(schedule.solver.note.find("joined"), std::string::npos);
  EXPECT_LT(schedule.gap(), 0.01);
}

TEST(Rotor, HasNothingForAGraphThatMakesOneBlock) {
  const Schedule schedule = solve_with(Instance(test::late_weight_gradient(), {}), Strategy::rotor);
  EXPECT_EQ(schedule.status, Status::unknown);
  EXPECT_NE(schedule.solver.note.find("not a chain"), std::string::npos);
}

TEST(Rotor, KeepsToTwoComputesAnOpWhereTheInstanceSaysSo) {
  int found = 0;
  for (std::int64_t percent = 30; percent <= 90; percent += 10) {
    const Instance instance = instance_at(chain_graph(30), Strategy::sqrt, percent);
    const Schedule rotor = solve_with(instance, Strategy::rotor);
    const Schedule sqrt = solve_with(instance, Strategy::sqrt);
    if (!sqrt.has_steps()) continue;
    ++found;
    ASSERT_TRUE(rotor.has_steps()) << percent;
    EXPECT_LE(rotor.duration, sqrt.duration);
  }
  EXPECT_GT(found, 4);
}

TEST(Chains, NeverBeatTheOptimumOfSmallTrainingGraphs) {
  std::mt19937 random(7);
  int held = 0;
  for (int round = 0; round < 1500; ++round) {
    const Instance unlimited(test::random_training_graph(random, 3), {.max_computes = 3});
    if (unlimited.op_count() > 8) continue;
    const Instance instance = unlimited.with_budget(std::max(Bytes(0), baseline_peak(unlimited) - Bytes(2)));
    const auto truth = test::optimum(instance);
    for (const Strategy strategy : {Strategy::sqrt, Strategy::rotor}) {
      const Schedule schedule = solve_with(instance, strategy);
      if (!schedule.has_steps()) continue;
      ++held;
      ASSERT_TRUE(truth.has_value());
      EXPECT_GE(schedule.duration, *truth);
    }
  }
  EXPECT_GT(held, 50);
}

/// The least peak above the base that the strategy reaches.
Bytes least_peak(const GraphPointer& graph, Strategy strategy) {
  const Instance instance(graph, {.max_computes = default_computes(strategy)});
  SolveOptions options;
  options.strategy = strategy;
  // The base alone is too little, so that the least peak is what it answers.
  const Instance starved = instance.with_budget(instance.base_memory());
  const Deadline deadline(kNoTimeLimit, nullptr);
  const MethodResult result = method_of(strategy)({starved, options, deadline});
  return evaluate(instance, result.sequence).peak - instance.base_memory();
}

TEST(Sqrt, MemoryGrowsWithTheRootForOneMoreForwardPart) {
  for (const std::int64_t layers : {25, 49, 100}) {
    const double small = static_cast<double>(least_peak(chain_graph(layers), Strategy::sqrt).count());
    const double large = static_cast<double>(least_peak(chain_graph(4 * layers), Strategy::sqrt).count());
    EXPECT_GT(large / small, 1.5) << layers;
    EXPECT_LT(large / small, 2.3) << layers;
  }
  // Forward, loss and backward ops of a chain take 1, 0 and 2 parts.
  const auto graph = chain_graph(100);
  const Schedule schedule = solve_with(instance_at(graph, Strategy::sqrt, 22), Strategy::sqrt);
  ASSERT_TRUE(schedule.has_steps());
  EXPECT_LT(schedule.overhead(), 0.34);
}

TEST(Sqrt, EveryPlanOfEverySegmentationRunsOpsAtMostTwice) {
  for (const auto& graph : {chain_graph(17), transformer_graph(), unet_graph()}) {
    const Instance instance(graph, {});
    const int forward = *forward_part(instance);
    std::vector<OpId> all;
    for (int op = 0; op < forward; ++op) all.emplace_back(op);
    int recomputing = 0;
    for (const auto& places : {separators(instance, forward), all}) {
      for (const auto& cuts : segmentations(instance, forward, places)) {
        const auto sequence = sequence_of(instance, checkpoint_plan(instance, forward, cuts));
        EXPECT_TRUE(is_permitted(instance, sequence));
        if (sequence.size() > static_cast<std::size_t>(instance.op_count())) ++recomputing;
      }
    }
    EXPECT_GT(recomputing, 5);
  }
}

TEST(Chains, HoldBudgetsOfTransformersAndUnets) {
  int held = 0;
  for (const auto& graph : {transformer_graph(), unet_graph()}) {
    for (const std::int64_t percent : {90, 80, 70, 60}) {
      for (const Strategy strategy : {Strategy::sqrt, Strategy::rotor}) {
        if (solve_with(instance_at(graph, strategy, percent), strategy).has_steps()) ++held;
      }
    }
  }
  EXPECT_GE(held, 12);
}

}  // namespace
}  // namespace remora
