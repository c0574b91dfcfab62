// SPDX-License-Identifier: Apache-2.0
//
// The recursion of Kumar et al. 2019, algorithm 1, laid out once: which bag separates each part of the tree
// decomposition, and which parts are left without it. It depends neither on what a call is asked to compute nor on
// where the recursion stops, so all calls and all recursion limits share it (theorem 5: "memoize these separators").
//
//     bags     1 - 2 - 3 - 4 - 5 - 6 - 7        4 leaves two parts of at most half the bags (lemma 3), and so on
//
//     parts             4                       A part's separator are the nodes of its bag that no part above has;
//                  .----'----.                  so each node has one part, its home, and the nodes of a part are
//                  2         6                  those at home in it and below it. Parts are numbered in preorder:
//                .-'-.     .-'-.                below part i are i + 1 up to its end.
//                1   3     5   7
#pragma once

#include <vector>

#include "engine/baselines/twremat/tree_decomposition.hpp"

namespace remora {

class SeparatorTree {
 public:
  struct Part {
    /// How many bags the part has, those included that are empty without the separators above.
    int bags = 0;
    /// One beyond the last part below.
    int end = 0;
    /// Ascending; those without nodes of their own are left out.
    std::vector<int> children{};
    /// Ascending.
    std::vector<int> separator{};
  };

  /// The decomposition of a graph of so many nodes. O(bags * width * log bags).
  SeparatorTree(const TreeDecomposition& decomposition, int nodes);

  /// Part 0 is the whole; there is none for a graph without nodes.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const Part& part(int index) const { return parts_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] int home(int node) const { return homes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] bool contains(int index, int node) const { return index <= home(node) && home(node) < part(index).end; }
  /// The child of a part that contains the node, which must be in the part and not in its separator.
  [[nodiscard]] int child_with(int index, int node) const;

 private:
  std::vector<Part> parts_;
  std::vector<int> homes_;
};

}  // namespace remora
