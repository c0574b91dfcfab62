// SPDX-License-Identifier: Apache-2.0
//
// The edges of a random layered graph.
//
//     source -> o o o -> o o -> o o o o -> sink        adjacent edges: one layer to the next
//                 `------------->'                     skip edges: between inner layers, two or more apart
//
// Two adjacent layers of a and b ops have max(a, b) edges that connect each of their ops, and of the a b - max(a, b)
// other pairs a part, the density, are edges too. In the published members this is exact to the edge, at density 0.2, in
// each of the 52 pairs of layers.
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
/// Adjacent edges: each op of the wider layer has the same number of neighbours, give or take one, drawn from the narrower
/// layer. Skip edges: the layer of the first end is uniform, then that of the second among those two or more below, then
/// both ops, which spreads the spans up to the depth. O(ops + edges) expected time.
std::vector<std::vector<int>> draw_edges(const Layers& layers, const EdgeCounts& counts, Random& random);

}  // namespace remora::generate
