// SPDX-License-Identifier: Apache-2.0
//
// Random layered graphs, the family of Gagrani et al. 2022 (Neural topological ordering for computation graphs),
// appendix A, on which Bartan et al. 2023 (Moccasin) measure as RL100 to RL1000: one source, one sink, inner layers of
// about 2 w sqrt(N) ops, edges between adjacent layers and edges that skip layers.
//
//              .-> o ---> o -.
//     source --|-> o -'`> o --|-> ... -> sink
//              `-> o -------------^
//
// The rules are those of the published members, taken from the members themselves: layers.hpp, layer_edges.hpp and
// depth_first_order.hpp say which, docs/generate.md compares. Each op has one output. Sizes are multiples of 10 bytes
// from 10 to 8000, drawn from two bell curves, 6 in 10 around 600 (deviation 1000), the others around 3500 (1400), cut
// off where the range ends. Durations are uniform in 0 to 1000, the source's and the sink's 0. No tensor is `keep`.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "frontends/generate/option_table.hpp"
#include "model/graph.hpp"

namespace remora::generate {

struct LayeredOptions {
  std::int64_t ops = 100;
  /// Without it, what density 0.2 gives.
  std::optional<std::int64_t> edges{};
  /// w. Without it 0.35, the middle of the published 0.27 to 0.43; with `edges`, the w of that range for which density
  /// 0.2 gives about so many.
  std::optional<double> width{};
  std::int64_t seed = 1;
};

/// Memory and files grow with the edges: 100,000 ops have about 5 million.
inline constexpr std::int64_t kMostEdges = 50'000'000;

inline constexpr std::array kLayeredTable{
    OptionRow<LayeredOptions>{"ops", &LayeredOptions::ops, 2, 200'000, "ops, the source and the sink counted"},
    OptionRow<LayeredOptions>{"edges", &LayeredOptions::edges, 1, kMostEdges,
                              "edges, exactly; without it, what a density of 0.2 between adjacent layers gives"},
    OptionRow<LayeredOptions>{"width", &LayeredOptions::width, 0, 1000,
                              "w: layers have about 2 w sqrt(ops) ops; without it 0.35, or with --edges what makes "
                              "the density 0.2, within 0.27 to 0.43"},
    OptionRow<LayeredOptions>{"seed", &LayeredOptions::seed, 0, std::numeric_limits<std::int64_t>::max(),
                              "seed of every random choice"}};

/// The member of the family that the options name; the same graph on every platform. Throws InputError, placed at an
/// option, for one out of its range, for a number of edges that is impossible with the layers drawn, and where the
/// density gives more than kMostEdges. O(ops + edges) expected time.
Graph generate_layered(const LayeredOptions& options);

}  // namespace remora::generate
