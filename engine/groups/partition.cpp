// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// The unit that a backward op would belong to if it read no backward op's tensors; `units` of the ops before it.
int natural_owner(const Instance& instance, OpId op, int forward, const std::vector<int>& unit_of) {
  const OpId of = instance.graph()[op].backward_of;
  if (of.valid() && of < op) return unit_of[at(of)];
  int last = -1;
  for (const TensorId t : instance.inputs(op)) {
    const OpId producer = instance.producer(t);
    if (producer < forward) last = std::max<int>(last, producer);
  }
  return last >= 0 ? last : unit_of.back();
}

int owner(const Instance& instance, OpId op, int forward, const std::vector<int>& unit_of) {
  int unit = natural_owner(instance, op, forward, unit_of);
  const auto not_behind = [&](OpId before) {
    if (before >= forward) unit = std::min(unit, unit_of[at(before)]);
  };
  for (const TensorId t : instance.inputs(op)) not_behind(instance.producer(t));
  for (const OpId before : instance.graph()[op].after) not_behind(before);
  return unit;
}

class GraphBuilder {
 public:
  GraphBuilder(const Instance& instance, const Units& units) : instance_(instance), units_(units) {}

  PartitionGraph run() {
    for (int op = 0; op < instance_.op_count(); ++op) {
      for (const TensorId t : instance_.outputs(OpId(op))) add_tensor(OpId(op), t);
      for (const OpId before : instance_.graph()[OpId(op)].after) add_after(before, OpId(op));
    }
    return {std::vector<std::int64_t>(units_.units.size(), 1), std::move(edges_), std::move(values_)};
  }

 private:
  [[nodiscard]] int unit_of(OpId op) const { return units_.unit_of[at(op)]; }
  [[nodiscard]] bool is_backward(OpId op) const { return at(op) >= units_.units.size(); }

  /// Backward ops read forward tensors of units behind theirs, too: that orders nothing.
  void add_edge(int from, int to) {
    if (from < to) edges_.push_back({from, to});
  }

  void add_tensor(OpId producer, TensorId tensor) {
    const int unit = unit_of(producer);
    std::vector<int> readers;
    for (const OpId user : instance_.users(tensor)) {
      const int reader = unit_of(user);
      if (reader == unit) continue;
      if (is_backward(producer)) {
        add_edge(reader, unit);
      } else {
        add_edge(unit, reader);
        readers.push_back(reader);
      }
    }
    if (readers.empty() || is_pinned(instance_, tensor)) return;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    values_.push_back({.producer = unit, .size = instance_.size(tensor), .readers = std::move(readers)});
  }

  void add_after(OpId before, OpId op) {
    if (!is_backward(op)) add_edge(unit_of(before), unit_of(op));
    if (is_backward(before)) add_edge(unit_of(op), unit_of(before));
  }

  const Instance& instance_;
  const Units& units_;
  std::vector<PartitionEdge> edges_;
  std::vector<PartitionValue> values_;
};

}  // namespace

Units find_units(const Instance& instance) {
  const int forward = forward_part(instance).value_or(instance.op_count());
  Units found;
  found.unit_of.reserve(at(instance.op_count()));
  for (int op = 0; op < forward; ++op) {
    found.units.push_back({.op = OpId(op)});
    found.unit_of.push_back(op);
  }
  for (int op = forward; op < instance.op_count(); ++op) {
    const int unit = owner(instance, OpId(op), forward, found.unit_of);
    found.unit_of.push_back(unit);
    found.units[at(unit)].backward.emplace_back(op);
  }
  return found;
}

PartitionGraph unit_graph(const Instance& instance, const Units& units) {
  return GraphBuilder(instance, units).run();
}

