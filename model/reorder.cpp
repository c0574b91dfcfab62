// SPDX-License-Identifier: Apache-2.0
#include "model/reorder.hpp"

#include "model/ensure.hpp"

namespace remora {

std::vector<OpId> places_in(std::span<const OpId> order) {
  std::vector<OpId> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    ensure(order[i].valid() && static_cast<std::size_t>(order[i]) < order.size() && !places[order[i]].valid(),
           "reorder: not every op once");
    places[order[i]] = OpId(i);
  }
  return places;
}

Graph reordered(const Graph& graph, std::span<const OpId> order) {
  ensure(order.size() == graph.ops.size(), "reorder: not every op once");
  const std::vector<OpId> places = places_in(order);
  Graph result = graph;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Op& op = result.ops[i];
    op = graph.ops[order[i]];
    if (op.backward_of.valid()) op.backward_of = places[op.backward_of];
    for (OpId& earlier : op.after) earlier = places[earlier];
  }
  return result;
}

}  // namespace remora
