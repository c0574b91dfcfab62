// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_cursor.hpp"

namespace remora {

OrderCursor::OrderCursor(const OrderProblem& problem)
    : problem_(problem),
      places_(static_cast<std::size_t>(problem.node_count())),
      done_((static_cast<std::size_t>(problem.node_count()) + 63) / 64),
      resident_(problem.base_memory()) {
  const auto nodes = static_cast<std::size_t>(problem.node_count());
  running_.reserve(nodes);
  leaves_.reserve(nodes);
  waiting_.reserve(nodes);
  for (int i = 0; i < problem.node_count(); ++i) {
    const NodeId node(i);
    Bytes leaves;
    for (const BufferId buffer : problem.writes(node)) {
      if (problem.keep(buffer) || !problem.readers(buffer).empty()) leaves += problem.size(buffer);
    }
    leaves_.push_back(leaves);
    running_.push_back(running(problem, node));
    waiting_.push_back(static_cast<int>(problem.predecessors(node).size()));
    if (waiting_.back() != 0) continue;
    places_[static_cast<std::size_t>(i)] = ready_.size();
    ready_.push_back(node);
  }
  unread_.reserve(static_cast<std::size_t>(problem.buffer_count()));
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    if (!problem.writer(buffer).valid()) resident_ += problem.size(buffer);
    // A kept buffer is never read out.
    unread_.push_back(static_cast<int>(problem.readers(buffer).size()) + (problem.keep(buffer) ? 1 : 0));
  }
}

Bytes OrderCursor::left_by(NodeId node) const {
  Bytes left = resident_ + leaves_[static_cast<std::size_t>(node)];
  for (const BufferId buffer : problem_.reads(node)) {
    if (unread_[static_cast<std::size_t>(buffer)] == 1) left -= problem_.size(buffer);
  }
  return left;
}

void OrderCursor::run(NodeId node) {
  resident_ = left_by(node);
  for (const BufferId buffer : problem_.reads(node)) --unread_[static_cast<std::size_t>(buffer)];
  done_[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(node) % 64);
  const std::size_t place = places_[static_cast<std::size_t>(node)];
  ready_[place] = ready_.back();
  places_[static_cast<std::size_t>(ready_[place])] = place;
  // Also where it was the last itself, whose place must not change.
  places_[static_cast<std::size_t>(node)] = place;
  ready_.pop_back();
  for (const NodeId later : problem_.successors(node)) {
    if (--waiting_[static_cast<std::size_t>(later)] != 0) continue;
    places_[static_cast<std::size_t>(later)] = ready_.size();
    ready_.push_back(later);
  }
}

void OrderCursor::undo(NodeId node) {
  for (const NodeId later : problem_.successors(node)) {
    if (waiting_[static_cast<std::size_t>(later)]++ == 0) ready_.pop_back();
  }
  const std::size_t place = places_[static_cast<std::size_t>(node)];
  if (place == ready_.size()) {
    ready_.push_back(node);
  } else {
    ready_.push_back(ready_[place]);
    places_[static_cast<std::size_t>(ready_.back())] = ready_.size() - 1;
    ready_[place] = node;
  }
  done_[static_cast<std::size_t>(node) / 64] &= ~(std::uint64_t{1} << (static_cast<unsigned>(node) % 64));
  for (const BufferId buffer : problem_.reads(node)) ++unread_[static_cast<std::size_t>(buffer)];
  resident_ -= leaves_[static_cast<std::size_t>(node)];
  for (const BufferId buffer : problem_.reads(node)) {
    if (unread_[static_cast<std::size_t>(buffer)] == 1) resident_ += problem_.size(buffer);
  }
}

}  // namespace remora
