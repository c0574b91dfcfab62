// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/groups/partitioners.hpp"
#include "model/error.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora {
namespace {

using test::add_op;
using test::instance_of;

PartitionSettings random_settings(std::mt19937& random) {
  return {.group_size = 2 + static_cast<int>(random() % 6), .top_size = 1 + static_cast<int>(random() % 8)};
}

/// Intervals, or groups of no order.
Partition random_groups(const Instance& instance, const PartitionSettings& settings, std::uint32_t seed) {
  if (seed % 2 == 0) return make_partition(instance, IntervalPartition(), settings);
  return make_partition(instance, test::RandomPartitioner(seed), settings);
}

void check_random(const std::shared_ptr<const Graph>& graph, std::mt19937& random) {
  const Instance instance(graph, {});
  const PartitionSettings settings = random_settings(random);
  const auto seed = static_cast<std::uint32_t>(random());
  test::expect_partition(instance, random_groups(instance, settings, seed), settings);
}

TEST(Partition, IsConvexAndCompleteOnRandomGraphs) {
  std::mt19937 random(20260801);
  for (int round = 0; round < test::fewer(5000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20260801, round " + std::to_string(round));
    const auto graph = test::random_graph(random, {.least_ops = 1, .most_ops = 40});
    check_random(test::with_after_edges(*graph, random), random);
  }
}

TEST(Partition, InterruptedAtAnyQuestionItIsConvexAndComplete) {
  std::mt19937 random(20260804);
  int shallower = 0;
  for (int round = 0; round < test::fewer(500) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20260804, round " + std::to_string(round));
    const Instance instance(test::random_graph(random, {.least_ops = 20, .most_ops = 40}), {});
    PartitionSettings settings = random_settings(random);
    const auto seed = static_cast<std::uint32_t>(random());
    const Partition whole = random_groups(instance, settings, seed);
    int left = static_cast<int>(random() % 8);
    settings.interrupted = [&left] { return left-- <= 0; };
    const Partition cut = random_groups(instance, settings, seed);
    // The root may hold more than a group of the usual size.
    settings.top_size = std::max(settings.top_size, instance.op_count());
    test::expect_partition(instance, cut, settings);
    if (cut.nodes.size() < whole.nodes.size()) ++shallower;
  }
  EXPECT_GT(shallower, test::fewer(100));
}

TEST(Partition, IsConvexAndCompleteOnRandomTrainingGraphs) {
  std::mt19937 random(20260802);
  for (int round = 0; round < test::fewer(5000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20260802, round " + std::to_string(round));
    const auto graph = test::random_training_graph(random, 30);
    check_random(round % 2 == 0 ? graph : test::with_after_edges(*graph, random), random);
  }
}

TEST(Partition, OfNothingIsARootWithoutChildren) {
  const Partition partition = make_partition(instance_of({}), IntervalPartition());
  EXPECT_EQ(partition.unit_count(), 0);
  ASSERT_EQ(partition.root(), 0);
  EXPECT_TRUE(partition.node(0).children.empty());
}

TEST(Partition, OfOneOpIsARootAroundIt) {
  Graph graph;
  add_op(graph, {});
  const Partition partition = make_partition(instance_of(std::move(graph)), IntervalPartition(), {.top_size = 1});
  ASSERT_EQ(partition.root(), 1);
  EXPECT_EQ(partition.node(1).children, std::vector<int>{0});
}

TEST(Partition, OfASmallGraphHasOneLevel) {
  Graph graph;
  for (int i = 0; i < 60; ++i) add_op(graph, i > 0 ? std::vector<int>{i - 1} : std::vector<int>{});
  const Partition partition = make_partition(instance_of(std::move(graph)), IntervalPartition());
  EXPECT_EQ(partition.root(), 60);
  EXPECT_EQ(partition.node(60).children.size(), 60U);
}

TEST(Partition, HandlesGraphsWithoutStructure) {
  Graph fan_out;
  for (int i = 0; i < 500; ++i) add_op(fan_out, i > 0 ? std::vector<int>{0} : std::vector<int>{});
  Graph fan_in;
  std::vector<int> all;
  all.reserve(500);
  for (int i = 0; i < 500; ++i) all.push_back(add_op(fan_in, {}));
  add_op(fan_in, all);
  Graph bipartite;
  for (int i = 0; i < 200; ++i) {
    std::vector<int> layer;
    for (int j = i / 20 * 20 - 20; j >= 0 && j < i / 20 * 20; ++j) layer.push_back(j);
    add_op(bipartite, layer, i % 7);
  }
  Graph apart;
  for (int i = 0; i < 300; ++i) add_op(apart, i >= 3 && i % 50 > 3 ? std::vector<int>{i - 3} : std::vector<int>{});
  for (const Graph* graph : {&fan_out, &fan_in, &bipartite, &apart}) {
    const Instance instance = instance_of(*graph);
    for (const std::uint32_t seed : {0U, 1U}) {
      const PartitionSettings settings{.group_size = 10, .top_size = 20};
      const Partition partition = random_groups(instance, settings, seed);
      test::expect_partition(instance, partition, settings);
      // Without progress there would be a level for each few nodes.
      EXPECT_LE(partition.node(partition.root()).level, 6);
    }
  }
}

class Custom : public Partitioner {
 public:
  explicit Custom(std::vector<int> pattern) : pattern_(std::move(pattern)) {}
  [[nodiscard]] std::string name() const override { return "custom"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings&) const override {
    std::vector<int> group_of = pattern_;
    if (static_cast<int>(pattern_.size()) > graph.node_count()) group_of.assign(pattern_.size() - 2, 0);
    return group_of;
  }

 private:
  std::vector<int> pattern_;
};

Partition partition_by(const std::vector<int>& pattern) {
  Graph graph;
  for (const auto& reads : std::vector<std::vector<int>>{{}, {0}, {0}, {1}, {2}}) add_op(graph, reads);
  return make_partition(instance_of(std::move(graph)), Custom(pattern), {.group_size = 3, .top_size = 3});
}

TEST(Partition, AsACustomPartitionerWants) {
  const Partition partition = partition_by({0, 1, 2, 1, 2});
  EXPECT_EQ(partition.node(5).children, (std::vector<int>{1, 3}));
  EXPECT_EQ(partition.node(6).children, (std::vector<int>{2, 4}));
  EXPECT_EQ(partition.node(7).children, (std::vector<int>{0, 5, 6}));
}

TEST(Partition, RefusesAFaultyPartitioner) {
  // Not convex; a cycle of convex groups; too large; not all nodes; no such group.
  for (const auto& pattern :
       std::vector<std::vector<int>>{{0, 1, 2, 0, 3}, {0, 1, 1, 1, 1}, {0, 1, 2}, {0, 1, 2, 3, 5}, {0, 1, 2, -1, 4}}) {
    try {
      partition_by(pattern);
      ADD_FAILURE() << "accepted";
    } catch (const std::logic_error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("partitioner custom: ", 0), 0U) << error.what();
    }
  }
}

TEST(Partition, RefusesConvexGroupsThatFormACycle) {
  Graph graph;
  for (const auto& reads : std::vector<std::vector<int>>{{}, {}, {0}, {1}}) add_op(graph, reads);
  const Instance instance = instance_of(std::move(graph));
  // 0 -> 2 leads from group 0 to 1, 1 -> 3 from 1 to 0.
  EXPECT_THROW(make_partition(instance, Custom({0, 1, 1, 0}), {.group_size = 2, .top_size = 3}), std::logic_error);
}

TEST(Partition, RefusesSettingsOutOfRange) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(make_partition(instance, IntervalPartition(), {.group_size = 1}), InputError);
  EXPECT_THROW(make_partition(instance, IntervalPartition(), {.top_size = 0}), InputError);
}

}  // namespace
}  // namespace remora
