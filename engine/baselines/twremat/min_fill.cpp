// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <queue>

#include "engine/baselines/twremat/tree_decomposition.hpp"

namespace remora {
namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

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
  [[nodiscard]] bool eliminated(int node) const { return eliminated_[index(node)]; }
  [[nodiscard]] int degree(int node) const { return static_cast<int>(neighbours_[index(node)].size()); }
  [[nodiscard]] long edges_added() const { return edges_added_; }

  /// The node of least fill, of these one of least degree. Entries of the queue that no longer hold are dropped here.
  int least() {
    while (eliminated_[index(queue_.top().node)] || queue_.top() != entry(queue_.top().node)) queue_.pop();
    return queue_.top().node;
  }

  /// Takes the node out and returns its neighbours, by then a clique.
  std::vector<int> eliminate(int node) {
    std::vector<int> around = neighbours_[index(node)];
    for (std::size_t i = 0; fill_[index(node)] > 0 && i < around.size(); ++i) {
      for (std::size_t j = i + 1; j < around.size(); ++j) {
        const auto& list = neighbours_[index(around[i])];
        if (!std::binary_search(list.begin(), list.end(), around[j])) connect(around[i], around[j]);
      }
    }
    for (const int other : around) {
      // The pairs of the node with what it is not joined to: all the others around are neighbours of both.
      fill_[index(other)] -= degree(other) - static_cast<int>(around.size());
      auto& list = neighbours_[index(other)];
      list.erase(std::lower_bound(list.begin(), list.end(), node));
      note(other);
    }
    eliminated_[index(node)] = true;
    neighbours_[index(node)] = {};
    requeue();
    return around;
  }

 private:
  /// What the queue goes by, in this order.
  struct Entry {
    std::int64_t fill = 0;
    int degree = 0;
    int node = 0;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  [[nodiscard]] Entry entry(int node) const { return {fill_[index(node)], degree(node), node}; }

  /// Each triangle is seen once, from the corner of least degree.
  void subtract_triangles() {
    const auto before = [&](int a, int b) { return degree(a) != degree(b) ? degree(a) < degree(b) : a < b; };
    Neighbours later(neighbours_.size());
    for (int a = 0; a < size(); ++a) {
      std::copy_if(neighbours_[index(a)].begin(), neighbours_[index(a)].end(), std::back_inserter(later[index(a)]),
                   [&](int b) { return before(a, b); });
    }
    for (int a = 0; a < size(); ++a) {
      for (const int b : later[index(a)]) {
        const int corners = visit_common(later[index(a)], later[index(b)], [&](int c) { --fill_[index(c)]; });
        fill_[index(a)] -= corners;
        fill_[index(b)] -= corners;
      }
    }
  }

  void connect(int a, int b) {
    auto& of_a = neighbours_[index(a)];
    auto& of_b = neighbours_[index(b)];
    const int common = visit_common(of_a, of_b, [&](int c) {
      --fill_[index(c)];
      note(c);
    });
    fill_[index(a)] += degree(a) - common;
    fill_[index(b)] += degree(b) - common;
    of_a.insert(std::lower_bound(of_a.begin(), of_a.end(), b), b);
    of_b.insert(std::lower_bound(of_b.begin(), of_b.end(), a), a);
    ++edges_added_;
  }

  void note(int node) {
    if (changed_[index(node)]) return;
    changed_[index(node)] = true;
    changes_.push_back(node);
  }

  void requeue() {
    for (const int node : changes_) {
      changed_[index(node)] = false;
      if (!eliminated_[index(node)]) queue_.push(entry(node));
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
    for (const int node : around[index(i)]) {
      if (parent < 0 || bag_of[index(node)] < parent) parent = bag_of[index(node)];
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
  std::vector<int> bag_of(index(graph.size()), -1);
  long entries = 0;
  for (int left = graph.size(); left > 0; --left) {
    const int node = graph.least();
    const bool all = graph.degree(node) == left - 1;
    if (all || entries + graph.edges_added() > most_entries || (stop && stop())) break;
    around.push_back(graph.eliminate(node));
    bag_of[index(node)] = static_cast<int>(result.bags.size());
    auto bag = around.back();
    bag.insert(std::lower_bound(bag.begin(), bag.end(), node), node);
    entries += static_cast<long>(bag.size());
    result.bags.push_back(std::move(bag));
  }
  std::vector<int> rest;
  for (int i = 0; i < graph.size(); ++i) {
    if (graph.eliminated(i)) continue;
    rest.push_back(i);
    bag_of[index(i)] = static_cast<int>(result.bags.size());
  }
  if (!rest.empty()) {
    result.bags.push_back(std::move(rest));
    around.emplace_back();
  }
  join(around, bag_of, result);
  return result;
}

}  // namespace remora
