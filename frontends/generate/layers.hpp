// SPDX-License-Identifier: Apache-2.0
//
// The parts of a random layered graph (layered.hpp): its layers, the edges between them, and the input order.
#pragma once

#include <cstdint>
#include <vector>

#include "model/random.hpp"

namespace remora::generate {

/// Ops in layers, numbered layer by layer from 0. Layer 0 is the source alone, the last layer the sink alone; those
/// between are the inner layers.
class Layers {
 public:
  /// `widths`: the ops of each layer, from the source's to the sink's, all at least 1.
  explicit Layers(const std::vector<int>& widths);

  [[nodiscard]] int count() const { return static_cast<int>(firsts_.size()) - 1; }
  [[nodiscard]] int op_count() const { return firsts_.back(); }
  [[nodiscard]] int first(int layer) const { return firsts_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] int width(int layer) const { return first(layer + 1) - first(layer); }

 private:
  /// Of each layer, and one beyond.
  std::vector<int> firsts_;
};

/// Layers for `ops` ops, at least 2, whose mean inner width is about `mean`: each inner width is uniform in
/// [mean/4, 7/4 mean], the "node layer variability" 0.75 of the published members, and the last inner layer takes what
/// is left. O(ops).
Layers draw_layers(int ops, double mean, Random& random);

// The edges of a random layered graph.
//
//     source -> o o o -> o o -> o o o o -> sink      adjacent edges: from one layer to the next
//                   `------------->'                 skip edges: between inner layers two or more apart
//
// Two adjacent layers of a and b ops have max(a, b) edges that connect each of their ops, and a part of the
// a b - max(a, b) other pairs, the density, are edges too. Edges are local: the k neighbours of op i in the wider layer
// are consecutive ops of the narrower one, around the position where i lies to scale; k is the same for all i, give or
// take one. Of two layers of 6 and 3 ops with 8 edges:
//
//     i             0    1      2    3    4      5
//     neighbours    0    0, 1   1    1    1, 2   2
//
// Both rules hold in the published members without exception, with max(a, b) + round((a b - max(a, b)) / 5) edges: in
// each of the 52 pairs of layers of rl100 and rl500, and for each of the 731 ops i of the wider of two inner layers.

struct EdgeCounts {
  std::int64_t adjacent = 0;
  std::int64_t skip = 0;

  [[nodiscard]] std::int64_t total() const { return adjacent + skip; }
};

/// What density 0.2 gives, and the skip edges that make 14 % of all.
EdgeCounts natural_counts(const Layers& layers);

/// `edges` split so that 14 % skip layers, or as many as there can be; the density follows. Throws InputError at
/// "--edges", with the possible numbers, where the layers would need a density outside 0 to 1.
EdgeCounts split_counts(const Layers& layers, std::int64_t edges);

/// For each op its predecessors, none twice, in no particular order; every op but the source has one in the layer
/// before, every op but the sink a successor in the layer after. `counts` as the functions above give them.
///
/// Of a skip edge, the layer of the first end is uniform, then that of the second among those two or more below: so the
/// spans spread up to the depth. The first op is uniform; the second lies where the first does, to scale, or up to a
/// fifth of its layer further, which is how those of the published members spread. O(ops + edges) expected time.
std::vector<std::vector<int>> draw_edges(const Layers& layers, const EdgeCounts& counts, Random& random);

/// A random topological order of the ops 0 to n-1, depth first: the op computed next is the latest that became ready,
/// and of those that one op made ready, a random one.
///
/// The published members' orders are alike: a successor that became ready follows at once in 48 of 52 cases (rl100) and
/// in 164 of 184 (rl500); and layer and position correlate by 0.975 and 0.981, where this rule on the same graphs gives
/// 0.974 and 0.979, a uniform choice among the ready ops 0.989 and 0.993 (means of 200 orders).
///
/// `predecessors`: for each op its own, none twice; acyclic. O(ops + edges).
std::vector<int> depth_first_order(const std::vector<std::vector<int>>& predecessors, Random& random);

}  // namespace remora::generate
