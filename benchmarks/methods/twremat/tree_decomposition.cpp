// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/twremat/tree_decomposition.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <queue>

#include "model/table.hpp"

namespace remora {
namespace {

/// Union-find over the bags.
class Merged {
 public:
  explicit Merged(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }

  int find(int bag) {
    int& parent = parent_[at(bag)];
    while (parent_[at(parent)] != parent) parent = parent_[at(parent)];
    return parent;
  }
  void merge(int lost, int kept) { parent_[at(lost)] = kept; }

 private:
  std::vector<int> parent_;
};

bool holds(const std::vector<int>& bag, const std::vector<int>& part) {
  return std::includes(bag.begin(), bag.end(), part.begin(), part.end());
}

}  // namespace

Neighbours mutual(std::vector<std::vector<int>> lists) {
  std::vector<std::pair<int, int>> edges;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const int j : lists[i]) {
      if (j != static_cast<int>(i)) edges.emplace_back(static_cast<int>(i), j);
    }
  }
  for (auto& list : lists) list.clear();
  for (const auto& [i, j] : edges) {
    lists[at(i)].push_back(j);
    lists[at(j)].push_back(i);
  }
  for (auto& list : lists) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return lists;
}

int TreeDecomposition::width() const {
  std::size_t largest = 0;
  for (const auto& bag : bags) largest = std::max(largest, bag.size());
  return static_cast<int>(largest) - 1;
}

TreeDecomposition shrunk(TreeDecomposition decomposition) {
  auto& bags = decomposition.bags;
  Merged merged(bags.size());
  std::vector<std::pair<int, int>> edges;
  // One pass is enough: what cannot be merged now never can (lemma 1).
  for (const auto& [i, j] : decomposition.edges) {
    const int a = merged.find(i);
    const int b = merged.find(j);
    if (holds(bags[at(a)], bags[at(b)])) {
      merged.merge(b, a);
    } else if (holds(bags[at(b)], bags[at(a)])) {
      merged.merge(a, b);
    } else {
      edges.emplace_back(i, j);
    }
  }
  TreeDecomposition result;
  std::vector<int> number(bags.size(), -1);
  for (std::size_t i = 0; i < bags.size(); ++i) {
    if (merged.find(static_cast<int>(i)) != static_cast<int>(i)) continue;
    number[i] = static_cast<int>(result.bags.size());
    result.bags.push_back(std::move(bags[i]));
  }
  const auto number_of = [&](int bag) { return number[at(merged.find(bag))]; };
  for (const auto& [i, j] : edges) result.edges.emplace_back(number_of(i), number_of(j));
  return result;
}

namespace {

/// Calls `visit` for each value of both sorted lists; O(shorter * log longer).
template <class Visit>
int visit_common(const std::vector<int>& a, const std::vector<int>& b, Visit visit) {
  const auto& shorter = a.size() < b.size() ? a : b;
  const auto& longer = a.size() < b.size() ? b : a;
  int count = 0;
  for (const int value : shorter) {
    if (!std::binary_search(longer.begin(), longer.end(), value)) continue;
    ++count;
    visit(value);
  }
  return count;
}

/// The graph under elimination, with the fill of every node: how many pairs of its neighbours are not joined.
class FillGraph {
 public:
  explicit FillGraph(Neighbours neighbours)
      : neighbours_(std::move(neighbours)),
        fill_(neighbours_.size()),
        eliminated_(neighbours_.size(), false),
        changed_(neighbours_.size(), false) {
    for (std::size_t i = 0; i < fill_.size(); ++i) {
      const auto degree = static_cast<std::int64_t>(neighbours_[i].size());
      fill_[i] = degree * (degree - 1) / 2;
    }
    subtract_triangles();
    for (int i = 0; i < size(); ++i) queue_.push(entry(i));
  }

  [[nodiscard]] int size() const { return static_cast<int>(fill_.size()); }
  [[nodiscard]] bool eliminated(int node) const { return eliminated_[at(node)]; }
  [[nodiscard]] int degree(int node) const { return static_cast<int>(neighbours_[at(node)].size()); }
  [[nodiscard]] long edges_added() const { return edges_added_; }

  /// The node of least fill, of these one of least degree. Entries of the queue that no longer hold are dropped here.
  int least() {
    while (eliminated_[at(queue_.top().node)] || queue_.top() != entry(queue_.top().node)) queue_.pop();
    return queue_.top().node;
  }

