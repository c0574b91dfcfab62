// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/twremat/tree_decomposition.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "benchmarks/methods/twremat/twremat.hpp"

namespace remora {
namespace {

using Edges = std::vector<std::pair<int, int>>;

Neighbours graph_of(int nodes, const Edges& edges) {
  std::vector<std::vector<int>> lists(static_cast<std::size_t>(nodes));
  for (const auto& [i, j] : edges) lists[static_cast<std::size_t>(i)].push_back(j);
  return mutual(std::move(lists));
}

bool holds(const std::vector<int>& bag, int node) {
  return std::binary_search(bag.begin(), bag.end(), node);
}

/// How many trees the bags that `belongs` accepts form, if the edges have no cycle: bags less edges among them.
template <class Belongs>
int trees(const TreeDecomposition& decomposition, Belongs belongs) {
  const auto& bags = decomposition.bags;
  const auto in = [&](int bag) { return belongs(bags[static_cast<std::size_t>(bag)]); };
  return static_cast<int>(std::count_if(bags.begin(), bags.end(), belongs) -
                          std::count_if(decomposition.edges.begin(), decomposition.edges.end(),
                                        [&](const auto& edge) { return in(edge.first) && in(edge.second); }));
}

/// Whether the edges join all bags.
bool connected(const TreeDecomposition& decomposition) {
  std::vector<std::vector<int>> lists(decomposition.bags.size());
  for (const auto& [i, j] : decomposition.edges) lists[static_cast<std::size_t>(i)].push_back(j);
  const Neighbours around = mutual(std::move(lists));
  std::vector<int> reached{0};
  std::set<int> seen{0};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int next : around[static_cast<std::size_t>(reached[i])]) {
      if (seen.insert(next).second) reached.push_back(next);
    }
  }
  return seen.size() == decomposition.bags.size();
}

/// The three properties of Kumar et al. 2019, section 2.2, and that it is a tree.
void expect_decomposes(const Neighbours& graph, const TreeDecomposition& decomposition) {
  ASSERT_EQ(decomposition.edges.size() + 1, decomposition.bags.size());
  ASSERT_TRUE(connected(decomposition));
  for (int i = 0; i < static_cast<int>(graph.size()); ++i) {
    // In a tree, bags that form exactly one tree hang together; none would form 0.
    ASSERT_EQ(trees(decomposition, [&](const auto& bag) { return holds(bag, i); }), 1);
    for (const int j : graph[static_cast<std::size_t>(i)]) {
      ASSERT_TRUE(std::any_of(decomposition.bags.begin(), decomposition.bags.end(),
                              [&](const auto& bag) { return holds(bag, i) && holds(bag, j); }));
    }
  }
}

Edges random_edges(std::mt19937& random, int nodes, int count) {
  Edges edges;
  for (int k = 0; k < count; ++k) {
    edges.emplace_back(static_cast<int>(random() % static_cast<unsigned>(nodes)),
                       static_cast<int>(random() % static_cast<unsigned>(nodes)));
  }
  return edges;
}

Edges path(int nodes) {
  Edges edges;
  for (int i = 1; i < nodes; ++i) edges.emplace_back(i - 1, i);
  return edges;
}

Edges grid(int rows, int columns) {
  Edges edges;
  for (int i = 0; i < rows * columns; ++i) {
    if (i % columns + 1 < columns) edges.emplace_back(i, i + 1);
    if (i / columns + 1 < rows) edges.emplace_back(i, i + columns);
  }
  return edges;
}

int width(int nodes, const Edges& edges) {
  const Neighbours graph = graph_of(nodes, edges);
  const TreeDecomposition decomposition = shrunk(min_fill_decomposition(graph));
  expect_decomposes(graph, decomposition);
  return decomposition.width();
}

/// Width by brute force: over all elimination orders, as a dynamic program over sets of eliminated nodes.
int treewidth(const Neighbours& graph) {
  const int nodes = static_cast<int>(graph.size());
  std::vector<int> best(std::size_t{1} << nodes, nodes);
  best[0] = -1;
  // The later nodes that the node reaches by eliminated ones are its neighbours when it is eliminated.
  const auto degree = [&](unsigned eliminated, int node) {
    std::vector<int> reached{node};
    std::set<int> seen{node};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (i > 0 && (eliminated >> reached[i] & 1U) == 0) continue;
      for (const int next : graph[static_cast<std::size_t>(reached[i])]) {
        if (seen.insert(next).second) reached.push_back(next);
      }
    }
    return static_cast<int>(std::count_if(seen.begin(), seen.end(),
                                          [&](int other) { return other != node && (eliminated >> other & 1U) == 0; }));
  };
  for (unsigned set = 0; set + 1 < 1U << nodes; ++set) {
    for (int node = 0; node < nodes; ++node) {
      if ((set >> node & 1U) != 0) continue;
      int& after = best[set | 1U << node];
      after = std::min(after, std::max(best[set], degree(set, node)));
    }
  }
  return best.back();
}

