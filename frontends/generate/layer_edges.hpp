// SPDX-License-Identifier: Apache-2.0
//
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
#pragma once

#include <cstdint>
#include <vector>

#include "frontends/generate/layers.hpp"
#include "model/random.hpp"

namespace remora::generate {

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

}  // namespace remora::generate
