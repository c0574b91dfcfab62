// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "frontends/generate/layered.hpp"
#include "model/error.hpp"

namespace remora::generate {
namespace {

std::int64_t edge_count(const std::vector<std::vector<int>>& predecessors) {
  std::int64_t count = 0;
  for (const std::vector<int>& list : predecessors) {
    count += static_cast<std::int64_t>(std::set<int>(list.begin(), list.end()).size());
  }
  return count;
}

bool possible(const Layers& layers, std::int64_t edges) {
  try {
    return split_counts(layers, edges).total() == edges;
  } catch (const InputError&) {
    return false;
  }
}

/// Layers and all their numbers of edges: those possible come out exactly, the others are refused with the bounds.
void check_every_count(const Layers& layers) {
  std::vector<std::int64_t> found;
  const std::int64_t pairs = std::int64_t{layers.op_count()} * layers.op_count();
  for (std::int64_t edges = 0; edges <= pairs; ++edges) {
    if (!possible(layers, edges)) continue;
    found.push_back(edges);
    Random random(static_cast<std::uint64_t>(edges));
    EXPECT_EQ(edge_count(draw_edges(layers, split_counts(layers, edges), random)), edges);
  }
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back() - found.front() + 1, static_cast<std::int64_t>(found.size()));
  const std::string bounds = "allow " + std::to_string(found.front()) + " to " + std::to_string(found.back());
  for (const std::int64_t edges : {std::int64_t{0}, found.front() - 1, found.back() + 1, 10 * pairs}) {
    try {
      split_counts(layers, edges);
      ADD_FAILURE() << edges;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(bounds), std::string::npos) << error.what();
    }
  }
}

TEST(LayerEdges, HaveEveryPossibleCountAndNoOther) {
  check_every_count(Layers({1, 1}));
  check_every_count(Layers({1, 3, 1}));
  check_every_count(Layers({1, 1, 1, 1, 1}));
  check_every_count(Layers({1, 2, 3, 1}));
  check_every_count(Layers({1, 2, 5, 1, 4, 1}));
  check_every_count(Layers({1, 4, 4, 6, 2, 1, 3, 5, 1}));
}

TEST(LayerEdges, OfNaturalCountsArePossible) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const Layers layers = draw_layers(2 + static_cast<int>(seed), 4.0, random);
    const EdgeCounts counts = natural_counts(layers);
    EXPECT_EQ(edge_count(draw_edges(layers, counts, random)), counts.total()) << seed;
    EXPECT_TRUE(possible(layers, counts.total())) << seed;
  }
}

/// The neighbours of each op of the wider of two adjacent layers.
std::vector<std::vector<int>> windows(const Layers& layers, int layer,
                                      const std::vector<std::vector<int>>& predecessors) {
  const bool widens = layers.width(layer + 1) >= layers.width(layer);
  std::vector<std::vector<int>> lists(static_cast<std::size_t>(layers.width(widens ? layer + 1 : layer)));
  for (int to = layers.first(layer + 1); to < layers.first(layer + 2); ++to) {
    for (const int from : predecessors[static_cast<std::size_t>(to)]) {
      if (from < layers.first(layer)) continue;  // a skip
      const int i = from - layers.first(layer);
      const int j = to - layers.first(layer + 1);
      lists[static_cast<std::size_t>(widens ? j : i)].push_back(widens ? i : j);
    }
  }
  for (std::vector<int>& list : lists) std::sort(list.begin(), list.end());
  return lists;
}

TEST(LayerEdges, JoinAnOpOfTheWiderLayerToConsecutiveOps) {
  Random random(5);
  const Layers layers = draw_layers(500, 16.0, random);
  const std::vector<std::vector<int>> predecessors = draw_edges(layers, natural_counts(layers), random);
  for (int layer = 0; layer + 1 < layers.count(); ++layer) {
    std::vector<int> begins;
    std::size_t least = predecessors.size();
    std::size_t most = 0;
    for (const std::vector<int>& window : windows(layers, layer, predecessors)) {
      ASSERT_FALSE(window.empty());
      EXPECT_EQ(window.back() - window.front() + 1, static_cast<int>(window.size()));
      begins.push_back(window.front());
      least = std::min(least, window.size());
      most = std::max(most, window.size());
    }
    EXPECT_LE(most, least + 1);
    EXPECT_EQ(begins.front(), 0);
    EXPECT_GE(begins.back() + static_cast<int>(most), std::min(layers.width(layer), layers.width(layer + 1)));
  }
}

TEST(DepthFirstOrder, LetsASuccessorFollowAsSoonAsItCan) {
  Random random(3);
  const Layers layers = draw_layers(300, 10.0, random);
  const std::vector<std::vector<int>> predecessors = draw_edges(layers, natural_counts(layers), random);
  const std::vector<int> order = depth_first_order(predecessors, random);
  std::vector<std::size_t> positions(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) positions[static_cast<std::size_t>(order[i])] = i;
  // Of each op, the predecessor that came last.
  std::vector<bool> makes_ready(order.size());
  std::vector<std::size_t> last(order.size());
  for (std::size_t op = 0; op < order.size(); ++op) {
    for (const int before : predecessors[op]) {
      const std::size_t position = positions[static_cast<std::size_t>(before)];
      ASSERT_LT(position, positions[op]);
      last[positions[op]] = std::max(last[positions[op]], position);
    }
    if (op > 0) makes_ready[last[positions[op]]] = true;
  }
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    EXPECT_TRUE(!makes_ready[i] || last[i + 1] == i) << i;
  }
}

}  // namespace
}  // namespace remora::generate
