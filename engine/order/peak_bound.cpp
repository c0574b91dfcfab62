// SPDX-License-Identifier: Apache-2.0
#include "engine/order/peak_bound.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>

namespace remora {

namespace {

using Network = boost::compressed_sparse_row_graph<boost::directedS>;
using Edge = boost::graph_traits<Network>::edge_descriptor;

/// The arcs as Boost wants them: ordered by where they start, and each with its reverse.
struct Arcs {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<std::int64_t> capacities;
  std::vector<Edge> reverse;
};

}  // namespace

void MinimumCut::merge() {
  const auto ends = [](const Arc& arc) { return std::tie(arc.from, arc.to); };
  // Each with its reverse, so that every arc has one even where none was given.
  const std::size_t given = arcs_.size();
  arcs_.reserve(2 * given);
  for (std::size_t i = 0; i < given; ++i) arcs_.push_back({arcs_[i].to, arcs_[i].from, 0});
  std::sort(arcs_.begin(), arcs_.end(), [&](const Arc& a, const Arc& b) { return ends(a) < ends(b); });
  std::size_t last = 0;
  for (std::size_t i = 1; i < arcs_.size(); ++i) {
    if (ends(arcs_[i]) == ends(arcs_[last])) {
      arcs_[last].capacity = std::min(kUncut, arcs_[last].capacity + arcs_[i].capacity);
    } else {
      arcs_[++last] = arcs_[i];
    }
  }
  if (!arcs_.empty()) arcs_.resize(last + 1);
}

std::int64_t MinimumCut::solve() {
  // Where two arcs have the same ends, Boost 1.74's colours do not tell the sides.
  merge();
  Arcs arcs;
  arcs.ends.reserve(arcs_.size());
  arcs.capacities.reserve(arcs_.size());
  arcs.reverse.reserve(arcs_.size());
  for (const Arc& arc : arcs_) {
    arcs.ends.emplace_back(arc.from, arc.to);
    arcs.capacities.push_back(arc.capacity);
  }
  for (const auto& [from, to] : arcs.ends) {
    const auto back = std::lower_bound(arcs.ends.begin(), arcs.ends.end(), std::pair(to, from));
    arcs.reverse.emplace_back(to, static_cast<std::size_t>(back - arcs.ends.begin()));
  }
  const std::size_t vertices = at(vertex_count_);
  const Network network(boost::edges_are_sorted, arcs.ends.begin(), arcs.ends.end(), vertices);
  std::vector<std::int64_t> residual(arcs_.size());
  std::vector<Edge> predecessors(vertices);
  std::vector<boost::default_color_type> colours(vertices);
  std::vector<std::int64_t> distances(vertices);
  const auto edge_index = boost::get(boost::edge_index, network);
  const auto vertex_index = boost::get(boost::vertex_index, network);
  const std::int64_t flow = boost::boykov_kolmogorov_max_flow(
      network, boost::make_iterator_property_map(arcs.capacities.begin(), edge_index),
      boost::make_iterator_property_map(residual.begin(), edge_index),
      boost::make_iterator_property_map(arcs.reverse.begin(), edge_index),
      boost::make_iterator_property_map(predecessors.begin(), vertex_index),
      boost::make_iterator_property_map(colours.begin(), vertex_index),
      boost::make_iterator_property_map(distances.begin(), vertex_index), vertex_index,
      static_cast<std::size_t>(kSource), static_cast<std::size_t>(kSink));
  // Vertices that the last search reached from the source; the others have no residual path from it.
  with_source_.assign(vertices, false);
  for (int i = 0; i < vertex_count_; ++i) with_source_[i] = colours[at(i)] == boost::black_color;
  return flow;
}

/// Adds buffers to the network of one call.
struct LeastResident::Uses {
  const OrderProblem& problem;
  const Table<NodeId, bool>& done;
  const Table<NodeId, int>& vertices;
  MinimumCut& cut;

  [[nodiscard]] int vertex(NodeId node) const { return vertices[node]; }

  /// True if the buffer is resident whichever nodes have run.
  [[nodiscard]] bool stays(BufferId buffer) const {
    if (problem.keep(buffer)) return true;
    for (const NodeId reader : problem.readers(buffer)) {
      if (vertex(reader) == 0 && !done[reader]) return true;
    }
    return false;
  }

