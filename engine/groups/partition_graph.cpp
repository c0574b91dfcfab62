// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition_graph.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "model/error.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// A table of rows from (row, value) pairs in any order; each row ends up ascending, without repeats. The pairs are counted into
/// their rows first: sorting all of them would take longer.
Adjacency<int, int> rows_of(const std::vector<std::pair<int, int>>& pairs, int rows) {
  const Adjacency<int, int> unsorted(rows, [&](const auto& put) {
    for (const auto& [row, value] : pairs) {
      ensure(row >= 0 && row < rows, "a node that does not exist");
      put(row, value);
    }
  });
  Adjacency<int, int> table;
  table.reserve(at(rows), pairs.size());
  std::vector<int> values;
  for (int row = 0; row < rows; ++row) {
    values.assign(unsorted[row].begin(), unsorted[row].end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const int value : values) table.push(value);
    table.end_row();
  }
  return table;
}

/// The groups, numbered by their first nodes, as a graph that may have cycles.
class Grouped {
 public:
  Grouped(const PartitionGraph& graph, std::span<const int> group_of) : graph_(graph) {
    Table<int, int> number(graph.node_count(), -1);
    node_of_.reserve(number.size());
    for (const int group : group_of) {
      int& known = number[group];
      if (known < 0) known = count_++;
      node_of_.push_back(known);
    }
    std::vector<std::pair<int, int>> pairs;
    for (int node = 0; node < graph.node_count(); ++node) {
      for (const int next : graph.successors(node)) {
        if (node_of(node) != node_of(next)) pairs.emplace_back(node_of(node), node_of(next));
      }
    }
    const Adjacency<int, int> next_of = rows_of(pairs, count_);
    for (int group = 0; group < count_; ++group) {
      for (const int next : next_of[group]) edges_.push_back({group, next});
    }
  }

  /// False if there is a cycle.
  bool sort_topologically() {
    Table<int, int> waiting(count_, 0);
    for (const PartitionEdge& edge : edges_) ++waiting[edge.to];
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int group = 0; group < count_; ++group) {
      if (waiting[group] == 0) ready.push(group);
    }
    Table<int, int> position(count_, -1);
    int placed = 0;
    while (!ready.empty()) {
      const int group = ready.top();
      ready.pop();
      position[group] = placed++;
      const auto from = std::lower_bound(edges_.begin(), edges_.end(), PartitionEdge{group, 0});
      for (auto edge = from; edge != edges_.end() && edge->from == group; ++edge) {
        if (--waiting[edge->to] == 0) ready.push(edge->to);
      }
    }
    if (placed < count_) return false;
    renumber(position);
    return true;
  }

  Contraction finish() && {
    std::vector<std::int64_t> unit_counts(at(count_), 0);
    for (int node = 0; node < graph_.node_count(); ++node) {
      unit_counts[at(node_of(node))] += graph_.unit_count(node);
    }
    PartitionGraph contracted(std::move(unit_counts), std::move(edges_), values());
    return {std::move(node_of_), std::move(contracted)};
  }

 private:
  [[nodiscard]] int node_of(int node) const { return node_of_[at(node)]; }

  void renumber(const Table<int, int>& position) {
    for (int& group : node_of_) group = position[group];
    for (PartitionEdge& edge : edges_) edge = {position[edge.from], position[edge.to]};
  }

  [[nodiscard]] std::vector<PartitionValue> values() const {
    std::vector<PartitionValue> kept;
    for (int v = 0; v < graph_.value_count(); ++v) {
      const PartitionValue& value = graph_.value(v);
      PartitionValue mapped{.producer = node_of(value.producer), .size = value.size};
      for (const int reader : value.readers) {
        if (node_of(reader) != mapped.producer) mapped.readers.push_back(node_of(reader));
      }
      if (mapped.readers.empty()) continue;
      std::sort(mapped.readers.begin(), mapped.readers.end());
      mapped.readers.erase(std::unique(mapped.readers.begin(), mapped.readers.end()), mapped.readers.end());
      kept.push_back(std::move(mapped));
    }
    return kept;
  }

  const PartitionGraph& graph_;
  std::vector<int> node_of_;
  int count_ = 0;
  std::vector<PartitionEdge> edges_;
};

}  // namespace

PartitionGraph::PartitionGraph(std::vector<std::int64_t> unit_counts, std::vector<PartitionEdge> edges,
                               std::vector<PartitionValue> values)
    : unit_counts_(std::move(unit_counts)), values_(std::move(values)) {
  index_edges(std::move(edges));
  index_values();
}

void PartitionGraph::index_edges(std::vector<PartitionEdge> edges) {
  std::vector<std::pair<int, int>> forward;
  std::vector<std::pair<int, int>> backward;
  forward.reserve(edges.size());
  backward.reserve(edges.size());
  for (const PartitionEdge& edge : edges) {
    ensure(edge.from < edge.to, "nodes are in topological order");
    forward.emplace_back(edge.from, edge.to);
    backward.emplace_back(edge.to, edge.from);
  }
  edges = {};
  successors_ = rows_of(forward, node_count());
  predecessors_ = rows_of(backward, node_count());
}

void PartitionGraph::index_values() {
  std::vector<std::pair<int, int>> pairs;
  std::size_t count = values_.size();
  for (const PartitionValue& value : values_) count += value.readers.size();
  pairs.reserve(count);
  for (int v = 0; v < value_count(); ++v) {
    pairs.emplace_back(value(v).producer, v);
    for (const int reader : value(v).readers) pairs.emplace_back(reader, v);
  }
  values_of_ = rows_of(pairs, node_count());
}

std::optional<Contraction> contract(const PartitionGraph& graph, std::span<const int> group_of) {
  Grouped grouped(graph, group_of);
  if (!grouped.sort_topologically()) return std::nullopt;
  return std::move(grouped).finish();
}

