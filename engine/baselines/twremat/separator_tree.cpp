// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/twremat/separator_tree.hpp"

#include <algorithm>
#include <cstddef>

namespace remora {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

class Builder {
 public:
  Builder(const TreeDecomposition& decomposition, std::vector<SeparatorTree::Part>& parts, std::vector<int>& homes)
      : bags_(decomposition.bags),
        adjacent_(decomposition.bags.size()),
        removed_(decomposition.bags.size(), false),
        parents_(decomposition.bags.size()),
        below_(decomposition.bags.size()),
        parts_(parts),
        homes_(homes) {
    for (const auto& [i, j] : decomposition.edges) {
      adjacent_[at(i)].push_back(j);
      adjacent_[at(j)].push_back(i);
    }
  }

  /// The part of the bags that hang together with this one. As deep as log2(bags), lemma 3. Returns its number, or -1
  /// where all its nodes are in separators above.
  int build(int bag) {
    const std::vector<int> reached = component(bag);
    const bool any = std::any_of(reached.begin(), reached.end(), [&](int i) { return has_homeless(i); });
    if (!any) return -1;
    const int separator = balanced(reached);
    const int number = static_cast<int>(parts_.size());
    parts_.push_back({.bags = static_cast<int>(reached.size())});
    for (const int node : bags_[at(separator)]) {
      if (homes_[at(node)] >= 0) continue;
      homes_[at(node)] = number;
      parts_[at(number)].separator.push_back(node);
    }
    removed_[at(separator)] = true;
    for (const int next : adjacent_[at(separator)]) {
      const int child = removed_[at(next)] ? -1 : build(next);
      if (child >= 0) parts_[at(number)].children.push_back(child);
    }
    parts_[at(number)].end = static_cast<int>(parts_.size());
    return number;
  }

 private:
  [[nodiscard]] bool has_homeless(int bag) const {
    const auto& nodes = bags_[at(bag)];
    return std::any_of(nodes.begin(), nodes.end(), [&](int node) { return homes_[at(node)] < 0; });
  }

  /// Every bag after its parent.
  std::vector<int> component(int bag) {
    std::vector<int> reached{bag};
    parents_[at(bag)] = -1;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const int next : adjacent_[at(reached[i])]) {
        if (removed_[at(next)] || next == parents_[at(reached[i])]) continue;
        parents_[at(next)] = reached[i];
        reached.push_back(next);
      }
    }
    return reached;
  }

  /// The deepest bag that has at least half of the bags at and below it (Jordan 1869): what hangs below it has less
  /// than half, what is left above it at most half.
  int balanced(const std::vector<int>& reached) {
    for (const int bag : reached) below_[at(bag)] = 1;
    const int all = static_cast<int>(reached.size());
    for (auto bag = reached.rbegin();; ++bag) {
      if (2 * below_[at(*bag)] >= all) return *bag;
      below_[at(parents_[at(*bag)])] += below_[at(*bag)];
    }
  }

  const std::vector<std::vector<int>>& bags_;
  std::vector<std::vector<int>> adjacent_;
  std::vector<char> removed_;
  std::vector<int> parents_;
  /// Bags at and below each.
  std::vector<int> below_;
  std::vector<SeparatorTree::Part>& parts_;
  std::vector<int>& homes_;
};

}  // namespace

SeparatorTree::SeparatorTree(const TreeDecomposition& decomposition, int nodes) : homes_(at(nodes), -1) {
  if (!decomposition.bags.empty()) Builder(decomposition, parts_, homes_).build(0);
}

int SeparatorTree::child_with(int index, int node) const {
  const auto& children = part(index).children;
  return *std::prev(std::upper_bound(children.begin(), children.end(), home(node)));
}

}  // namespace remora
