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
// The rules are those of the published members, taken from the members themselves: each is said at the
// part that follows it, docs/guide/generate.md compares. Each op has one output. Sizes are multiples of 10 bytes
// from 10 to 8000, drawn from two bell curves, 6 in 10 around 600 (deviation 1000), the others around 3500 (1400), cut
// off where the range ends. Durations are uniform in 0 to 1000, the source's and the sink's 0. No tensor is `keep`.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "model/graph.hpp"
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
  /// First op of each layer, and one beyond.
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

/// The count at density 0.2, and the skip edges that make 14 % of all.
EdgeCounts natural_counts(const Layers& layers);

/// `edges` split so that 14 % skip layers, or as many as there can be; the density follows. Throws InputError at
/// "--edges", with the possible numbers, where the layers would need a density outside 0 to 1.
EdgeCounts split_counts(const Layers& layers, std::int64_t edges);

/// For each op its predecessors, none twice, in no particular order; every op but the source has one in the layer
/// before, every op but the sink a successor in the layer after. `counts` as the functions above give them.
///
/// For a skip edge, the layer of the first end is uniform, then that of the second among those two or more below: so
/// the
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
inline constexpr std::int64_t kMaxEdges = 50'000'000;

/// An option: its row makes the range check, and the option and its help on the command line; the default is the field's own.
struct LayeredOption {
  /// As the command line spells it, without the dashes.
  const char* name;
  std::variant<std::int64_t LayeredOptions::*, std::optional<std::int64_t> LayeredOptions::*,
               std::optional<double> LayeredOptions::*>
      field;
  /// The range, closed.
  std::int64_t least;
  std::int64_t most;
  /// One line, with the unit.
  const char* help;
};

inline constexpr std::array kLayeredTable{
    LayeredOption{"ops", &LayeredOptions::ops, 2, 200'000, "ops, the source and the sink counted"},
    LayeredOption{"edges", &LayeredOptions::edges, 1, kMaxEdges,
                  "edges, exactly; without it, what a density of 0.2 between adjacent layers gives"},
    LayeredOption{"width", &LayeredOptions::width, 0, 1000,
                  "w: layers have about 2 w sqrt(ops) ops; without it 0.35, or with --edges what makes "
                  "the density 0.2, within 0.27 to 0.43"},
    LayeredOption{"seed", &LayeredOptions::seed, 0, std::numeric_limits<std::int64_t>::max(),
                  "seed of every random choice"}};

/// The member of the family that the options name; the same graph on every platform. Throws InputError, placed at an
/// option, for one out of its range, for a number of edges that is impossible with the layers drawn, and where the
/// density gives more than kMaxEdges. O(ops + edges) expected time.
Graph generate_layered(const LayeredOptions& options);

}  // namespace remora::generate
