// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/groups/partitioners.hpp"
#include "model/ensure.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

void check(const PartitionSettings& settings) {
  if (settings.group_size < 2) throw InputError("", "a group of a partition needs room for at least two nodes");
  if (settings.top_size < 1) throw InputError("", "the top level of a partition needs room for at least one node");
  if (!(settings.alpha >= 0)) throw InputError("", "the exponent of a partition's score must not be negative");
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
  PartitionGraph graph = unit_graph(instance, partition.units);
  Tree tree(partition.units.units.size());
  const IntervalPartition intervals;
  bool stalled = false;
  while (graph.node_count() > settings.top_size) {
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
