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

std::optional<Contraction> contract(const PartitionGraph& graph, std::span<const int> group_of) {
  Grouped grouped(graph, group_of);
  if (!grouped.sort_topologically()) return std::nullopt;
  return std::move(grouped).finish();
}

}  // namespace remora
