// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/groups/partition.hpp"
#include "engine/groups/partitioners.hpp"
#include "tests/engine/partition_oracle.hpp"
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
  for (const int layers : {24, 96, 384}) {
    const Partition partition = make_partition(instance_of(transformer_graph(layers)), IntervalPartition());
    EXPECT_LE(forms(partition, 12).size(), 8U) << layers << " layers";
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
  const Instance instance = instance_of(masked);
  const Partition partition = make_partition(instance, IntervalPartition());
  test::expect_partition(instance, partition, {});
  EXPECT_LE(forms(partition, 12).size(), 6U);
  EXPECT_LE(partition.node(partition.root()).level, 2);
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
