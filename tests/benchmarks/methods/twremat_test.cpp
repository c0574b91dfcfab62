// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/twremat/twremat.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "benchmarks/methods/twremat/trimmed_sequence.hpp"
#include "engine/ask/problem.hpp"
#include "engine/base/deadline.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

constexpr int kManyComputes = 10'000;

/// Without the fixed memory, so that shares of the peak mean something.
std::shared_ptr<const Graph> shared(Graph graph) {
  graph.fixed_memory = Bytes(0);
  return std::make_shared<const Graph>(std::move(graph));
}

Instance free_instance(std::shared_ptr<const Graph> graph, int max_computes) {
  return {std::move(graph), {.max_computes = max_computes, .order = OrderMode::free}};
}

/// What `verify` says of the sequence as a schedule whose budget is its peak.
Verdict verdict(const Instance& instance, const Sequence& sequence) {
  return verify(instance.graph(), schedule_of(instance, sequence));
}

void expect_valid(const Instance& instance, const Sequence& sequence) {
  const Verdict result = verdict(instance, sequence);
  EXPECT_TRUE(result.valid()) << result.errors.front();
}

SeparatorTree separator_tree(const Instance& instance) {
  return {shrunk(min_fill_decomposition(dependency_graph(instance))), instance.op_count()};
}

/// A graph without ops that may run only so often.
std::shared_ptr<const Graph> without_limits(const Graph& graph) {
  Graph copy = graph;
  for (Op& op : copy.ops) {
    op.recompute = true;
    op.max_computes.reset();
  }
  return std::make_shared<const Graph>(std::move(copy));
}

Schedule solve_with_twremat(const Instance& instance) {
  SolveOptions options;
  options.time_limit = kNoTimeLimit;
  Schedule schedule = solve_by_method(run_twremat, instance, options);
  if (schedule.has_steps()) {
    const Verdict result = verify(instance.graph(), schedule);
    EXPECT_TRUE(result.valid()) << result.errors.front();
  }
  return schedule;
}

Instance at_share(const Instance& instance, int percent) {
  return instance.with_budget(Bytes(baseline_peak(instance).count() * percent / 100));
}

TEST(TwRemat, EveryLimitGivesAValidSequence) {
  std::mt19937 random(31);
  int longer = 0;
  for (int round = 0; round < 300; ++round) {
    const auto graph = without_limits(*test::random_graph(random, {.least_ops = 1, .most_ops = 25}));
    const Instance instance = free_instance(graph, kManyComputes);
    const SeparatorTree tree = separator_tree(instance);
    for (int limit = 1; limit <= tree.part(0).bags + 1; ++limit) {
      const auto sequence = separator_schedule(instance, tree, limit, kComputesWithin64Bits);
      ASSERT_TRUE(sequence.has_value());
      if (sequence->size() > graph->ops.size()) ++longer;
      // What serves no use is counted by `verify`'s limits of dead ends, so it goes first.
      expect_valid(instance, TrimmedSequence(instance, *sequence).sequence());
      EXPECT_NO_THROW(evaluate(instance, *sequence));
    }
    EXPECT_EQ(separator_schedule(instance, tree, tree.part(0).bags + 1, 1), input_order(instance));
  }
  EXPECT_GT(longer, 100);
}

TEST(TwRemat, GivesUpASequenceThatIsTooLong) {
  const Instance instance = free_instance(shared(test::generate_chain({.layers = 64})), kManyComputes);
  const SeparatorTree tree = separator_tree(instance);
  const auto sequence = separator_schedule(instance, tree, 1, kComputesWithin64Bits);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_GT(sequence->size(), 2 * instance.graph().ops.size());
  EXPECT_FALSE(separator_schedule(instance, tree, 1, 2).has_value());
}

/// The peak of TWRemat(1), as the paper's figure 2 shows it.
Bytes peak_of_full_recursion(std::int64_t layers) {
  const Instance instance = free_instance(shared(test::generate_chain({.layers = layers})), kManyComputes);
  const auto sequence = separator_schedule(instance, separator_tree(instance), 1, kComputesWithin64Bits);
  EXPECT_TRUE(sequence.has_value());
  expect_valid(instance, *sequence);
  return evaluate(instance, *sequence).peak;
}

TEST(TwRemat, PeakOfAChainGrowsWithTheLogarithmOfItsDepth) {
  const auto plain = [](std::int64_t layers) {
    return baseline_peak(free_instance(shared(test::generate_chain({.layers = layers})), 1)).count();
  };
  const std::int64_t shallow = peak_of_full_recursion(16).count();
  const std::int64_t deep = peak_of_full_recursion(256).count();
  const std::int64_t deepest = peak_of_full_recursion(4096).count();
  EXPECT_GT(plain(256), 12 * plain(16));
  // Each factor of 16 adds about the same, four levels of the recursion.
  EXPECT_LT(deep, 3 * shallow);
  EXPECT_LT(deepest, 2 * deep);
  EXPECT_LT(deepest, plain(4096) / 60);
}

