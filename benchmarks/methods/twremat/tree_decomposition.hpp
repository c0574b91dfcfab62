// SPDX-License-Identifier: Apache-2.0
//
// Tree decompositions of undirected graphs (Kumar et al. 2019, section 2.2): a tree of bags of nodes, so that every
// node is in a bag, the ends of every edge are together in a bag, and the bags of a node hang together.
//
//     graph  a - b - c - d    bags  {a,b} - {b,c} - {c,d,e}        width 2, the largest bag less one
//                     `- e -' (d - e is an edge too)
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace remora {

/// For each node its neighbours: sorted, none twice, never the node itself, and mutual.
using Neighbours = std::vector<std::vector<int>>;

/// Makes lists that name each edge at one end at least what Neighbours promises. O(edges log edges).
Neighbours mutual(std::vector<std::vector<int>> lists);

struct TreeDecomposition {
  /// Each sorted.
  std::vector<std::vector<int>> bags{};
  /// A tree on the bags: one edge less than bags, also where the graph is not connected.
  std::vector<std::pair<int, int>> edges{};

  /// The largest bag less one; -1 without bags.
  [[nodiscard]] int width() const;
};

/// The minimum fill-in heuristic (Bodlaender and Koster 2010): eliminates the node whose neighbours lack the fewest
/// edges to be a clique, of those the one of least degree, then of least number, and makes them one. A node and its
/// neighbours at that time are a bag. Graphs of width 2 get width 2: the node chosen then has two neighbours at most.
///
/// As soon as a bag would be all that is left, it is the last. All that is left is also the last bag where `stop` says
/// so and where the bags and the edges added grow beyond `most_entries`: still a decomposition, though a wide one.
///
/// Fill counts are kept up to date: an added edge costs O(the lesser degree of its ends * log degree), an elimination
/// O(1) for each neighbour besides.
TreeDecomposition min_fill_decomposition(Neighbours neighbours, const std::function<bool()>& stop = {},
                                         long most_entries = 50'000'000);

/// Merges neighbouring bags of which one holds the other: at most as many bags as nodes remain (lemma 1).
/// O(bags * width).
TreeDecomposition shrunk(TreeDecomposition decomposition);

}  // namespace remora
