// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/layered.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "frontends/generate/layers.hpp"
#include "model/random.hpp"

namespace remora::generate {
namespace {

constexpr double kNarrowest = 0.27;
constexpr double kMiddle = 0.35;
constexpr double kWidest = 0.43;

/// w. Layers of uniform widths with mean m have N (1 + 0.2 m) adjacent edges at density 0.2: the wider of two has 5/4 m
/// ops on average, the pairs are m^2. These are 86 % of all.
double choose_width(const LayeredOptions& options) {
  if (options.width) return *options.width;
  if (!options.edges) return kMiddle;
  const auto ops = static_cast<double>(options.ops);
  const double degree = static_cast<double>(*options.edges) * 0.86 / ops;
  const double mean = (degree - 1) / 0.2;
  return std::clamp(mean / 2 / std::sqrt(ops), kNarrowest, kWidest);
}

/// Whole numbers around `mean`, the sum of twelve uniform ones: nearly normal, and the same on every platform, which a
/// logarithm is not.
std::int64_t draw_bell(std::int64_t mean, std::int64_t deviation, Random& random) {
  constexpr int kTerms = 12;
  constexpr std::int64_t kValues = 1 << 16;  // the deviation of the sum, too
  std::int64_t sum = -kTerms * (kValues - 1) / 2;
  for (int i = 0; i < kTerms; ++i) sum += static_cast<std::int64_t>(random.below(kValues));
  return mean + deviation * sum / kValues;
}

Bytes draw_size(Random& random) {
  constexpr std::int64_t kUnit = 10;
  constexpr std::int64_t kLargest = 8000;
  const bool small = random.below(10) < 6;
  while (true) {
    const std::int64_t drawn = small ? draw_bell(600, 1000, random) : draw_bell(3500, 1400, random);
    const std::int64_t size = drawn / kUnit * kUnit;
    if (size >= kUnit && size <= kLargest) return Bytes(size);
  }
}

std::string meta_text(const LayeredOptions& options, double width) {
  std::ostringstream text;
  text << R"({"source":"remora generate layered","paper":"Gagrani et al. 2022, appendix A","width":)" << width
       << R"(,"seed":)" << options.seed << "}";
  return std::move(text).str();
}

Op make_op(std::size_t position, std::vector<TensorId> inputs, bool end, Graph& graph, Random& random) {
  constexpr std::size_t kLongest = 1000;
  const std::string number = std::to_string(position);
  const TensorId output = graph.add_tensor("t" + number, draw_size(random));
  const auto duration = end ? 0 : static_cast<std::int64_t>(random.below(kLongest + 1));
  std::sort(inputs.begin(), inputs.end());
  return {.name = "op" + number, .duration = Duration(duration), .inputs = std::move(inputs), .outputs = {output}};
}

/// The ops in `order`, their numbers in `predecessors`.
void fill(Graph& graph, const std::vector<std::vector<int>>& predecessors, const std::vector<int>& order,
          Random& random) {
  graph.tensors.reserve(order.size());
  graph.ops.reserve(order.size());
  std::vector<TensorId> outputs(order.size());
  for (std::size_t position = 0; position < order.size(); ++position) {
    const auto op = static_cast<std::size_t>(order[position]);
    std::vector<TensorId> inputs;
    inputs.reserve(predecessors[op].size());
    for (const int before : predecessors[op]) inputs.push_back(outputs[static_cast<std::size_t>(before)]);
    const bool end = position == 0 || position + 1 == order.size();
    graph.add_op(make_op(position, std::move(inputs), end, graph, random));
    outputs[op] = graph.ops.back().outputs.front();
  }
}

}  // namespace

Graph generate_layered(const LayeredOptions& options) {
  check_options(options, kLayeredTable);
  Random random(static_cast<std::uint64_t>(options.seed));
  const double width = choose_width(options);
  const auto ops = static_cast<int>(options.ops);
  const double mean = std::clamp(2 * width * std::sqrt(static_cast<double>(ops)), 1.0, std::max(1.0, ops - 2.0));
  const Layers layers = draw_layers(ops, mean, random);
  const EdgeCounts counts = options.edges ? split_counts(layers, *options.edges) : natural_counts(layers);
  if (counts.total() > kMostEdges) {
    throw InputError("--edges", "missing: the density alone gives " + std::to_string(counts.total()) +
                                    " edges, more than " + std::to_string(kMostEdges));
  }
  const std::vector<std::vector<int>> predecessors = draw_edges(layers, counts, random);
  Graph graph{.name = "layered-" + std::to_string(ops) + "-" + std::to_string(counts.total()) + "-" +
                      std::to_string(options.seed)};
  graph.meta = meta_text(options, width);
  fill(graph, predecessors, depth_first_order(predecessors, random), random);
  return graph;
}

}  // namespace remora::generate
