// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_cursor.hpp"

namespace remora {

OrderCursor::OrderCursor(const OrderProblem& problem, OrderEnd end)
    : problem_(problem),
      end_(end),
      places_(static_cast<std::size_t>(problem.node_count())),
      taken_((static_cast<std::size_t>(problem.node_count()) + 63) / 64),
      resident_(problem.base_memory()) {
  const auto nodes = static_cast<std::size_t>(problem.node_count());
  running_.reserve(nodes);
  leaves_.reserve(nodes);
  waiting_.reserve(nodes);
  for (int i = 0; i < problem.node_count(); ++i) {
    const NodeId node(i);
    leaves_.push_back(leaving(problem, node));
    running_.push_back(running(problem, node));
    waiting_.push_back(static_cast<int>(needs(node).size()));
    if (waiting_.back() != 0) continue;
    places_[static_cast<std::size_t>(i)] = ready_.size();
    ready_.push_back(node);
  }
  unread_.reserve(static_cast<std::size_t>(problem.buffer_count()));
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    const bool from_first = end == OrderEnd::first;
    if (from_first ? !problem.writer(buffer).valid() : problem.keep(buffer)) resident_ += problem.size(buffer);
    unread_.push_back((problem.keep(buffer) ? 1 : 0) +
                      (from_first ? static_cast<int>(problem.readers(buffer).size()) : 0));
  }
}

Bytes OrderCursor::read_last(NodeId node, int unread) const {
  Bytes bytes;
  for (const BufferId buffer : problem_.reads(node)) {
    if (unread_[static_cast<std::size_t>(buffer)] == unread) bytes += problem_.size(buffer);
  }
  return bytes;
}

OrderCursor::Step OrderCursor::step(NodeId node) const {
  const Bytes leaves = leaves_[static_cast<std::size_t>(node)];
  const Bytes running = running_[static_cast<std::size_t>(node)];
  if (end_ == OrderEnd::first) return {resident_ + leaves - read_last(node, 1), resident_ + running};
  const Bytes before = resident_ - leaves + read_last(node, 0);
  return {before, before + running};
}

void OrderCursor::take(NodeId node) {
  resident_ = step(node).left;
  for (const BufferId buffer : problem_.reads(node)) {
    unread_[static_cast<std::size_t>(buffer)] += end_ == OrderEnd::first ? -1 : 1;
  }
  taken_[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(node) % 64);
  const std::size_t place = places_[static_cast<std::size_t>(node)];
  ready_[place] = ready_.back();
  places_[static_cast<std::size_t>(ready_[place])] = place;
  ready_.pop_back();
  for (const NodeId later : freed_by(node)) {
    if (--waiting_[static_cast<std::size_t>(later)] != 0) continue;
    places_[static_cast<std::size_t>(later)] = ready_.size();
    ready_.push_back(later);
  }
}

void OrderCursor::undo(NodeId node) {
  for (const NodeId later : freed_by(node)) {
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
  taken_[static_cast<std::size_t>(node) / 64] &= ~(std::uint64_t{1} << (static_cast<unsigned>(node) % 64));
  const Bytes leaves = leaves_[static_cast<std::size_t>(node)];
  for (const BufferId buffer : problem_.reads(node)) {
    unread_[static_cast<std::size_t>(buffer)] += end_ == OrderEnd::first ? 1 : -1;
  }
  if (end_ == OrderEnd::first) {
    resident_ += read_last(node, 1) - leaves;
  } else {
    resident_ += leaves - read_last(node, 0);
  }
}

}  // namespace remora