  /// Takes the node out and returns its neighbours, by then a clique.
  std::vector<int> eliminate(int node) {
    std::vector<int> around = neighbours_[at(node)];
    for (std::size_t i = 0; fill_[at(node)] > 0 && i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j) {
        const auto& list = neighbours_[at(around[i])];
        if (!std::binary_search(list.begin(), list.end(), around[j])) connect(around[i], around[j]);
      }
    }
    for (const int other : around) {
      // The pairs of the node with what it is not joined to: all the others around are neighbours of both.
      fill_[at(other)] -= degree(other) - static_cast<int>(around.size());
      auto& list = neighbours_[at(other)];
      list.erase(std::lower_bound(list.begin(), list.end(), node));
      note(other);
    }
    eliminated_[at(node)] = true;
    neighbours_[at(node)] = {};
    requeue();
    return around;
  }

 private:
  /// The sort key of the queue, in this order.
  struct Entry {
    std::int64_t fill = 0;
    int degree = 0;
    int node = 0;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  [[nodiscard]] Entry entry(int node) const { return {fill_[at(node)], degree(node), node}; }

  /// Each triangle is seen once, from the corner of least degree.
  void subtract_triangles() {
    const auto before = [&](int a, int b) { return degree(a) != degree(b) ? degree(a) < degree(b) : a < b; };
    Neighbours later(neighbours_.size());
    for (int a = 0; a < size(); ++a) {
      std::copy_if(neighbours_[at(a)].begin(), neighbours_[at(a)].end(), std::back_inserter(later[at(a)]),
                   [&](int b) { return before(a, b); });
    }
    for (int a = 0; a < size(); ++a) {
      for (const int b : later[at(a)]) {
        const int corners = visit_common(later[at(a)], later[at(b)], [&](int c) { --fill_[at(c)]; });
        fill_[at(a)] -= corners;
        fill_[at(b)] -= corners;
      }
    }
  }

  void connect(int a, int b) {
    auto& of_a = neighbours_[at(a)];
    auto& of_b = neighbours_[at(b)];
    const int common = visit_common(of_a, of_b, [&](int c) {
      --fill_[at(c)];
      note(c);
    });
    fill_[at(a)] += degree(a) - common;
    fill_[at(b)] += degree(b) - common;
    of_a.insert(std::lower_bound(of_a.begin(), of_a.end(), b), b);
    of_b.insert(std::lower_bound(of_b.begin(), of_b.end(), a), a);
    ++edges_added_;
  }

  void note(int node) {
    if (changed_[at(node)]) return;
    changed_[at(node)] = true;
    changes_.push_back(node);
  }

  void requeue() {
    for (const int node : changes_) {
      changed_[at(node)] = false;
      if (!eliminated_[at(node)]) queue_.push(entry(node));
    }
    changes_.clear();
  }

  Neighbours neighbours_;
  std::vector<std::int64_t> fill_;
  std::vector<char> eliminated_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  /// Whose fill or degree the elimination at hand changes; each once.
  std::vector<char> changed_;
  std::vector<int> changes_;
  long edges_added_ = 0;
};

/// Joins each bag to the first that is made for one of its other nodes, and the trees of a forest to each other.
void join(const std::vector<std::vector<int>>& around, const std::vector<int>& bag_of, TreeDecomposition& result) {
  int root = -1;
  for (int i = 0; i < static_cast<int>(result.bags.size()); ++i) {
    int parent = -1;
    for (const int node : around[at(i)]) {
      if (parent < 0 || bag_of[at(node)] < parent) parent = bag_of[at(node)];
    }
    if (parent >= 0) {
      result.edges.emplace_back(i, parent);
    } else {
      if (root >= 0) result.edges.emplace_back(root, i);
      root = i;
    }
  }
}

}  // namespace

TreeDecomposition min_fill_decomposition(Neighbours neighbours, const std::function<bool()>& stop, long most_entries) {
  FillGraph graph(std::move(neighbours));
  TreeDecomposition result;
  std::vector<std::vector<int>> around;
  std::vector<int> bag_of(at(graph.size()), -1);
  long entries = 0;
  for (int left = graph.size(); left > 0; --left) {
    const int node = graph.least();
    const bool all = graph.degree(node) == left - 1;
    if (all || entries + graph.edges_added() > most_entries || (stop && stop())) break;
    around.push_back(graph.eliminate(node));
    bag_of[at(node)] = static_cast<int>(result.bags.size());
    auto bag = around.back();
    bag.insert(std::lower_bound(bag.begin(), bag.end(), node), node);
    entries += static_cast<long>(bag.size());
    result.bags.push_back(std::move(bag));
  }
  std::vector<int> rest;
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.eliminated(i)) continue;
    rest.push_back(i);
    bag_of[at(i)] = static_cast<int>(result.bags.size());
  }
  if (!rest.empty()) {
    result.bags.push_back(std::move(rest));
    around.emplace_back();
  }
  join(around, bag_of, result);
  return result;
}

}  // namespace remora
