// SPDX-License-Identifier: Apache-2.0
//
// What a generated layered graph looks like, and that the published members, where they are at hand, look the same.
#include "frontends/generate/layered.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/text.hpp"
#include "tests/frontends/generate/layer_shape.hpp"

namespace remora::generate {
namespace {

std::string written(const Graph& graph) {
  std::ostringstream out;
  json::write_graph(out, graph);
  return out.str();
}

/// The number of edges that Bartan et al. 2023, table 2, give for a number of ops.
constexpr std::array<std::pair<int, int>, 4> kPublished{{{100, 236}, {250, 944}, {500, 2461}, {1000, 5875}}};

Graph published_size(std::size_t i, std::int64_t seed) {
  return generate_layered({.ops = kPublished.at(i).first, .edges = kPublished.at(i).second, .seed = seed});
}

/// A published member, if the shared instances are there, or nothing.
std::optional<Graph> published_member(const std::string& name) {
  const std::string path = std::string(REMORA_SHARED_DIR) + "/instances/" + name + ".json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return json::read_graph(json::Text(json::read_file(path)));
}

void expect_connected(const LayerShape& shape) {
  for (std::size_t op = 0; op < shape.layers.size(); ++op) {
    EXPECT_EQ(shape.predecessors[op].empty(), op == 0) << op;
    EXPECT_EQ(shape.successors[op].empty(), op + 1 == shape.layers.size()) << op;
    const std::set<int> distinct(shape.predecessors[op].begin(), shape.predecessors[op].end());
    EXPECT_EQ(distinct.size(), shape.predecessors[op].size()) << op;
    EXPECT_TRUE(
        std::any_of(shape.successors[op].begin(), shape.successors[op].end(),
                    [&](int after) { return shape.layers[static_cast<std::size_t>(after)] == shape.layers[op] + 1; }) ||
        shape.successors[op].empty())
        << op;
  }
  EXPECT_EQ(shape.widths.front(), 1);
  EXPECT_EQ(shape.widths.back(), 1);
}

TEST(Layered, HasOneSourceAndOneSinkAndConnectsEveryOp) {
  for (const std::int64_t ops : {2, 3, 4, 5, 7, 10, 25, 100, 777}) {
    for (std::int64_t seed = 0; seed < 20; ++seed) {
      const Graph graph = generate_layered({.ops = ops, .seed = seed});
      validate(graph);
      ASSERT_EQ(graph.ops.size(), static_cast<std::size_t>(ops));
      ASSERT_EQ(graph.tensors.size(), graph.ops.size());
      expect_connected(LayerShape(graph));
    }
  }
}

TEST(Layered, HasExactlyTheEdgesAskedFor) {
  for (std::size_t i = 0; i < kPublished.size(); ++i) {
    for (std::int64_t seed = 1; seed <= 8; ++seed) {
      const LayerShape shape(published_size(i, seed));
      EXPECT_EQ(shape.edges, kPublished.at(i).second);
      EXPECT_NEAR(shape.skip_share(), 0.14, 0.003);
      // The width was chosen for it; the widths vary, the more the fewer layers there are.
      EXPECT_NEAR(shape.density(), 0.2, 0.12) << kPublished.at(i).first << " ops, seed " << seed;
    }
  }
}

TEST(Layered, HasWidthsThatVaryByThreeQuarters) {
  const LayerShape shape(generate_layered({.ops = 20000, .width = 0.27}));
  const double mean = 2 * 0.27 * std::sqrt(20000.0);
  const auto begin = shape.widths.begin() + 1;
  // The last layer takes what is left.
  const auto [least, most] = std::minmax_element(begin, shape.widths.end() - 2);
  EXPECT_GE(static_cast<double>(*least), 0.25 * mean);
  EXPECT_LT(static_cast<double>(*least), 0.35 * mean);
  EXPECT_LE(static_cast<double>(*most), 1.75 * mean);
  EXPECT_GT(static_cast<double>(*most), 1.65 * mean);
  EXPECT_NEAR(shape.mean_width(), mean, 0.1 * mean);
  EXPECT_NEAR(shape.depth(), 20000 / mean, 0.1 * 20000 / mean);
}

TEST(Layered, HasADensityOfAFifthBetweenAdjacentLayers) {
  const LayerShape shape(generate_layered({.ops = 3000}));
  EXPECT_NEAR(shape.density(), 0.2, 1e-4);
  for (std::size_t layer = 0; layer < shape.adjacent.size(); ++layer) {
    const std::int64_t needed = std::max(shape.widths[layer], shape.widths[layer + 1]);
    const std::int64_t free = shape.widths[layer] * shape.widths[layer + 1] - needed;
    EXPECT_NEAR(static_cast<double>(shape.adjacent[layer] - needed), 0.2 * static_cast<double>(free), 1.01);
  }
}

TEST(Layered, HasSkipsOfEverySpan) {
  const LayerShape shape(generate_layered({.ops = 3000}));
  EXPECT_NEAR(shape.skip_share(), 0.14, 1e-4);
  const std::set<int> spans(shape.spans.begin(), shape.spans.end());
  EXPECT_EQ(*spans.begin(), 2);
  EXPECT_GT(*spans.rbegin(), shape.depth() * 9 / 10);
  EXPECT_GT(spans.size(), static_cast<std::size_t>(shape.depth()) * 9 / 10);
  // First layer uniform, second uniform below it: a quarter of the depth on average.
  double mean = 0;
  for (const int span : shape.spans) mean += span / static_cast<double>(shape.spans.size());
  EXPECT_NEAR(mean / shape.depth(), 0.26, 0.02);
}

TEST(Layered, HasSizesFromTwoBells) {
  const Graph graph = generate_layered({.ops = 20000, .edges = 70000});
  double mean = 0;
  int below_thousand = 0;
  int above_six_thousand = 0;
  for (const Tensor& tensor : graph.tensors) {
    const std::int64_t size = tensor.size.count();
    ASSERT_EQ(size % 10, 0);
    ASSERT_GE(size, 10);
    ASSERT_LE(size, 8000);
    ASSERT_FALSE(tensor.keep);
    mean += static_cast<double>(size) / 20000;
    below_thousand += size < 1000 ? 1 : 0;
    above_six_thousand += size > 6000 ? 1 : 0;
  }
  // The published 600 sizes: 2022 on average, 36 % below 1000, 1.8 % above 6000.
  EXPECT_NEAR(mean, 2050, 60);
  EXPECT_NEAR(below_thousand, 0.33 * 20000, 400);
  EXPECT_NEAR(above_six_thousand, 0.015 * 20000, 150);
}

TEST(Layered, HasUniformDurationsButForTheEnds) {
  const Graph graph = generate_layered({.ops = 20000, .edges = 70000});
  std::array<int, 10> tenths{};
  std::int64_t longest = 0;
  for (std::size_t op = 1; op + 1 < graph.ops.size(); ++op) {
    const std::int64_t duration = graph.ops[op].duration.count();
    ASSERT_GE(duration, 0);
    longest = std::max(longest, duration);
    ++tenths.at(static_cast<std::size_t>(duration * 10 / 1001));
  }
  EXPECT_EQ(longest, 1000);
  for (const int count : tenths) EXPECT_NEAR(count, 2000, 200);
  EXPECT_EQ(graph.ops.front().duration, Duration(0));
  EXPECT_EQ(graph.ops.back().duration, Duration(0));
}

TEST(Layered, IsOrderedDepthFirstAndAtRandom) {
  const Graph graph = published_size(2, 1);
  const LayerShape shape(graph);
  // Not layer by layer, and not the longest path first.
  EXPECT_FALSE(std::is_sorted(shape.layers.begin(), shape.layers.end()));
  EXPECT_GT(shape.correlation(), 0.9);
  EXPECT_LT(shape.correlation(), 0.998);
  EXPECT_NE(LayerShape(published_size(2, 2)).layers, shape.layers);
}

TEST(Layered, IsTheSameForASeedAndAnotherForAnother) {
  const std::string once = written(published_size(1, 7));
  EXPECT_EQ(written(published_size(1, 7)), once);
  std::set<std::string> graphs{once};
  for (std::int64_t seed = 8; seed < 20; ++seed) graphs.insert(written(published_size(1, seed)));
  EXPECT_EQ(graphs.size(), 13U);
  EXPECT_NE(generate_layered({.ops = 50, .seed = 1}).ops, generate_layered({.ops = 50, .seed = 2}).ops);
}

/// Measurements refer to members by ops, edges and seed: this digest changes only with the family itself, never with
/// the platform.
TEST(Layered, IsTheSameOnEveryPlatform) {
  EXPECT_EQ(text::sha256_hex(written(published_size(3, 1))),
            "0b434f13dca65ec3ec21f4611b05e6c230ffa061fb37efb7e3bb3fc1a2908325");
}

TEST(Layered, ReadsBack) {
  const Graph graph = published_size(3, 1);
  EXPECT_EQ(json::read_graph(json::Text(written(graph))), graph);
}

TEST(Layered, TakesAWidth) {
  // Layers of one op: a chain, which has no other edges than its skips.
  const LayerShape chain(generate_layered({.ops = 40, .width = 0.0}));
  EXPECT_EQ(chain.depth(), 40);
  const LayerShape wide(generate_layered({.ops = 2500, .width = 1.0}));
  EXPECT_NEAR(wide.mean_width(), 100, 25);
}

TEST(Layered, RefusesOptionsOutOfTheirRange) {
  const auto message = [](const LayeredOptions& options) -> std::string {
    try {
      generate_layered(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message({.ops = 1}), "ops: 1 is outside 2 to 200000");
  EXPECT_EQ(message({.ops = 200001}), "ops: 200001 is outside 2 to 200000");
  EXPECT_EQ(message({.edges = 0}), "edges: 0 is outside 1 to 50000000");
  EXPECT_EQ(message({.seed = -1}), "seed: -1 is outside 0 to 9223372036854775807");
  EXPECT_EQ(message({.width = -0.5}), "width: -0.5 is outside 0 to 1000");
  EXPECT_EQ(message({.width = std::nan("")}), "width: nan is outside 0 to 1000");
  EXPECT_EQ(message({.edges = 90}).find("edges: 90 is impossible; the layers drawn for this seed allow "), 0U);
  EXPECT_EQ(message({.edges = 5000}).find("edges: 5000 is impossible; the layers drawn for this seed allow "), 0U);
  EXPECT_EQ(message({.ops = 200000, .width = 1000}).find("edges: missing: the density alone gives "), 0U);
}

/// 100,000 ops at the least density: nothing here may be quadratic.
TEST(Layered, GrowsLarge) {
  const Graph graph = generate_layered({.ops = 100000, .edges = 300000});
  validate(graph);
  EXPECT_EQ(LayerShape(graph).edges, 300000);
}

TEST(PublishedLayered, FollowTheRulesOfTheFamily) {
  for (const std::string name : {"rl100", "rl500"}) {
    const std::optional<Graph> graph = published_member(name);
    if (!graph) GTEST_SKIP() << "the shared instances are not part of the tree";
    const LayerShape shape(*graph);
    expect_connected(shape);
    for (std::size_t layer = 0; layer < shape.adjacent.size(); ++layer) {
      const std::int64_t needed = std::max(shape.widths[layer], shape.widths[layer + 1]);
      const std::int64_t free = shape.widths[layer] * shape.widths[layer + 1] - needed;
      EXPECT_EQ(shape.adjacent[layer], needed + (free + 2) / 5) << name << ", layer " << layer;
    }
    EXPECT_EQ(graph->ops.front().duration, Duration(0));
    EXPECT_EQ(graph->ops.back().duration, Duration(0));
    EXPECT_TRUE(std::none_of(graph->tensors.begin(), graph->tensors.end(), [](const Tensor& t) { return t.keep; }));
  }
}

TEST(PublishedLayered, LookLikeTheGenerated) {
  for (const std::size_t i : {0U, 2U}) {
    const std::optional<Graph> graph = published_member("rl" + std::to_string(kPublished.at(i).first));
    if (!graph) GTEST_SKIP() << "the shared instances are not part of the tree";
    const LayerShape published(*graph);
    constexpr int kSeeds = 40;
    double depth = 0;
    double density = 0;
    double correlation = 0;
    for (std::int64_t seed = 1; seed <= kSeeds; ++seed) {
      const LayerShape generated(published_size(i, seed));
      EXPECT_EQ(generated.edges, published.edges);
      EXPECT_NEAR(generated.skip_share(), published.skip_share(), 0.01);
      depth += generated.depth() / double{kSeeds};
      density += generated.density() / double{kSeeds};
      correlation += generated.correlation() / double{kSeeds};
    }
    EXPECT_NEAR(depth, published.depth(), 0.1 * published.depth());
    EXPECT_NEAR(density, published.density(), 0.02);
    EXPECT_NEAR(correlation, published.correlation(), 0.03);
  }
}

}  // namespace
}  // namespace remora::generate
