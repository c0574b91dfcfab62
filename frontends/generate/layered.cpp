// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/layered.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.hpp"
#include "model/random.hpp"

namespace remora::generate {

Layers::Layers(const std::vector<int>& widths) {
  firsts_.reserve(widths.size() + 1);
  firsts_.push_back(0);
  for (const int width : widths) firsts_.push_back(firsts_.back() + width);
}

Layers draw_layers(int ops, double mean, Random& random) {
  constexpr double kVariability = 0.75;
  const int least = std::max(1, static_cast<int>(std::ceil((1 - kVariability) * mean)));
  const int most = std::max(least, static_cast<int>(std::floor((1 + kVariability) * mean)));
  std::vector<int> widths{1};
  int left = ops - 2;
  while (left > 0) {
    const int width = least + static_cast<int>(random.below(static_cast<std::size_t>(most - least) + 1));
    widths.push_back(std::min(width, left));
    left -= widths.back();
  }
  widths.push_back(1);
  return Layers(widths);
}

namespace {

constexpr std::int64_t kDensityPercent = 20;
constexpr std::int64_t kSkipPercent = 14;

/// part / whole of `amount`, to the nearest; everything at least 0.
std::int64_t share(std::int64_t amount, std::int64_t part, std::int64_t whole) {
  return (amount * part + whole / 2) / whole;
}

/// The adjacent edges from `layer` to the next: those that connect, and the pairs that are free to be edges or not.
struct Connection {
  std::int64_t needed;
  std::int64_t free;
};

Connection connection(const Layers& layers, int layer) {
  const std::int64_t from = layers.width(layer);
  const std::int64_t to = layers.width(layer + 1);
  const std::int64_t needed = std::max(from, to);
  return {needed, from * to - needed};
}

Connection all_connections(const Layers& layers) {
  Connection sum{0, 0};
  for (int layer = 0; layer + 1 < layers.count(); ++layer) {
    const Connection one = connection(layers, layer);
    sum.needed += one.needed;
    sum.free += one.free;
  }
  return sum;
}

/// The pairs of ops of inner layers two or more apart.
std::int64_t skip_pairs(const Layers& layers) {
  std::int64_t pairs = 0;
  std::int64_t above = 0;
  for (int layer = 3; layer + 1 < layers.count(); ++layer) {
    above += layers.width(layer - 2);
    pairs += above * layers.width(layer);
  }
  return pairs;
}

/// How many of `edges` edges skip layers.
std::int64_t skips_of(std::int64_t edges, std::int64_t pairs) {
  return std::min(share(edges, kSkipPercent, 100), pairs);
}

/// The least number of edges of which `adjacent` or more don't skip layers: skips_of never grows faster than the edges.
std::int64_t edges_with(std::int64_t adjacent, std::int64_t pairs) {
  std::int64_t least = adjacent;
  std::int64_t most = adjacent + pairs;
  while (least < most) {
    const std::int64_t middle = least + (most - least) / 2;
    if (middle - skips_of(middle, pairs) >= adjacent) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

/// The position in a layer of `to` ops that lies where `position` does in a layer of `from` ops, to the nearest;
/// halfway between two the even one, as in the published members.
int position_to_scale(int position, int from, int to) {
  if (from == 1) return 0;
  const std::int64_t scaled = std::int64_t{position} * (to - 1);
  const auto below = static_cast<int>(scaled / (from - 1));
  const std::int64_t twice_left = 2 * (scaled % (from - 1));
  const bool up = twice_left > from - 1 || (twice_left == from - 1 && below % 2 == 1);
  return below + (up ? 1 : 0);
}

/// Draws edges into lists of predecessors.
class EdgeDrawing {
 public:
  EdgeDrawing(const Layers& layers, Random& random)
      : layers_(layers), random_(random), predecessors_(static_cast<std::size_t>(layers.op_count())) {}

  void add_skips(std::int64_t count) {
    // Where local edges run out, in small or dense graphs, any between the same layers will do.
    constexpr int kLocalAttempts = 8;
    for (std::int64_t i = 0; i < count; ++i) {
      for (int attempt = 0; !add_skip(attempt < kLocalAttempts); ++attempt) {
      }
    }
  }

  void add_adjacent(std::int64_t count) {
    const Connection all = all_connections(layers_);
    const std::int64_t chosen = count - all.needed;
    // Free pairs so far, and the edges they have got: rounding the running sum, not each layer, meets `count` exactly.
    std::int64_t free = 0;
    std::int64_t given = 0;
    for (int layer = 0; layer + 1 < layers_.count(); ++layer) {
      const Connection one = connection(layers_, layer);
      free += one.free;
      const std::int64_t due = all.free > 0 ? share(chosen, free, all.free) : 0;
      connect(layer, one.needed + due - given);
      given = due;
    }
  }

  std::vector<std::vector<int>> take() { return std::move(predecessors_); }

 private:
  int below(std::int64_t bound) { return static_cast<int>(random_.below(static_cast<std::size_t>(bound))); }

  /// False if the edge that was drawn exists.
  bool add_skip(bool local) {
    const int last = layers_.count() - 2;
    const int from_layer = 1 + below(last - 2);
    const int to_layer = from_layer + 2 + below(last - from_layer - 1);
    const int from = below(layers_.width(from_layer));
    const int width = layers_.width(to_layer);
    const int to = local ? draw_end(position_to_scale(from, layers_.width(from_layer), width), width) : below(width);
    std::vector<int>& known = predecessors_[static_cast<std::size_t>(layers_.first(to_layer) + to)];
    if (std::find(known.begin(), known.end(), layers_.first(from_layer) + from) != known.end()) return false;
    known.push_back(layers_.first(from_layer) + from);
    return true;
  }

  /// The second end of a skip edge: from `position`, in a layer of `width` ops, up to a fifth of the layer further.
  int draw_end(int position, int width) {
    const std::int64_t reach = share(width, kDensityPercent, 100);
    return std::min(position + below(reach + 1), width - 1);
  }

  /// For each op of the wider layer the number of its neighbours.
  std::vector<int> draw_degrees(int wide, std::int64_t edges) {
    std::vector<int> degrees(static_cast<std::size_t>(wide), static_cast<int>(edges / wide));
    for (std::int64_t i = 0; i < edges % wide; ++i) ++degrees[static_cast<std::size_t>(i)];
    random_.shuffle(degrees);
    return degrees;
  }

  void connect(int layer, std::int64_t edges) {
    const bool widens = layers_.width(layer + 1) >= layers_.width(layer);
    const int wide = widens ? layer + 1 : layer;
    const int narrow = widens ? layer : layer + 1;
    const std::vector<int> degrees = draw_degrees(layers_.width(wide), edges);
    for (int i = 0; i < layers_.width(wide); ++i) {
      const int degree = degrees[static_cast<std::size_t>(i)];
      const int begin = window_begin(i, layers_.width(wide), layers_.width(narrow), degree);
      for (int j = begin; j < begin + degree; ++j) {
        const int op = layers_.first(wide) + i;
        const int neighbour = layers_.first(narrow) + j;
        predecessors_[static_cast<std::size_t>(widens ? op : neighbour)].push_back(widens ? neighbour : op);
      }
    }
  }

  /// The first of the `degree` neighbours, among `narrow` ops, of the op at position `i` of `wide` ops. The windows of
  /// neighbouring ops overlap or touch, so every op is in one.
  static int window_begin(int i, int wide, int narrow, int degree) {
    return std::clamp(position_to_scale(i, wide, narrow) - (degree - 1) / 2, 0, narrow - degree);
  }

  const Layers& layers_;
  Random& random_;
  std::vector<std::vector<int>> predecessors_;
};

}  // namespace

EdgeCounts natural_counts(const Layers& layers) {
  const Connection all = all_connections(layers);
  const std::int64_t adjacent = all.needed + share(all.free, kDensityPercent, 100);
  return {adjacent, std::min(share(adjacent, kSkipPercent, 100 - kSkipPercent), skip_pairs(layers))};
}

EdgeCounts split_counts(const Layers& layers, std::int64_t edges) {
  const Connection all = all_connections(layers);
  const std::int64_t pairs = skip_pairs(layers);
  const std::int64_t skip = skips_of(edges, pairs);
  const std::int64_t most = all.needed + all.free;
  if (edges - skip < all.needed || edges - skip > most) {
    throw InputError::of_option("edges", std::to_string(edges) +
                                             " is impossible; the layers drawn for this seed allow " +
                                             std::to_string(edges_with(all.needed, pairs)) + " to " +
                                             std::to_string(edges_with(most + 1, pairs) - 1));
  }
  return {edges - skip, skip};
}

std::vector<std::vector<int>> draw_edges(const Layers& layers, const EdgeCounts& counts, Random& random) {
  EdgeDrawing drawing(layers, random);
  drawing.add_skips(counts.skip);
  drawing.add_adjacent(counts.adjacent);
  return drawing.take();
}

std::vector<int> depth_first_order(const std::vector<std::vector<int>>& predecessors, Random& random) {
  const std::size_t count = predecessors.size();
  std::vector<std::vector<int>> successors(count);
  std::vector<std::size_t> missing(count);
  std::vector<int> ready;
  for (std::size_t op = 0; op < count; ++op) {
    missing[op] = predecessors[op].size();
    if (missing[op] == 0) ready.push_back(static_cast<int>(op));
    for (const int before : predecessors[op])
      successors[static_cast<std::size_t>(before)].push_back(static_cast<int>(op));
  }
  random.shuffle(ready);
  std::vector<int> order;
  order.reserve(count);
  std::vector<int> made_ready;
  while (!ready.empty()) {
    order.push_back(ready.back());
    ready.pop_back();
    made_ready.clear();
    for (const int after : successors[static_cast<std::size_t>(order.back())]) {
      if (--missing[static_cast<std::size_t>(after)] == 0) made_ready.push_back(after);
    }
    random.shuffle(made_ready);
    ready.insert(ready.end(), made_ready.begin(), made_ready.end());
  }
  assert(order.size() == count);
  return order;
}

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

template <class Number>
void check_range(const LayeredOption& row, Number value) {
  // Written so that NaN fails too.
  if (value >= static_cast<Number>(row.least) && value <= static_cast<Number>(row.most)) return;
  std::ostringstream text;
  text << value << " is outside " << row.least << " to " << row.most;
  throw InputError::of_option(row.name, std::move(text).str());
}

void check_options(const LayeredOptions& options) {
  for (const LayeredOption& row : kLayeredTable) {
    const auto check = [&](auto field) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(options.*field)>>) {
        check_range(row, options.*field);
      } else if (options.*field) {
        check_range(row, *(options.*field));
      }
    };
    std::visit(check, row.field);
  }
}

}  // namespace

Graph generate_layered(const LayeredOptions& options) {
  check_options(options);
  Random random(static_cast<std::uint64_t>(options.seed));
  const double width = choose_width(options);
  const auto ops = static_cast<int>(options.ops);
  const double mean = std::clamp(2 * width * std::sqrt(static_cast<double>(ops)), 1.0, std::max(1.0, ops - 2.0));
  const Layers layers = draw_layers(ops, mean, random);
  const EdgeCounts counts = options.edges ? split_counts(layers, *options.edges) : natural_counts(layers);
  if (counts.total() > kMaxEdges) {
    throw InputError::of_option("edges", "missing: the density alone gives " + std::to_string(counts.total()) +
                                             " edges, more than " + std::to_string(kMaxEdges));
  }
  const std::vector<std::vector<int>> predecessors = draw_edges(layers, counts, random);
  Graph graph{.name = "layered-" + std::to_string(ops) + "-" + std::to_string(counts.total()) + "-" +
                      std::to_string(options.seed)};
  graph.meta = meta_text(options, width);
  fill(graph, predecessors, depth_first_order(predecessors, random), random);
  return graph;
}

}  // namespace remora::generate
