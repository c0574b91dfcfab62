// SPDX-License-Identifier: Apache-2.0
#include "engine/hierarchy/partition.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/hierarchy/chain_partition.hpp"
#include "engine/hierarchy/h_partition.hpp"
#include "engine/hierarchy/partition_candidates.hpp"
#include "engine/hierarchy/partition_intervals.hpp"
#include "model/error.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora {
namespace {

Instance instance_of(Graph graph) {
  return {std::make_shared<const Graph>(std::move(graph)), {}};
}

/// Adds an op that reads the ops given and returns its number.
int add_op(Graph& graph, const std::vector<int>& reads, std::int64_t size = 1) {
  Op op{.name = "o" + std::to_string(graph.ops.size()), .duration = Duration(1)};
  for (const int read : reads) op.inputs.push_back(graph.ops[static_cast<std::size_t>(read)].outputs.front());
  op.outputs = {graph.add_tensor("t" + std::to_string(graph.ops.size()), Bytes(size))};
  graph.add_op(std::move(op));
  return static_cast<int>(graph.ops.size()) - 1;
}

PartitionSettings random_settings(std::mt19937& random) {
  return {.group_size = 2 + static_cast<int>(random() % 6),
          .top_size = 1 + static_cast<int>(random() % 8),
          .alpha = static_cast<double>(random() % 3) / 2};
}

const std::vector<std::unique_ptr<Partitioner>>& partitioners() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Partitioner>> made;
    made.push_back(std::make_unique<HPartition>());
    made.push_back(std::make_unique<ChainPartition>());
    made.push_back(std::make_unique<IntervalPartition>());
    return made;
  }();
  return all;
}

/// Adds `after` edges from earlier ops; keeps the graph sound.
std::shared_ptr<const Graph> with_after_edges(const Graph& graph, std::mt19937& random) {
  auto more = std::make_shared<Graph>(graph);
  for (std::size_t op = 1; op < more->ops.size(); ++op) {
    if (random() % 5 != 0) continue;
    const OpId before(static_cast<std::size_t>(random() % op));
    std::vector<OpId>& after = more->ops[op].after;
    if (std::find(after.begin(), after.end(), before) == after.end()) after.push_back(before);
  }
  return more;
}

void check_random(const std::shared_ptr<const Graph>& graph, std::mt19937& random) {
  const Instance instance(graph, {});
  const PartitionSettings settings = random_settings(random);
  const Partitioner& partitioner = *partitioners()[random() % partitioners().size()];
  test::expect_partition(instance, make_partition(instance, partitioner, settings), settings);
}

TEST(Partition, IsConvexAndCompleteOnRandomGraphs) {
  std::mt19937 random(20260801);
  for (int round = 0; round < 5000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20260801, round " + std::to_string(round));
    const auto graph = test::random_graph(random, {.least_ops = 1, .most_ops = 40});
    check_random(with_after_edges(*graph, random), random);
  }
}

TEST(Partition, IsConvexAndCompleteOnRandomTrainingGraphs) {
  std::mt19937 random(20260802);
  for (int round = 0; round < 5000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20260802, round " + std::to_string(round));
    const auto graph = test::random_training_graph(random, 30);
    check_random(round % 2 == 0 ? graph : with_after_edges(*graph, random), random);
  }
}

TEST(Partition, OfNothingIsARootWithoutChildren) {
  const Partition partition = make_partition(instance_of({}), HPartition());
  EXPECT_EQ(partition.unit_count(), 0);
  ASSERT_EQ(partition.root(), 0);
  EXPECT_TRUE(partition.node(0).children.empty());
}

TEST(Partition, OfOneOpIsARootAroundIt) {
  Graph graph;
  add_op(graph, {});
  const Partition partition = make_partition(instance_of(std::move(graph)), HPartition(), {.top_size = 1});
  ASSERT_EQ(partition.root(), 1);
  EXPECT_EQ(partition.node(1).children, std::vector<int>{0});
}

TEST(Partition, OfASmallGraphHasOneLevel) {
  Graph graph;
  for (int i = 0; i < 60; ++i) add_op(graph, i > 0 ? std::vector<int>{i - 1} : std::vector<int>{});
  const Partition partition = make_partition(instance_of(std::move(graph)), HPartition());
  EXPECT_EQ(partition.root(), 60);
  EXPECT_EQ(partition.node(60).children.size(), 60U);
}

TEST(Partition, HandlesGraphsWithoutStructure) {
  Graph fan_out;
  for (int i = 0; i < 500; ++i) add_op(fan_out, i > 0 ? std::vector<int>{0} : std::vector<int>{});
  Graph fan_in;
  std::vector<int> all;
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
    for (const auto& partitioner : partitioners()) {
      SCOPED_TRACE(partitioner->name());
      const PartitionSettings settings{.group_size = 10, .top_size = 20};
      const Partition partition = make_partition(instance, *partitioner, settings);
      test::expect_partition(instance, partition, settings);
      // Without progress there would be a level for each few nodes.
      EXPECT_LE(partition.node(partition.root()).level, 6);
    }
  }
}

/// A training step of transformer layers of a dozen ops, ready in the order of the layers.
Graph transformer(int layers) {
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

TEST(Partition, OfEqualLayersHasFewForms) {
  for (const auto& partitioner : {partitioners()[0].get(), partitioners()[1].get()}) {
    for (const int layers : {24, 96, 384}) {
      SCOPED_TRACE(partitioner->name() + " " + std::to_string(layers));
      const Instance instance = instance_of(transformer(layers));
      const Partition partition = make_partition(instance, *partitioner);
      const auto found = forms(partition, 12);
      std::cout << partitioner->name() << " layers " << layers << ": " << partition.root() - partition.unit_count()
                << " groups, " << found.size() << " forms, levels " << partition.node(partition.root()).level
                << ", top " << partition.node(partition.root()).children.size() << "\n";
      for (const auto& form : found) {
        std::cout << "  ";
        for (std::size_t i = 0; i < form.size() && i < 45; ++i) std::cout << form[i] << " ";
        std::cout << "\n";
      }
      EXPECT_LE(found.size(), 12U);
    }
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
        for (const int before : graph.predecessors(node)) {
          if (std::binary_search(group.begin(), group.end(), before)) continue;
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
  EXPECT_THROW(make_partition(instance, HPartition(), {.group_size = 1}), InputError);
  EXPECT_THROW(make_partition(instance, HPartition(), {.top_size = 0}), InputError);
  EXPECT_THROW(make_partition(instance, HPartition(), {.alpha = -1}), InputError);
}

}  // namespace
}  // namespace remora
