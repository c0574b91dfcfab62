// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/partition_oracle.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace remora::test {
namespace {

using Reachability = std::vector<std::vector<char>>;

/// All ops that must come before `op`, the first time.
std::vector<OpId> before(const Instance& instance, OpId op) {
  std::vector<OpId> ops = instance.graph().ops[static_cast<std::size_t>(op)].after;
  for (const TensorId t : instance.inputs(op)) ops.push_back(instance.producer(t));
  return ops;
}

void expect_tree(const Partition& partition, const PartitionSettings& settings) {
  EXPECT_EQ(partition.node(partition.root()).parent, -1);
  std::vector<int> named(partition.nodes.size(), 0);
  for (int node = 0; node <= partition.root(); ++node) {
    const auto& children = partition.node(node).children;
    EXPECT_EQ(partition.is_unit(node), partition.node(node).level == 0);
    if (partition.is_unit(node)) {
      EXPECT_TRUE(children.empty());
      continue;
    }
    const bool is_root = node == partition.root();
    EXPECT_GE(children.size(), is_root ? 1U : 2U);
    EXPECT_LE(children.size(), static_cast<std::size_t>(is_root ? std::max(settings.top_size, settings.group_size)
                                                                : settings.group_size));
    for (const int child : children) {
      ++named[static_cast<std::size_t>(child)];
      EXPECT_EQ(partition.node(child).parent, node);
      EXPECT_LT(partition.node(child).level, partition.node(node).level);
    }
  }
  for (int node = 0; node < partition.root(); ++node) EXPECT_EQ(named[static_cast<std::size_t>(node)], 1);
}

/// Definition A.1 with units a, b of the group and u outside: never a ~> u and u ~> b.
void expect_convex(const std::vector<int>& group, const Reachability& reach) {
  for (std::size_t u = 0; u < reach.size(); ++u) {
    if (std::binary_search(group.begin(), group.end(), static_cast<int>(u))) continue;
    const auto leads_here = [&](int a) { return reach[static_cast<std::size_t>(a)][u] != 0; };
    const auto leads_back = [&](int b) { return reach[u][static_cast<std::size_t>(b)] != 0; };
    EXPECT_FALSE(std::any_of(group.begin(), group.end(), leads_here) &&
                 std::any_of(group.begin(), group.end(), leads_back))
        << "unit " << u << " lies between units of a group";
  }
}

void append_forward(const Partition& partition, int node, Order& order) {
  if (partition.is_unit(node)) order.push_back(partition.units.units[static_cast<std::size_t>(node)].op);
  for (const int child : partition.node(node).children) append_forward(partition, child, order);
}

void append_backward(const Partition& partition, int node, Order& order) {
  if (partition.is_unit(node)) {
    const auto& backward = partition.units.units[static_cast<std::size_t>(node)].backward;
    order.insert(order.end(), backward.begin(), backward.end());
  }
  const auto& children = partition.node(node).children;
  for (auto child = children.rbegin(); child != children.rend(); ++child) append_backward(partition, *child, order);
}

void expect_order(const Instance& instance, const Partition& partition) {
  Order order;
  append_forward(partition, partition.root(), order);
  append_backward(partition, partition.root(), order);
  ASSERT_EQ(order.size(), static_cast<std::size_t>(instance.op_count()));
  std::vector<int> position(order.size(), -1);
  for (std::size_t at = 0; at < order.size(); ++at)
    position[static_cast<std::size_t>(order[at])] = static_cast<int>(at);
  for (const OpId op : order) {
    for (const OpId earlier : before(instance, op)) {
      EXPECT_LT(position[static_cast<std::size_t>(earlier)], position[static_cast<std::size_t>(op)]);
      EXPECT_GE(position[static_cast<std::size_t>(earlier)], 0);
    }
  }
}

}  // namespace

Instance instance_of(Graph graph) {
  return {std::make_shared<const Graph>(std::move(graph)), {}};
}

int add_op(Graph& graph, const std::vector<int>& reads, std::int64_t size) {
  Op op{.name = "o" + std::to_string(graph.ops.size()), .duration = Duration(1)};
  for (const int read : reads) op.inputs.push_back(graph.ops[static_cast<std::size_t>(read)].outputs.front());
  op.outputs = {graph.add_tensor("t" + std::to_string(graph.ops.size()), Bytes(size))};
  graph.add_op(std::move(op));
  return static_cast<int>(graph.ops.size()) - 1;
}

Reachability unit_reachability(const Instance& instance, const Units& units) {
  const std::size_t count = units.units.size();
  Reachability reach(count, std::vector<char>(count, 0));
  std::vector<std::vector<std::size_t>> next(count);
  const auto add = [&](OpId from, OpId to, bool is_read) {
    const auto a = static_cast<std::size_t>(units.unit_of[static_cast<std::size_t>(from)]);
    const auto b = static_cast<std::size_t>(units.unit_of[static_cast<std::size_t>(to)]);
    const bool from_backward = static_cast<std::size_t>(from) >= count;
    const bool to_backward = static_cast<std::size_t>(to) >= count;
    if (from_backward && b < a) next[b].push_back(a);
    if (!from_backward && a < b && (is_read || !to_backward)) next[a].push_back(b);
  };
  for (int op = 0; op < instance.op_count(); ++op) {
    for (const TensorId t : instance.inputs(OpId(op))) add(instance.producer(t), OpId(op), true);
    for (const OpId earlier : instance.graph().ops[static_cast<std::size_t>(op)].after) add(earlier, OpId(op), false);
  }
  for (std::size_t u = count; u-- > 0;) {
    reach[u][u] = 1;
    for (const std::size_t v : next[u]) {
      for (std::size_t w = 0; w < count; ++w) reach[u][w] = static_cast<char>(reach[u][w] | reach[v][w]);
    }
  }
  return reach;
}

void expect_partition(const Instance& instance, const Partition& partition, const PartitionSettings& settings) {
  expect_tree(partition, settings);
  const Reachability reach = unit_reachability(instance, partition.units);
  for (const auto& group : units_below(partition)) expect_convex(group, reach);
  expect_order(instance, partition);
}

}  // namespace remora::test
