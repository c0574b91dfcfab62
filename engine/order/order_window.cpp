// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_window.hpp"

#include <algorithm>
#include <cstdint>

namespace remora {

OrderWindow::OrderWindow(const OrderProfile& profile, int first, int size)
    : nodes_(profile.order().begin() + first, profile.order().begin() + first + size),
      resident_(profile.resident(first)) {
  needs_.reserve(nodes_.size());
  leaves_.reserve(nodes_.size());
  const auto push_inner = [&](Adjacency<WindowNode, WindowNode>& table, std::span<const NodeId> nodes) {
    for (const NodeId node : nodes) {
      const int place = profile.place(node) - first;
      if (0 <= place && place < size) table.push(WindowNode(place));
    }
    table.end_row();
  };
  for (const NodeId node : nodes_) {
    needs_.push_back(profile.need(node));
    leaves_.push_back(profile.left(node));
    push_inner(predecessors_, profile.problem().predecessors(node));
    push_inner(successors_, profile.problem().successors(node));
  }
  index_buffers(profile, first);
}

void OrderWindow::index_buffers(const OrderProfile& profile, int first) {
  const OrderProblem& problem = profile.problem();
  const auto number = [](BufferId buffer) { return std::int32_t{buffer}; };
  std::vector<std::int32_t> inner;
  for (const NodeId node : nodes_) {
    for (const BufferId buffer : problem.reads(node)) inner.push_back(number(buffer));
  }
  std::sort(inner.begin(), inner.end());
  inner.erase(std::unique(inner.begin(), inner.end()), inner.end());
  const auto outlasts = [&](std::int32_t buffer) {
    const auto readers = problem.readers(BufferId(buffer));
    return problem.keep(BufferId(buffer)) || std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
             return profile.place(reader) >= first + size();
           });
  };
  inner.erase(std::remove_if(inner.begin(), inner.end(), outlasts), inner.end());
  sizes_.reserve(inner.size());
  for (const std::int32_t buffer : inner) {
    sizes_.push_back(problem.size(BufferId(buffer)));
    for (const NodeId reader : problem.readers(BufferId(buffer))) {
      if (profile.place(reader) >= first) readers_.push(WindowNode(profile.place(reader) - first));
    }
    readers_.end_row();
  }
  for (const NodeId node : nodes_) {
    for (const BufferId buffer : problem.reads(node)) {
      const auto found = std::lower_bound(inner.begin(), inner.end(), number(buffer));
      if (found != inner.end() && *found == number(buffer)) {
        reads_.push(WindowBuffer(static_cast<std::int32_t>(found - inner.begin())));
      }
    }
    reads_.end_row();
  }
}

}  // namespace remora
