// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/twremat/tree_decomposition.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace remora {
namespace {

/// Union-find over the bags.
class Merged {
 public:
  explicit Merged(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }

  int find(int bag) {
    int& parent = parent_[static_cast<std::size_t>(bag)];
    while (parent_[static_cast<std::size_t>(parent)] != parent) parent = parent_[static_cast<std::size_t>(parent)];
    return parent;
  }
  void merge(int lost, int kept) { parent_[static_cast<std::size_t>(lost)] = kept; }

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
    lists[static_cast<std::size_t>(i)].push_back(j);
    lists[static_cast<std::size_t>(j)].push_back(i);
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
    if (holds(bags[static_cast<std::size_t>(a)], bags[static_cast<std::size_t>(b)])) {
      merged.merge(b, a);
    } else if (holds(bags[static_cast<std::size_t>(b)], bags[static_cast<std::size_t>(a)])) {
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
  const auto number_of = [&](int bag) { return number[static_cast<std::size_t>(merged.find(bag))]; };
  for (const auto& [i, j] : edges) result.edges.emplace_back(number_of(i), number_of(j));
  return result;
}

}  // namespace remora
