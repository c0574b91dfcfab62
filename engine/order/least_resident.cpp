// SPDX-License-Identifier: Apache-2.0
#include "engine/order/least_resident.hpp"

#include "engine/order/minimum_cut.hpp"

namespace remora {

/// Adds buffers to the network of one call.
struct LeastResident::Uses {
  const OrderProblem& problem;
  const std::vector<bool>& done;
  const std::vector<int>& vertices;
  MinimumCut& cut;

  [[nodiscard]] int vertex(NodeId node) const { return vertices[static_cast<std::size_t>(node)]; }

  /// Whether it stays whatever runs.
  [[nodiscard]] bool stays(BufferId buffer) const {
    if (problem.keep(buffer)) return true;
    for (const NodeId reader : problem.readers(buffer)) {
      if (vertex(reader) == 0 && !done[static_cast<std::size_t>(reader)]) return true;
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
    : problem_(problem),
      vertices_(static_cast<std::size_t>(problem.node_count())),
      met_(static_cast<std::size_t>(problem.buffer_count())) {}

LeastResident::Choice LeastResident::find(const std::vector<bool>& done, std::span<const NodeId> free) {
  ++call_;
  MinimumCut cut;
  for (const NodeId node : free) vertices_[static_cast<std::size_t>(node)] = cut.add_vertex();
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
      if (written_inside || met_[static_cast<std::size_t>(buffer)] == call_) continue;
      met_[static_cast<std::size_t>(buffer)] = call_;
      if (uses.stays(buffer)) continue;
      entering += problem_.size(buffer);
      uses.pay(MinimumCut::kSource, buffer);
    }
  }
  Choice choice;
  choice.change = Bytes(cut.solve()) - entering;
  for (const NodeId node : free) {
    if (cut.with_source(uses.vertex(node))) choice.nodes.push_back(node);
    vertices_[static_cast<std::size_t>(node)] = 0;
  }
  return choice;
}

}  // namespace remora
