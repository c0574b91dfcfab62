// SPDX-License-Identifier: Apache-2.0
#include "engine/order/minimum_cut.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>

namespace remora {
namespace {

using Network = boost::compressed_sparse_row_graph<boost::directedS>;
using Edge = boost::graph_traits<Network>::edge_descriptor;
using Ends = std::pair<std::size_t, std::size_t>;

}  // namespace

std::int64_t MinimumCut::solve() {
  const auto vertices = static_cast<std::size_t>(vertex_count_);
  // Each arc there and back, ordered by where they start, as the network wants them.
  std::vector<Ends> ends;
  ends.reserve(2 * arcs_.size());
  for (const Arc& arc : arcs_) {
    ends.emplace_back(arc.from, arc.to);
    ends.emplace_back(arc.to, arc.from);
  }
  std::vector<std::size_t> by_start(ends.size());
  std::iota(by_start.begin(), by_start.end(), std::size_t{0});
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](std::size_t a, std::size_t b) { return ends[a].first < ends[b].first; });
  std::vector<Ends> sorted(ends.size());
  std::vector<std::size_t> places(ends.size());
  std::vector<std::int64_t> capacities(ends.size());
  for (std::size_t i = 0; i < by_start.size(); ++i) {
    sorted[i] = ends[by_start[i]];
    places[by_start[i]] = i;
    capacities[i] = by_start[i] % 2 == 0 ? arcs_[by_start[i] / 2].capacity : 0;
  }
  std::vector<Edge> reverse(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::size_t other = i % 2 == 0 ? i + 1 : i - 1;
    reverse[places[i]] = Edge(ends[other].first, places[other]);
  }
  const Network network(boost::edges_are_sorted, sorted.begin(), sorted.end(), vertices);
  std::vector<std::int64_t> residual(ends.size());
  std::vector<Edge> predecessors(vertices);
  std::vector<boost::default_color_type> colours(vertices);
  std::vector<std::int64_t> distances(vertices);
  const auto edge_index = boost::get(boost::edge_index, network);
  const auto vertex_index = boost::get(boost::vertex_index, network);
  const std::int64_t flow = boost::boykov_kolmogorov_max_flow(
      network, boost::make_iterator_property_map(capacities.begin(), edge_index),
      boost::make_iterator_property_map(residual.begin(), edge_index),
      boost::make_iterator_property_map(reverse.begin(), edge_index),
      boost::make_iterator_property_map(predecessors.begin(), vertex_index),
      boost::make_iterator_property_map(colours.begin(), vertex_index),
      boost::make_iterator_property_map(distances.begin(), vertex_index), vertex_index,
      static_cast<std::size_t>(kSource), static_cast<std::size_t>(kSink));
  // What the last search reached from the source; the rest has no residual path from it.
  with_source_.assign(vertices, false);
  for (std::size_t i = 0; i < vertices; ++i) with_source_[i] = colours[i] == boost::black_color;
  return flow;
}

}  // namespace remora
