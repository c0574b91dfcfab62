// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

SolveOptions small_groups(std::int64_t work) {
  SolveOptions options;
  options.groups = GroupStart::on;
  options.work_limit = work;
  options.time_limit = kNoTimeLimit;
  options.threads = 1;
  options.group_size = 3;
  options.top_size = 2;
  return options;
}

struct Stitched {
  Solution solution{};
  /// Of the groups.
  Statistics statistics{};
};

double value_of(const Stitched& result, const std::string& name) {
  for (const Statistic& statistic : result.statistics) {
    if (statistic.name == name) return statistic.value;
  }
  ADD_FAILURE() << "no statistic " << name;
  return 0;
}

/// What schedules of groups compose to, without the search behind it.
Stitched stitched(const Instance& instance, const SolveOptions& options, const Partitioner& partitioner) {
  const Deadline deadline(options.time_limit, nullptr);
  const Groups groups = find_groups(instance, options, deadline, partitioner);
  EXPECT_TRUE(groups.complete);
  Stitched result{compose_groups(groups, instance, options, deadline).solution, groups.statistics};
  const Evaluation evaluation = evaluate(instance, sequence_of(instance, result.solution.plan()));
  EXPECT_EQ(evaluation.peak, result.solution.peak);
  EXPECT_EQ(evaluation.duration, instance.baseline_duration() + result.solution.extra);
  return result;
}