PartitionBlocks::PartitionBlocks(const PartitionGraph& graph)
    : graph_(graph),
      count_(graph.node_count()),
      blocks_(graph.node_count()),
      mark_(blocks_.size(), 0),
      seen_(graph.value_count(), 0) {
  block_of_.reserve(blocks_.size());
  for (int node = 0; node < count_; ++node) {
    Block& block = blocks_[node];
    const auto values = graph.values(node);
    block.nodes = {node};
    block.values.assign(values.begin(), values.end());
    for (const int value : values) block.bytes += graph.value(value).size.count();
    block.units = graph.unit_count(node);
    block_of_.push_back(node);
  }
}

void PartitionBlocks::mark(std::span<const int> blocks) {
  ++round_;
  for (const int block : blocks) mark_[block] = round_;
}

bool PartitionBlocks::crosses(int value) const {
  const PartitionValue& touched = graph_.value(value);
  if (!is_marked(touched.producer)) return true;
  return !std::all_of(touched.readers.begin(), touched.readers.end(), [&](int node) { return is_marked(node); });
}

std::int64_t PartitionBlocks::border_bytes(std::span<const int> blocks) {
  mark(blocks);
  const int largest = *std::max_element(blocks.begin(), blocks.end(), [&](int block, int other) {
    return blocks_[block].values.size() < blocks_[other].values.size();
  });
  const std::vector<int>& counted = blocks_[largest].values;
  std::int64_t bytes = blocks_[largest].bytes;
  for (const int block : blocks) {
    if (block == largest) continue;
    for (const int value : blocks_[block].values) {
      std::int64_t& seen = seen_[value];
      if (seen == round_) continue;
      seen = round_;
      const std::int64_t size = graph_.value(value).size.count();
      if (crosses(value)) bytes += size;
      if (std::binary_search(counted.begin(), counted.end(), value)) bytes -= size;
    }
  }
  return bytes;
}

int PartitionBlocks::merge(std::span<const int> blocks) {
  const std::int64_t bytes = border_bytes(blocks);
  Block merged{.bytes = bytes};
  for (const int block : blocks) {
    const Block& part = blocks_[block];
    merged.nodes.insert(merged.nodes.end(), part.nodes.begin(), part.nodes.end());
    for (const int value : part.values) {
      if (crosses(value)) merged.values.push_back(value);
    }
    merged.units += part.units;
  }
  std::sort(merged.nodes.begin(), merged.nodes.end());
  std::sort(merged.values.begin(), merged.values.end());
  merged.values.erase(std::unique(merged.values.begin(), merged.values.end()), merged.values.end());
  const int number = *std::max_element(blocks.begin(), blocks.end());
  for (const int block : blocks) blocks_[block] = {};
  for (const int node : merged.nodes) block_of_[at(node)] = number;
  blocks_[number] = std::move(merged);
  count_ -= static_cast<int>(blocks.size()) - 1;
  return number;
}

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
    const Node& up = nodes_[parent];
    const Node& far = nodes_[up.jump];
    const bool can_double = up.depth - far.depth == far.depth - nodes_[far.jump].depth;
    nodes_.push_back({.parent = parent, .jump = can_double ? far.jump : parent, .depth = up.depth + 1});
  }

  [[nodiscard]] int common_ancestor(int a, int b) const {
    if (nodes_[a].depth < nodes_[b].depth) std::swap(a, b);
    while (nodes_[a].depth > nodes_[b].depth)
      a = nodes_[nodes_[a].jump].depth >= nodes_[b].depth ? nodes_[a].jump : nodes_[a].parent;
    while (a != b) {
      // Equal depths have jumps to equal depths.
      const bool far = nodes_[a].jump != nodes_[b].jump;
      a = far ? nodes_[a].jump : nodes_[a].parent;
      b = far ? nodes_[b].jump : nodes_[b].parent;
    }
    return a;
  }

 private:
  struct Node {
    int parent = 0;
    int jump = 0;
    int depth = 0;
  };
  Table<int, Node> nodes_;
};

/// What lies between a(x) and x.
class Between {
 public:
  explicit Between(const PartitionGraph& graph) : graph_(graph), seen_(graph.node_count()) {}

  /// Ascending, x included, the dominator not; nothing beyond `most` nodes.
  std::optional<std::vector<int>> find(int x, int dominator, int most) {
    ++round_;
    std::vector<int> found{x};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const int before : graph_.predecessors(found[i])) {
        int& seen = seen_[before];
        if (before == dominator || seen == round_) continue;
        if (found.size() == at(most)) return std::nullopt;
        seen = round_;
        found.push_back(before);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  const PartitionGraph& graph_;
  Table<int, int> seen_;
  int round_ = 0;
};

}  // namespace

std::vector<int> immediate_dominators(const PartitionGraph& graph) {
  const int nodes = graph.node_count();
  // Node v is v + 1 in the tree, under the global source.
  JumpTree tree(at(nodes) + 1);
  std::vector<int> dominators;
  dominators.reserve(at(nodes));
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
  return {std::vector<std::int64_t>(at(graph.node_count()), 1), std::move(edges), {}};
}

std::vector<std::vector<int>> groups_by_all_edges(const PartitionGraph& graph, int most) {
  const std::vector<int> dominators = immediate_dominators(graph);
  std::vector<std::vector<int>> groups;
  const auto add = [&](std::vector<int> nodes) {
    if (nodes.size() >= 2 && nodes.size() <= at(most)) groups.push_back(std::move(nodes));
  };
  Between between(graph);
  for (int x = 0; x < graph.node_count(); ++x) {
    const int head = dominators[at(x)];
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