  /// Pays for the buffer if `from` is on the source's side and a reader is not.
  void pay(int from, BufferId buffer) {
    std::vector<int> readers;
    for (const NodeId reader : problem.readers(buffer)) {
      if (vertex(reader) != 0) readers.push_back(vertex(reader));
    }
    if (readers.size() == 1) {
      cut.add_arc(from, readers.front(), problem.size(buffer).count());
    } else if (!readers.empty()) {
      const int middle = cut.add_vertex();
      cut.add_arc(from, middle, problem.size(buffer).count());
      for (const int reader : readers) cut.add_arc(middle, reader, MinimumCut::kUncut);
    }
  }
};

LeastResident::LeastResident(const OrderProblem& problem)
    : problem_(problem), vertices_(problem.node_count()), met_(problem.buffer_count()) {}

LeastResident::Choice LeastResident::find(const Table<NodeId, bool>& done, std::span<const NodeId> free) {
  ++call_;
  MinimumCut cut;
  for (const NodeId node : free) vertices_[node] = cut.add_vertex();
  Uses uses{problem_, done, vertices_, cut};
  Bytes entering;
  for (const NodeId node : free) {
    for (const NodeId earlier : problem_.predecessors(node)) {
      if (uses.vertex(earlier) != 0) cut.add_arc(uses.vertex(node), uses.vertex(earlier), MinimumCut::kUncut);
    }
    for (const BufferId buffer : problem_.writes(node)) {
      if (uses.stays(buffer)) {
        cut.add_arc(uses.vertex(node), MinimumCut::kSink, problem_.size(buffer).count());
      } else {
        uses.pay(uses.vertex(node), buffer);
      }
    }
    for (const BufferId buffer : problem_.reads(node)) {
      const NodeId writer = problem_.writer(buffer);
      const bool written_inside = writer.valid() && uses.vertex(writer) != 0;
      if (written_inside || met_[buffer] == call_) continue;
      met_[buffer] = call_;
      if (uses.stays(buffer)) continue;
      entering += problem_.size(buffer);
      uses.pay(MinimumCut::kSource, buffer);
    }
  }
  Choice choice;
  choice.change = Bytes(cut.solve()) - entering;
  for (const NodeId node : free) {
    if (cut.with_source(uses.vertex(node))) choice.nodes.push_back(node);
    vertices_[node] = 0;
  }
  return choice;
}

namespace {

using Nodes = Table<NodeId, bool>;

/// The nodes that `next` leads to from `from`, without it.
template <class Next>
Nodes reached(const OrderProblem& problem, NodeId from, const Next& next) {
  Nodes seen(problem.node_count());
  std::vector<NodeId> stack{from};
  while (!stack.empty()) {
    const NodeId node = stack.back();
    stack.pop_back();
    for (const NodeId other : next(node)) {
      if (seen[other]) continue;
      seen[other] = true;
      stack.push_back(other);
    }
  }
  return seen;
}

Bytes resident_after(const OrderProblem& problem, const Nodes& done) {
  Bytes resident = problem.base_memory();
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    const NodeId writer = problem.writer(buffer);
    if (writer.valid() && !done[writer]) continue;
    const auto readers = problem.readers(buffer);
    const bool wanted = std::any_of(readers.begin(), readers.end(), [&](NodeId reader) { return !done[reader]; });
    if (wanted || problem.keep(buffer)) resident += problem.size(buffer);
  }
  return resident;
}

/// The nodes by their memory in the order, largest first.
std::vector<std::pair<Bytes, NodeId>> by_memory(const OrderProblem& problem, std::span<const NodeId> order) {
  const std::vector<Bytes> memory = memory_of(problem, order);
  std::vector<std::pair<Bytes, NodeId>> nodes;
  nodes.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) nodes.emplace_back(memory[i], order[i]);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return nodes;
}

}  // namespace

Bytes largest_footprint(const OrderProblem& problem) {
  Bytes largest = problem.base_memory();
  for (int i = 0; i < problem.node_count(); ++i) {
    Bytes here = problem.base_memory() + running(problem, NodeId(i));
    for (const BufferId buffer : problem.reads(NodeId(i))) here += problem.size(buffer);
    largest = std::max(largest, here);
  }
  return largest;
}

PeakBound peak_bound(const OrderProblem& problem, std::span<const NodeId> known, const PeakBoundSettings& settings) {
  PeakBound bound{.bytes = largest_footprint(problem)};
  LeastResident least_resident(problem);
  std::vector<NodeId> free;
  for (const auto& [memory, node] : by_memory(problem, known)) {
    if (bound.bytes >= settings.enough || memory <= bound.bytes) break;
    if (bound.work >= settings.work_limit) break;
    if (settings.interrupted && settings.interrupted()) break;
    const Nodes before = reached(problem, node, [&](NodeId k) { return problem.predecessors(k); });
    const Nodes after = reached(problem, node, [&](NodeId k) { return problem.successors(k); });
    free.clear();
    for (const NodeId other : before.ids()) {
      if (other != node && !before[other] && !after[other]) free.push_back(other);
    }
    bound.work += static_cast<std::int64_t>(free.size()) + problem.node_count();
    const Bytes least = resident_after(problem, before) + least_resident.find(before, free).change;
    bound.bytes = std::max(bound.bytes, least + running(problem, node));
  }
  return bound;
}

}  // namespace remora