/// The whole solve, its schedule verified.
Schedule solved(const Instance& instance, const SolveOptions& options) {
  Schedule schedule = solve(instance, options);
  if (!schedule.has_steps()) return schedule;
  const Verdict verdict = verify(instance.graph(), schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  return schedule;
}

/// With a budget between what the input order needs and half of it.
Instance tight(const std::shared_ptr<const Graph>& graph, std::mt19937& random) {
  const Instance unlimited(graph, {});
  const std::int64_t most = baseline_peak(unlimited).count();
  return unlimited.with_budget(Bytes(most - static_cast<std::int64_t>(random() % static_cast<unsigned>(most / 2 + 1))));
}

struct WholeTally {
  /// Instances that have a schedule, but not without recomputes.
  int instances = 0;
  int stitched_optimal = 0;
  int solved_optimal = 0;
};

/// Chains of blocks, each block a group. The optimum comes from brute force for up to 8 ops, else from the flat search.
WholeTally compare(unsigned seed, int rounds, int blocks, int ops) {
  std::mt19937 random(seed);
  WholeTally tally;
  SolveOptions options = small_groups(20'000);
  options.group_size = ops;
  options.top_size = blocks;
  SolveOptions flat = options;
  flat.groups = GroupStart::automatic;
  flat.workers = Workers::complete;
  flat.work_limit = 0;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const Instance instance = tight(test::blocks_in_a_chain(random, blocks, ops), random);
    std::optional<Duration> optimum;
    if (instance.op_count() <= 8) {
      optimum = test::optimum(instance);
    } else if (const Schedule best = solved(instance, flat); best.has_schedule()) {
      EXPECT_EQ(best.status, Status::optimal);
      optimum = best.duration;
    }
    const Solution composed = stitched(instance, options, test::EqualPartitioner(ops)).solution;
    if (!optimum) {
      EXPECT_GT(composed.peak, instance.budget()) << "a schedule within the budget where there is none";
      continue;
    }
    if (*optimum == instance.baseline_duration()) continue;
    ++tally.instances;
    const Duration duration = instance.baseline_duration() + composed.extra;
    EXPECT_TRUE(composed.peak > instance.budget() || duration >= *optimum);
    tally.stitched_optimal += composed.peak <= instance.budget() && duration == *optimum ? 1 : 0;
    const Schedule polished = solved(instance, options);
    tally.solved_optimal += polished.has_schedule() && polished.duration == *optimum ? 1 : 0;
  }
  testing::Test::RecordProperty("instances", tally.instances);
  testing::Test::RecordProperty("stitched_optimal", tally.stitched_optimal);
  testing::Test::RecordProperty("solved_optimal", tally.solved_optimal);
  return tally;
}

// What a composition misses here, with blocks of two or three ops, is mostly a schedule that it can't say: one that
// makes but the last tensor of a block again, between backward ops of the next. A forward half runs again whole, and
// what a backward half makes again nobody else reads. The search behind it finds these.
TEST(Hierarchical, IsNeverBetterThanTheOptimumAndMostlyReachesItOfTwoBlocks) {
  const WholeTally tally = compare(20261161, 60, 2, 2);
  EXPECT_GE(tally.instances, 10);
  EXPECT_GE(tally.stitched_optimal, tally.instances / 2);
  EXPECT_EQ(tally.solved_optimal, tally.instances);
}

TEST(Hierarchical, IsNeverBetterThanTheOptimumAndOftenReachesItOfThreeBlocks) {
  const WholeTally tally = compare(20261163, 30, 3, 2);
  EXPECT_GE(tally.instances, 10);
  EXPECT_GE(tally.stitched_optimal, tally.instances * 4 / 10);
  EXPECT_EQ(tally.solved_optimal, tally.instances);
}

TEST(Hierarchical, IsNeverBetterThanTheOptimumAndOftenReachesItOfLargerBlocks) {
  const WholeTally tally = compare(20261162, 25, 2, 3);
  EXPECT_GE(tally.instances, 10);
  EXPECT_GE(tally.stitched_optimal, tally.instances * 4 / 10);
  EXPECT_EQ(tally.solved_optimal, tally.instances);
}

// Disabled, for it fails: the row of group 0 takes the option that makes f1 again (37 units of time; saves x0 and lets
// go of x1: 5 bytes held) for better than the one that makes f0 again (37, saves nothing and reads x1: 7 bytes held).
// But the next group's backward half reads x1, too: within 26 bytes only the second fits, the optimum of 62 needs it.
TEST(Hierarchical, FindsOptionsThatReadWhatIsThereAnyway) {
  Graph graph;
  const auto add = [&](const char* name, std::int64_t duration, const std::vector<std::int32_t>& reads,
                       std::int64_t size) {
    Op op{.name = name, .duration = Duration(duration), .phase = *name == 'f' ? Phase::forward : Phase::backward};
    for (const std::int32_t read : reads) op.inputs.emplace_back(read);
    op.outputs = {graph.add_tensor("of " + op.name, Bytes(size), op.name == "b0")};
    graph.add_op(std::move(op));
  };
  add("f0", 8, {}, 5);
  add("f1", 8, {0}, 7);
  add("f2", 9, {1}, 5);
  add("f3", 4, {2}, 2);
  add("b3", 4, {2, 3}, 8);
  add("b2", 8, {4, 1, 2}, 2);
  add("b1", 4, {5, 0, 1}, 3);
  add("b0", 9, {6, 0}, 8);
  for (int op = 4; op < 8; ++op) graph.ops[static_cast<std::size_t>(op)].backward_of = OpId(7 - op);
  const Instance instance = test::instance_of(graph).with_budget(Bytes(26));
  ASSERT_EQ(test::optimum(instance), Duration(62));
  SolveOptions options = small_groups(20'000);
  options.group_size = 2;
  const Solution found = stitched(instance, options, test::EqualPartitioner(2)).solution;
  EXPECT_EQ(instance.baseline_duration() + found.extra, Duration(62));
}

TEST(Hierarchical, TakesAnyGraphAndAnyGroups) {
  std::mt19937 random(20261165);
  for (int round = 0; round < 30 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261165, round " + std::to_string(round));
    const Instance instance = tight(test::random_network(random, 24), random);
    stitched(instance, small_groups(5'000), test::RandomPartitioner(static_cast<std::uint32_t>(random())));
    solved(instance, small_groups(5'000));
  }
}

TEST(Hierarchical, SolvesSmallGraphsOfAnyKind) {
  std::mt19937 random(20261166);
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261166, round " + std::to_string(round));
    const Instance instance = tight(test::random_graph(random, {.least_ops = 1, .most_ops = 6}), random);
    const Schedule schedule = solved(instance, small_groups(20'000));
    const auto optimum = test::optimum(instance);
    EXPECT_EQ(schedule.has_schedule(), optimum.has_value());
    EXPECT_TRUE(!optimum || schedule.duration == *optimum);
  }
}

TEST(Hierarchical, OfNothingAndOfOneOp) {
  const Instance nothing = test::instance_of({});
  EXPECT_TRUE(stitched(nothing, small_groups(1000), IntervalPartition()).solution.plan().empty());
  EXPECT_EQ(solved(nothing, small_groups(1000)).status, Status::optimal);
  Graph graph;
  test::add_op(graph, {});
  const Instance one = test::instance_of(graph);
  EXPECT_TRUE(stitched(one, small_groups(1000), IntervalPartition()).solution.plan().empty());
  EXPECT_EQ(solved(one, small_groups(1000)).duration, Duration(1));
}

/// Layers of ops that each read two of the layer before, and such that read all of it.
std::vector<std::shared_ptr<const Graph>> graphs_without_structure(std::mt19937& random) {
  Graph layered;
  for (int op = 0; op < 120; ++op) {
    std::vector<int> reads;
    for (int i = 0; op >= 10 && i < 2; ++i) reads.push_back(op / 10 * 10 - 10 + static_cast<int>(random() % 10));
    test::add_op(layered, reads, static_cast<std::int64_t>(1 + random() % 9));
  }
  Graph bipartite;
  for (int op = 0; op < 40; ++op) {
    std::vector<int> reads;
    for (int before = op / 10 * 10 - 10; before >= 0 && before < op / 10 * 10; ++before) reads.push_back(before);
    test::add_op(bipartite, reads, static_cast<std::int64_t>(1 + random() % 9));
  }
  return {std::make_shared<const Graph>(layered), std::make_shared<const Graph>(bipartite)};
}

TEST(Hierarchical, TakesGraphsWithoutStructure) {
  std::mt19937 random(20261167);
  for (const auto& graph : graphs_without_structure(random)) {
    const Instance unlimited(graph, {});
    const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 9 / 10));
    SolveOptions options = small_groups(50'000);
    options.group_size = 12;
    options.top_size = 8;
    const Stitched result = stitched(instance, options, IntervalPartition());
    EXPECT_GE(value_of(result, "groups"), 3);
    solved(instance, options);
  }
}

TEST(Hierarchical, TakesACustomPartitioner) {
  const Instance instance(std::make_shared<const Graph>(test::generate_transformer({.layers = 2})), {});
  const int units = static_cast<int>(find_units(instance).units.size());
  SolveOptions options = small_groups(5'000);
  options.group_size = 5;
  options.top_size = (units + 4) / 5;
  const Stitched result = stitched(instance, options, test::EqualPartitioner(5));
  EXPECT_EQ(value_of(result, "groups"), units / 5 + (units % 5 > 1 ? 1 : 0));
  EXPECT_EQ(value_of(result, "levels"), 2);
}

std::vector<Instance> instances_to_repeat() {
  std::mt19937 random(20261168);
  std::vector<Instance> result;
  result.reserve(3);
  for (int i = 0; i < 2; ++i) result.push_back(tight(test::blocks_in_a_chain(random, 4, 4), random));
  const Instance transformer(std::make_shared<const Graph>(test::generate_transformer({.layers = 2})), {});
  result.push_back(transformer.with_budget(Bytes(baseline_peak(transformer).count() * 6 / 10)));
  return result;
}

TEST(Hierarchical, GroupsAreAskedToEndBeforeEachPieceOfWorkAndThenDoNoMore) {
  const Instance instance(std::make_shared<const Graph>(test::generate_transformer({.layers = 3})), {});
  SolveOptions options = small_groups(1'000);
  options.group_size = 5;
  const Deadline deadline(options.time_limit, nullptr);
  int asked = 0;
  int end = 0;
  const auto run = [&](int at_ask) {
    asked = 0;
    end = at_ask;
    return find_groups(instance, options, deadline, IntervalPartition(), nullptr, [&] { return ++asked == end; });
  };
  const Groups whole = run(-1);
  EXPECT_TRUE(whole.complete);
  const int all = asked;
  const auto blocks = static_cast<int>(whole.hierarchy.blocks.size());
  const auto classes = static_cast<int>(whole.hierarchy.schedules.size());
  ASSERT_GT(blocks, 10);
  // Each block is made and classified; each class becomes a problem in three steps, has rows, and keeps what they found.
  EXPECT_GE(all, 2 * blocks + 5 * (classes - 1));
  for (int at_ask = 1; at_ask <= all; at_ask += std::max(1, all / 20)) {
    EXPECT_FALSE(run(at_ask).complete) << at_ask;
    EXPECT_EQ(asked, at_ask);
  }
}

TEST(Hierarchical, IsTheSameForAnyNumberOfThreads) {
  for (const Instance& instance : instances_to_repeat()) {
    SolveOptions options = small_groups(8'000);
    options.group_size = 6;
    options.top_size = 4;
    options.grid_levels = 4;
    const Schedule once = solved(instance, options);
    const Stitched start = stitched(instance, options, IntervalPartition());
    for (const int threads : {2, 4}) {
      options.threads = threads;
      const Schedule again = solved(instance, options);
      EXPECT_EQ(once.steps, again.steps) << threads << " threads";
      EXPECT_EQ(once.status, again.status);
      EXPECT_EQ(start.solution.plan(), stitched(instance, options, IntervalPartition()).solution.plan())
          << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace remora