TEST(TreeDecomposition, HasTheThreePropertiesOnRandomGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 40);
    const Neighbours graph = graph_of(nodes, random_edges(random, nodes, static_cast<int>(random() % 90)));
    const TreeDecomposition whole = min_fill_decomposition(graph);
    expect_decomposes(graph, whole);
    const TreeDecomposition small = shrunk(whole);
    expect_decomposes(graph, small);
    EXPECT_EQ(small.width(), whole.width());
    EXPECT_LE(small.bags.size(), graph.size());
    for (const auto& [i, j] : small.edges) {
      const auto& a = small.bags[static_cast<std::size_t>(i)];
      const auto& b = small.bags[static_cast<std::size_t>(j)];
      EXPECT_FALSE(std::includes(a.begin(), a.end(), b.begin(), b.end()));
      EXPECT_FALSE(std::includes(b.begin(), b.end(), a.begin(), a.end()));
    }
  }
}

TEST(TreeDecomposition, IsOneEvenWhereItMustStopEarly) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const Neighbours graph = graph_of(30, random_edges(random, 30, 70));
    int steps = static_cast<int>(random() % 30);
    expect_decomposes(graph, min_fill_decomposition(graph, [&] { return --steps < 0; }));
    expect_decomposes(graph, min_fill_decomposition(graph, {}, static_cast<long>(random() % 200)));
  }
}

TEST(TreeDecomposition, FindsTheWidthOfGraphsWhereItIsKnown) {
  EXPECT_EQ(width(1, {}), 0);
  EXPECT_EQ(width(9, {}), 0);
  EXPECT_EQ(width(50, path(50)), 1);
  Edges binary;
  for (int i = 1; i < 127; ++i) binary.emplace_back((i - 1) / 2, i);
  EXPECT_EQ(width(127, binary), 1);
  Edges cycle = path(40);
  cycle.emplace_back(39, 0);
  EXPECT_EQ(width(40, cycle), 2);
  Edges clique;
  for (int i = 0; i < 9; ++i) {
    for (int j = 0; j < i; ++j) clique.emplace_back(i, j);
  }
  EXPECT_EQ(width(9, clique), 8);
  for (int side = 2; side <= 4; ++side) EXPECT_EQ(width(side * side, grid(side, side)), side);
  EXPECT_EQ(width(120, grid(3, 40)), 3);
}

TEST(TreeDecomposition, SeriesParallelGraphsHaveWidthTwo) {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    // From one edge, edges are doubled by a path of two or replaced by one.
    Edges edges{{0, 1}};
    int nodes = 2;
    while (nodes < 60) {
      const std::size_t chosen = round == 0 ? 0 : random() % edges.size();
      const auto [i, j] = edges[chosen];
      if (random() % 3 == 0) edges.erase(edges.begin() + static_cast<std::ptrdiff_t>(chosen));
      edges.emplace_back(i, nodes);
      edges.emplace_back(nodes, j);
      ++nodes;
    }
    EXPECT_LE(width(nodes, edges), 2);
  }
}

TEST(TreeDecomposition, IsNeverNarrowerThanTheTreewidthAndSeldomWider) {
  std::mt19937 random(10);
  int exact = 0;
  for (int round = 0; round < 100; ++round) {
    const int nodes = 2 + static_cast<int>(random() % 7);
    const Neighbours graph = graph_of(nodes, random_edges(random, nodes, static_cast<int>(random() % 20)));
    const int found = min_fill_decomposition(graph).width();
    const int truth = treewidth(graph);
    EXPECT_GE(found, truth);
    if (found == truth) ++exact;
  }
  EXPECT_GE(exact, 95);
}

TEST(SeparatorTree, EveryPartLeavesPartsOfAtMostHalfItsBags) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 60);
    const Edges edges = round % 5 == 0 ? path(nodes) : random_edges(random, nodes, static_cast<int>(random() % 90));
    const TreeDecomposition decomposition = shrunk(min_fill_decomposition(graph_of(nodes, edges)));
    const SeparatorTree tree(decomposition, nodes);
    EXPECT_EQ(tree.part(0).bags, static_cast<int>(decomposition.bags.size()));
    EXPECT_EQ(tree.part(0).end, static_cast<int>(tree.parts().size()));
    for (const auto& part : tree.parts()) {
      for (const int child : part.children) EXPECT_LE(2 * tree.part(child).bags, part.bags);
    }
  }
}

TEST(SeparatorTree, EdgesLeadOnlyWithinAPartOrToASeparatorAboveIt) {
  std::mt19937 random(12);
  for (int round = 0; round < 300; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 50);
    const Neighbours graph = graph_of(nodes, random_edges(random, nodes, static_cast<int>(random() % 80)));
    const SeparatorTree tree(shrunk(min_fill_decomposition(graph)), nodes);
    for (int i = 0; i < nodes; ++i) {
      const auto& separator = tree.part(tree.home(i)).separator;
      EXPECT_TRUE(holds(separator, i));
      EXPECT_TRUE(tree.contains(0, i));
      for (const int j : graph[static_cast<std::size_t>(i)]) {
        EXPECT_TRUE(tree.contains(tree.home(i), j) || tree.contains(tree.home(j), i));
      }
      if (tree.home(i) != 0) {
        EXPECT_TRUE(tree.contains(tree.child_with(0, i), i));
      }
    }
  }
}

}  // namespace
}  // namespace remora