TEST(TwRemat, PeakOfATransformerGrowsFarLessThanItsDepth) {
  const auto peak = [](std::int64_t layers) {
    const Instance unlimited = free_instance(shared(test::generate_transformer({.layers = layers})), kManyComputes);
    const MethodResult result = run_twremat({unlimited.with_budget(Bytes(0)), {}, Deadline(kNoTimeLimit, nullptr)});
    expect_valid(unlimited, result.sequence);
    return evaluate(unlimited, result.sequence).peak;
  };
  EXPECT_LT(peak(32).count(), 3 * peak(2).count());
}

TEST(TrimmedSequence, AgreesWithTheEvaluatorAfterEveryRemoval) {
  std::mt19937 random(32);
  int removals = 0;
  for (int round = 0; round < 300; ++round) {
    const auto graph = without_limits(*test::random_graph(random, {.least_ops = 2, .most_ops = 14}));
    const Instance instance = free_instance(graph, kManyComputes);
    // An op may run again at any time after its first compute.
    Sequence sequence = input_order(instance);
    for (int i = 0; i < 20; ++i) {
      const OpId op(static_cast<int>(random() % graph->ops.size()));
      const auto first = std::find(sequence.begin(), sequence.end(), op) + 1;
      const auto place = random() % (static_cast<std::size_t>(sequence.end() - first) + 1);
      sequence.insert(first + static_cast<std::ptrdiff_t>(place), op);
    }
    TrimmedSequence trimmed(instance, sequence);
    for (int i = 0; i < 30; ++i) {
      const Evaluation evaluation = evaluate(instance, trimmed.sequence());
      ASSERT_EQ(trimmed.peak(), evaluation.peak);
      ASSERT_EQ(trimmed.duration(), evaluation.duration);
      const int step = static_cast<int>(random() % sequence.size());
      if (!trimmed.removable(step)) continue;
      ++removals;
      const Bytes budget(static_cast<std::int64_t>(random()) % (2 * evaluation.peak.count() + 1));
      const auto before = trimmed.sequence();
      if (random() % 2 == 0) {
        trimmed.remove(step);
      } else if (!trimmed.remove_within(step, budget)) {
        ASSERT_EQ(trimmed.sequence(), before);
      }
    }
    expect_valid(instance, trimmed.sequence());
  }
  EXPECT_GT(removals, 300);
}

TEST(RecomputeRemoval, HoldsTheBudgetAndNeverTakesLonger) {
  const Deadline deadline(kNoTimeLimit, nullptr);
  std::mt19937 random(33);
  int shorter = 0;
  for (int round = 0; round < 60; ++round) {
    const auto graph = shared(generate::generate_layered({.ops = 40, .seed = round}));
    const Instance unlimited = free_instance(graph, kManyComputes);
    const SeparatorTree tree = separator_tree(unlimited);
    const int limit = 1 + static_cast<int>(random() % 6);
    const auto sequence = separator_schedule(unlimited, tree, limit, kComputesWithin64Bits);
    if (!sequence) continue;
    const Evaluation before = evaluate(unlimited, *sequence);
    const Instance instance = unlimited.with_budget(before.peak + Bytes(static_cast<std::int64_t>(random() % 2000)));
    TrimmedSequence trimmed(instance, *sequence);
    remove_unneeded(trimmed, deadline);
    const Evaluation after = evaluate(instance, trimmed.sequence());
    expect_valid(instance, trimmed.sequence());
    EXPECT_LE(after.peak, instance.budget());
    EXPECT_LE(after.duration, before.duration);
    if (after.duration < before.duration) ++shorter;
    // None is left that could go on its own.
    for (int step = 0; step < trimmed.steps(); ++step) {
      if (trimmed.removable(step)) {
        EXPECT_FALSE(trimmed.remove_within(step, instance.budget()));
      }
    }
  }
  EXPECT_GT(shorter, 20);
}

/// The first computes alone.
std::vector<OpId> once(const Instance& instance, const Sequence& sequence) {
  std::vector<char> seen(static_cast<std::size_t>(instance.op_count()), false);
  Order order;
  std::copy_if(sequence.begin(), sequence.end(), std::back_inserter(order),
               [&](OpId op) { return !std::exchange(seen[static_cast<std::size_t>(op)], true); });
  return order;
}

TEST(RecomputeRemoval, LeavesNoRecomputeWhereTheOrderFitsWithoutAny) {
  const Deadline deadline(kNoTimeLimit, nullptr);
  for (std::int64_t layers : {4, 30, 200}) {
    const Instance unlimited = free_instance(shared(test::generate_chain({.layers = layers})), kManyComputes);
    const auto sequence = separator_schedule(unlimited, separator_tree(unlimited), 1, kComputesWithin64Bits);
    ASSERT_TRUE(sequence.has_value());
    const Instance instance = unlimited.with_budget(evaluate(unlimited, once(unlimited, *sequence)).peak);
    EXPECT_GT(sequence->size(), instance.graph().ops.size());
    TrimmedSequence trimmed(instance, *sequence);
    remove_unneeded(trimmed, deadline);
    EXPECT_EQ(trimmed.duration(), instance.baseline_duration());
    expect_valid(instance, trimmed.sequence());
  }
}

