// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition_candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace remora {
namespace {

/// A tree that grows by leaves, with a second link from each node far up (Myers' skew-binary jumps), so that common
/// ancestors take O(log depth) however deep it is. Node 0 is the root.
class JumpTree {
 public:
  explicit JumpTree(std::size_t nodes) {
    nodes_.reserve(nodes);
    nodes_.push_back({});
  }

  void add_leaf(int parent) {
    const Node& up = at(parent);
    const Node& far = at(up.jump);
    const bool can_double = up.depth - far.depth == far.depth - at(far.jump).depth;
    nodes_.push_back({.parent = parent, .jump = can_double ? far.jump : parent, .depth = up.depth + 1});
  }

  [[nodiscard]] int common_ancestor(int a, int b) const {
    if (at(a).depth < at(b).depth) std::swap(a, b);
    while (at(a).depth > at(b).depth) a = at(at(a).jump).depth >= at(b).depth ? at(a).jump : at(a).parent;
    while (a != b) {
      // Equal depths have jumps to equal depths.
      const bool far = at(a).jump != at(b).jump;
      a = far ? at(a).jump : at(a).parent;
      b = far ? at(b).jump : at(b).parent;
    }
    return a;
  }

 private:
  struct Node {
    int parent = 0;
    int jump = 0;
    int depth = 0;
  };
  [[nodiscard]] const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }

  std::vector<Node> nodes_;
};

/// What lies between a(x) and x.
class Between {
 public:
  explicit Between(const PartitionGraph& graph) : graph_(graph), seen_(static_cast<std::size_t>(graph.node_count())) {}

  /// Ascending, x included, the dominator not; nothing beyond `most` nodes.
  std::optional<std::vector<int>> find(int x, int dominator, int most) {
    ++round_;
    std::vector<int> found{x};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const int before : graph_.predecessors(found[i])) {
        int& seen = seen_[static_cast<std::size_t>(before)];
        if (before == dominator || seen == round_) continue;
        if (found.size() == static_cast<std::size_t>(most)) return std::nullopt;
        seen = round_;
        found.push_back(before);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  const PartitionGraph& graph_;
  std::vector<int> seen_;
  int round_ = 0;
};

}  // namespace

std::vector<int> immediate_dominators(const PartitionGraph& graph) {
  const int nodes = graph.node_count();
  // Node v is v + 1 in the tree, under the global source.
  JumpTree tree(static_cast<std::size_t>(nodes) + 1);
  std::vector<int> dominators;
  dominators.reserve(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    const auto before = graph.predecessors(node);
    int common = before.empty() ? 0 : before.front() + 1;
    for (const int other : before) common = tree.common_ancestor(common, other + 1);
    tree.add_leaf(common);
    dominators.push_back(common - 1);
  }
  return dominators;
}

namespace {

/// The same nodes, constants without edges; no values.
PartitionGraph without_constants(const PartitionGraph& graph) {
  std::vector<PartitionEdge> edges;
  for (int node = 0; node < graph.node_count(); ++node) {
    if (graph.is_constant(node)) continue;
    for (const int next : graph.successors(node)) edges.push_back({node, next});
  }
  return {std::vector<std::int64_t>(static_cast<std::size_t>(graph.node_count()), 1), std::move(edges), {}};
}

std::vector<std::vector<int>> groups_by_all_edges(const PartitionGraph& graph, int most) {
  const std::vector<int> dominators = immediate_dominators(graph);
  std::vector<std::vector<int>> groups;
  const auto add = [&](std::vector<int> nodes) {
    if (nodes.size() >= 2 && nodes.size() <= static_cast<std::size_t>(most)) groups.push_back(std::move(nodes));
  };
  Between between(graph);
  for (int x = 0; x < graph.node_count(); ++x) {
    const int head = dominators[static_cast<std::size_t>(x)];
    const auto found = between.find(x, head, most + 1);
    if (!found) continue;
    // x comes last: all others lead to it.
    const std::vector<int> inner(found->begin(), found->end() - 1);
    add(*found);
    add(inner);
    if (head < 0) continue;
    for (const auto& tail : {*found, inner}) {
      std::vector<int> with_head{head};
      with_head.insert(with_head.end(), tail.begin(), tail.end());
      add(std::move(with_head));
    }
  }
  return groups;
}

}  // namespace

std::vector<std::vector<int>> candidate_groups(const PartitionGraph& graph, int most) {
  bool has_constants = false;
  for (int node = 0; node < graph.node_count(); ++node) has_constants = has_constants || graph.is_constant(node);
  return has_constants ? groups_by_all_edges(without_constants(graph), most) : groups_by_all_edges(graph, most);
}

}  // namespace remora
