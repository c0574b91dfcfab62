// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/groups/partition.hpp"
#include "engine/groups/partition_graph.hpp"
#include "engine/groups/partitioners.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora {
namespace {

using test::add_op;
using test::instance_of;

/// A training step of transformer layers of a dozen ops, ready in the order of the layers.
Graph transformer_graph(int layers) {
  Graph graph;
  int x = add_op(graph, {}, 4);
  for (int layer = 0; layer < layers; ++layer) {
    const int qkv = add_op(graph, {add_op(graph, {x}, 4)}, 12);
    const int softmax = add_op(graph, {add_op(graph, {qkv}, 16)}, 16);
    const int context = add_op(graph, {softmax, qkv}, 4);
    const int y = add_op(graph, {x, add_op(graph, {context}, 4)}, 4);
    const int gelu = add_op(graph, {add_op(graph, {add_op(graph, {y}, 4)}, 16)}, 16);
    x = add_op(graph, {y, add_op(graph, {gelu}, 4)}, 4);
  }
  int gradient = add_op(graph, {x});
  const auto forward = graph.ops;
  for (Op& op : graph.ops) op.phase = Phase::forward;
  for (auto op = forward.rbegin(); op != forward.rend(); ++op) {
    std::vector<int> reads{gradient};
    for (const TensorId t : op->inputs) reads.push_back(t);
    gradient = add_op(graph, reads, 4);
    graph.ops.back().phase = Phase::backward;
    graph.ops.back().backward_of = OpId(static_cast<std::size_t>(forward.rend() - op - 1));
  }
  return graph;
}

/// The distinct groups, told by the places of their units relative to the first one and by where in its layer that is.
std::set<std::vector<int>> forms(const Partition& partition, int layer) {
  std::set<std::vector<int>> found;
  const auto below = units_below(partition);
  for (int node = partition.unit_count(); node < partition.root(); ++node) {
    std::vector<int> form = below[static_cast<std::size_t>(node)];
    const int shift = (form.front() + layer - 1) / layer * layer - layer;
    for (int& unit : form) unit -= shift;
    found.insert(std::move(form));
  }
  return found;
}

TEST(Partition, OfEqualLayersHasFewFormsHoweverManyTheyAre) {
  const HPartition h_partition;
  const ChainPartition chain_partition;
  for (const Partitioner* partitioner : std::initializer_list<const Partitioner*>{&h_partition, &chain_partition}) {
    for (const int layers : {24, 96, 384}) {
      const Partition partition = make_partition(instance_of(transformer_graph(layers)), *partitioner);
      EXPECT_LE(forms(partition, 12).size(), 6U) << partitioner->name() << ", " << layers << " layers";
    }
  }
}

TEST(Partition, OfLayersThatReadAMaskIsThatOfTheLayers) {
  // The mask is op 1; everything else moves up by one.
  Graph masked = transformer_graph(24);
  const std::size_t units = masked.ops.size() / 2;
  for (Op& op : masked.ops) {
    if (op.backward_of > 0) op.backward_of = OpId(op.backward_of + 1);
  }
  Op mask{.name = "mask", .duration = Duration(1), .recompute = false, .phase = Phase::forward};
  mask.outputs = {masked.add_tensor("mask", Bytes(64))};
  for (std::size_t op = 4; op < units; op += 12) masked.ops[op].inputs.push_back(mask.outputs.front());
  masked.ops.insert(masked.ops.begin() + 1, mask);
  for (const bool by_chain : {false, true}) {
    const HPartition h_partition;
    const ChainPartition chain_partition;
    const Partitioner& partitioner = by_chain ? static_cast<const Partitioner&>(chain_partition) : h_partition;
    const Instance instance = instance_of(masked);
    const Partition partition = make_partition(instance, partitioner);
    test::expect_partition(instance, partition, {});
    EXPECT_LE(forms(partition, 12).size(), 6U) << partitioner.name();
    EXPECT_LE(partition.node(partition.root()).level, 2) << partitioner.name();
  }
}

/// Whether every way from a source to `node` goes through `through`.
bool dominates(const PartitionGraph& graph, int through, int node) {
  std::vector<char> reached(static_cast<std::size_t>(graph.node_count()), 0);
  for (int v = 0; v < graph.node_count(); ++v) {
    const auto before = graph.predecessors(v);
    const auto is_reached = [&](int u) { return reached[static_cast<std::size_t>(u)] != 0; };
    if (v != through && (before.empty() || std::any_of(before.begin(), before.end(), is_reached))) {
      reached[static_cast<std::size_t>(v)] = 1;
    }
  }
  return reached[static_cast<std::size_t>(node)] == 0;
}

TEST(PartitionCandidates, CommonAncestorsAreImmediateDominators) {
  std::mt19937 random(20260803);
  for (int round = 0; round < 500; ++round) {
    const Instance instance(test::random_graph(random, {.most_ops = 25}), {});
    const PartitionGraph graph = unit_graph(instance, find_units(instance));
    const std::vector<int> found = immediate_dominators(graph);
    for (int node = 0; node < graph.node_count(); ++node) {
      int last = -1;
      for (int other = 0; other < node; ++other) {
        if (dominates(graph, other, node)) last = other;
      }
      EXPECT_EQ(found[static_cast<std::size_t>(node)], last) << "seed 20260803, round " << round << ", node " << node;
    }
  }
}

TEST(PartitionCandidates, AreEnteredThroughOneNode) {
  std::mt19937 random(20260804);
  std::size_t seen = 0;
  for (int round = 0; round < 500; ++round) {
    const Instance instance(test::random_training_graph(random, 25), {});
    const PartitionGraph graph = unit_graph(instance, find_units(instance));
    for (const std::vector<int>& group : candidate_groups(graph, 8)) {
      ++seen;
      EXPECT_TRUE(group.size() >= 2 && group.size() <= 8);
      // Either the first node is the head, or all come from one node outside.
      std::set<int> outside;
      std::set<int> entered;
      for (const int node : group) {
        EXPECT_FALSE(graph.is_constant(node));
        for (const int before : graph.predecessors(node)) {
          if (graph.is_constant(before) || std::binary_search(group.begin(), group.end(), before)) continue;
          outside.insert(before);
          entered.insert(node);
        }
      }
      EXPECT_TRUE(outside.size() <= 1 || (entered.size() == 1 && *entered.begin() == group.front()))
          << "seed 20260804, round " << round;
    }
  }
  EXPECT_GT(seen, 1000U);
}

TEST(PartitionCandidates, OfADiamond) {
  Graph graph;
  for (const auto& reads : std::vector<std::vector<int>>{{}, {0}, {1}, {0}, {2, 3}}) add_op(graph, reads);
  const Instance instance = instance_of(std::move(graph));
  const auto groups = candidate_groups(unit_graph(instance, find_units(instance)), 4);
  const std::set<std::vector<int>> found(groups.begin(), groups.end());
  EXPECT_EQ(found, (std::set<std::vector<int>>{{0, 1}, {1, 2}, {0, 3}, {1, 2, 3}, {0, 1, 2, 3}, {1, 2, 3, 4}}));
}

TEST(HPartition, CutsWhereLeastMemoryCrosses) {
  // A chain whose odd tensors are large.
  Graph graph;
  for (int i = 0; i < 8; ++i) add_op(graph, i > 0 ? std::vector<int>{i - 1} : std::vector<int>{}, i % 2 == 0 ? 9 : 1);
  const Partition partition =
      make_partition(instance_of(std::move(graph)), HPartition(), {.group_size = 2, .top_size = 4});
  std::vector<std::vector<int>> groups;
  for (const int child : partition.node(partition.root()).children) groups.push_back(partition.node(child).children);
  EXPECT_EQ(groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(ChainPartition, GroupsWhatLiesBetweenSeparators) {
  Graph graph;
  for (const auto& reads : std::vector<std::vector<int>>{{}, {0}, {0}, {1, 2}, {3}, {3}, {4, 5}, {6}, {7}}) {
    add_op(graph, reads);
  }
  const Instance instance = instance_of(std::move(graph));
  const auto groups =
      ChainPartition().group(unit_graph(instance, find_units(instance)), {.group_size = 3, .top_size = 4});
  EXPECT_EQ(groups, (std::vector<int>{0, 1, 1, 1, 4, 4, 4, 7, 7}));
}

TEST(Units, TakeTheBackwardOpsThatBelongToThem) {
  const Instance instance(test::late_weight_gradient(), {});
  const Units units = find_units(instance);
  ASSERT_EQ(units.units.size(), 3U);
  EXPECT_EQ(units.units[2].backward, (std::vector<OpId>{OpId(3), OpId(6)}));
  EXPECT_EQ(units.unit_of, (std::vector<int>{0, 1, 2, 2, 1, 0, 2}));
}

TEST(Units, NeverFeedLaterUnitsOnTheWayBack) {
  // A gradient of the first op that somebody calls one of the last's.
  Graph graph = *test::late_weight_gradient();
  graph.ops[5].backward_of = OpId(2);
  const Units units = find_units(instance_of(std::move(graph)));
  EXPECT_EQ(units.unit_of[5], 1);
}

}  // namespace
}  // namespace remora