TEST(RecomputeRemoval, BringsEveryOpWithinItsLimit) {
  std::mt19937 random(34);
  int trimmed_any = 0;
  for (int round = 0; round < 300; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 5, .most_ops = 25});
    const Instance instance = free_instance(graph, 1 + static_cast<int>(random() % 3));
    const auto sequence = separator_schedule(instance, separator_tree(instance), 1, kComputesWithin64Bits);
    ASSERT_TRUE(sequence.has_value());
    TrimmedSequence trimmed(instance, *sequence);
    if (!is_permitted(instance, trimmed.sequence())) ++trimmed_any;
    remove_beyond_limits(trimmed);
    EXPECT_TRUE(is_permitted(instance, trimmed.sequence()));
    expect_valid(instance, trimmed.sequence());
  }
  EXPECT_GT(trimmed_any, 50);
}

TEST(TwRemat, HoldsBudgetsFarBelowThePeakOfTrainingSteps) {
  // With the lowest share of the peak to try: the separators of a U-Net are large, and so is its largest op.
  std::vector<std::pair<Graph, int>> cases;
  cases.emplace_back(test::generate_chain({.layers = 100}), 20);
  cases.emplace_back(test::generate_unet({.levels = 5}), 80);
  cases.emplace_back(test::generate_transformer({.layers = 4}), 60);
  for (auto& [graph, lowest] : cases) {
    const Instance unlimited = free_instance(shared(std::move(graph)), static_cast<int>(kComputesWithin64Bits));
    Duration last = unlimited.baseline_duration();
    for (int percent = 100; percent >= lowest; percent -= 20) {
      const Schedule schedule = solve_with_twremat(at_share(unlimited, percent));
      ASSERT_TRUE(schedule.has_steps());
      EXPECT_GE(schedule.duration, last);
      EXPECT_EQ(schedule.duration == unlimited.baseline_duration(), percent == 100);
      EXPECT_EQ(schedule.solver.note.rfind("k = ", 0), 0U);
      last = schedule.duration;
    }
  }
}

TEST(TwRemat, NeverBeatsTheOptimumOfTheFreeOrder) {
  std::mt19937 random(35);
  int found = 0;
  int optimal = 0;
  for (int round = 0; round < 300; ++round) {
    const Instance unlimited = free_instance(test::random_graph(random), 1 + static_cast<int>(random() % 3));
    const std::int64_t less = static_cast<std::int64_t>(random() % 5);
    const Instance instance = unlimited.with_budget(std::max(Bytes(0), baseline_peak(unlimited) - Bytes(less)));
    const Schedule schedule = solve_with_twremat(instance);
    const auto truth = test::optimum(instance);
    if (!schedule.has_steps()) {
      EXPECT_NE(schedule.status, Status::optimal);
      if (truth) {
        EXPECT_GT(schedule.solver.reached_peak, instance.budget());
      }
      continue;
    }
    ++found;
    ASSERT_TRUE(truth.has_value());
    EXPECT_GE(schedule.duration, *truth);
    EXPECT_LE(schedule.lower_bound, *truth);
    if (schedule.duration == *truth) ++optimal;
  }
  EXPECT_GT(found, 80);
  EXPECT_GT(optimal, 60);
}

TEST(TwRemat, TellsTheLeastPeakWhereNothingFits) {
  const Instance unlimited = free_instance(shared(test::generate_chain({.layers = 64})), 64);
  // Two values and a gradient must be there at once; this is less than what the best k needs.
  const Schedule schedule = solve_with_twremat(at_share(unlimited, 7));
  ASSERT_EQ(schedule.status, Status::unknown);
  EXPECT_GT(schedule.solver.reached_peak, schedule.budget);
  EXPECT_LT(schedule.solver.reached_peak.count(), baseline_peak(unlimited).count() / 3);
}

TEST(TwRemat, KeepsTheInputOrderWhereThatIsTheProblem) {
  std::mt19937 random(36);
  for (int round = 0; round < 100; ++round) {
    const Instance unlimited(test::random_graph(random), {.max_computes = 3});
    const Instance instance = unlimited.with_budget(std::max(Bytes(0), baseline_peak(unlimited) - Bytes(2)));
    const MethodResult result = run_twremat({instance, {}, Deadline(kNoTimeLimit, nullptr)});
    EXPECT_TRUE(is_permitted(instance, result.sequence));
    EXPECT_NE(result.note.find("input order"), std::string::npos);
    expect_valid(instance, result.sequence);
  }
}

TEST(TwRemat, GivesTheInputOrderWhenTimeIsUp) {
  const Instance instance = at_share(free_instance(shared(test::generate_chain({.layers = 64})), 64), 30);
  const MethodResult result = run_twremat({instance, {}, Deadline(0, nullptr)});
  EXPECT_EQ(result.sequence, input_order(instance));
}

}  // namespace
}  // namespace remora