namespace {

void check(const PartitionSettings& settings) {
  if (settings.group_size < 2) throw InputError("", "a group of a partition needs room for at least two nodes");
  if (settings.top_size < 1) throw InputError("", "the top level of a partition needs room for at least one node");
}

[[noreturn]] void refuse(const Partitioner& partitioner, const std::string& why) {
  throw std::logic_error("partitioner " + partitioner.name() + ": " + why);
}

/// Every node in one group, and no group too large.
void check_groups(const Partitioner& partitioner, const std::vector<int>& group_of, int nodes, int group_size) {
  if (group_of.size() != at(nodes)) refuse(partitioner, "not one group for each node");
  std::vector<int> sizes(group_of.size(), 0);
  for (const int group : group_of) {
    if (group < 0 || group >= nodes) refuse(partitioner, "no such group: " + std::to_string(group));
    if (++sizes[at(group)] > group_size) {
      refuse(partitioner, "a group of more than " + std::to_string(group_size) + " nodes");
    }
  }
}

/// The tree while it grows upward.
class Tree {
 public:
  explicit Tree(std::size_t units) : nodes_(units), top_(units) {
    for (std::size_t unit = 0; unit < units; ++unit) top_[unit] = static_cast<int>(unit);
  }

  /// One level: the nodes of the present top go into `count` new ones.
  void group(const std::vector<int>& node_of, int count) {
    ++level_;
    std::vector<std::vector<int>> members(at(count));
    for (std::size_t node = 0; node < node_of.size(); ++node) {
      members[at(node_of[node])].push_back(top_[node]);
    }
    std::vector<int> top;
    top.reserve(members.size());
    for (auto& children : members) top.push_back(children.size() == 1 ? children.front() : wrap(std::move(children)));
    top_ = std::move(top);
  }

  std::vector<PartitionNode> finish() && {
    const bool is_group = top_.size() == 1 && nodes_[at(top_.front())].level > 0;
    ++level_;
    if (!is_group) wrap(std::move(top_));
    return std::move(nodes_);
  }

 private:
  int wrap(std::vector<int> children) {
    const int number = static_cast<int>(nodes_.size());
    for (const int child : children) nodes_[at(child)].parent = number;
    nodes_.push_back({.children = std::move(children), .level = level_});
    return number;
  }

  std::vector<PartitionNode> nodes_;
  /// The node of the tree for each node of the present level's graph.
  std::vector<int> top_;
  int level_ = 0;
};

/// Too little to go on with: a level that takes off less than a third.
bool is_poor(int before, int after) {
  return static_cast<std::int64_t>(after) * 3 > static_cast<std::int64_t>(before) * 2;
}

}  // namespace

std::vector<std::vector<int>> units_below(const Partition& partition) {
  std::vector<std::vector<int>> below(partition.nodes.size());
  for (std::size_t node = 0; node < below.size(); ++node) {
    std::vector<int>& units = below[node];
    if (partition.is_unit(static_cast<int>(node))) units.push_back(static_cast<int>(node));
    for (const int child : partition.nodes[node].children) {
      const auto& more = below[at(child)];
      units.insert(units.end(), more.begin(), more.end());
    }
    std::sort(units.begin(), units.end());
  }
  return below;
}

Partition make_partition(const Instance& instance, const Partitioner& partitioner, const PartitionSettings& settings) {
  check(settings);
  Partition partition{.units = find_units(instance)};
  Tree tree(partition.units.units.size());
  PartitionGraph graph = settings.ends() ? PartitionGraph({}, {}, {}) : unit_graph(instance, partition.units);
  const IntervalPartition intervals;
  bool stalled = false;
  while (graph.node_count() > settings.top_size && !settings.ends()) {
    const Partitioner& chosen = stalled ? intervals : partitioner;
    const int nodes = graph.node_count();
    const std::vector<int> group_of = chosen.group(graph, settings);
    check_groups(chosen, group_of, nodes, settings.group_size);
    auto contraction = contract(graph, group_of);
    if (!contraction) refuse(chosen, "a group that is not convex, or groups that form a cycle");
    const int groups = contraction->graph.node_count();
    ensure(groups < nodes || !stalled, "intervals always join something");
    stalled = is_poor(nodes, groups);
    if (groups == nodes) continue;
    tree.group(contraction->node_of, groups);
    graph = std::move(contraction->graph);
  }
  partition.nodes = std::move(tree).finish();
  return partition;
}

}  // namespace remora
