// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_profile.hpp"

#include <algorithm>
#include <cmath>

namespace remora {

namespace {

constexpr std::int64_t kMaxOverflow = std::int64_t{1} << 61U;

}  // namespace

OrderProfile::OrderProfile(const OrderProblem& problem, std::span<const NodeId> order)
    : problem_(&problem),
      order_(order.size()),
      places_(order.size()),
      memory_(order.size()),
      last_readers_(problem.buffer_count()),
      final_(problem.base_memory().count()),
      marks_(problem.buffer_count()) {
  most_above_ = kMaxOverflow / std::max<std::int64_t>(1, static_cast<std::int64_t>(order.size()));
  needs_.reserve(order.size());
  leaves_.reserve(order.size());
  for (int i = 0; i < problem.node_count(); ++i) {
    for (const BufferId buffer : problem.writes(NodeId(i))) {
      if (problem.keep(buffer)) final_ += problem.size(buffer).count();
    }
    needs_.push_back(running(problem, NodeId(i)).count());
    leaves_.push_back(leaving(problem, NodeId(i)).count());
  }
  for (const BufferId buffer : last_readers_.ids()) {
    const auto readers = problem.readers(buffer);
    if (!readers.empty() && !problem.keep(buffer)) last_readers_[buffer] = readers.back();
  }
  reset(order);
}

void OrderProfile::reset(std::span<const NodeId> order) {
  rearrange(0, order);
}

Bytes OrderProfile::peak() const {
  std::int64_t peak = problem_->base_memory().count();
  for (const std::int64_t bytes : memory_) peak = std::max(peak, bytes);
  return Bytes(peak);
}

void OrderProfile::set_target(Bytes target) {
  target_ = target.count();
  overflow_ = 0;
  for (const std::int64_t bytes : memory_) overflow_ += above(bytes);
}

int OrderProfile::earliest(NodeId node) const {
  int place = 0;
  for (const NodeId earlier : problem_->predecessors(node)) place = std::max(place, this->place(earlier) + 1);
  return place;
}

int OrderProfile::latest(NodeId node) const {
  int place = size() - 1;
  for (const NodeId later : problem_->successors(node)) place = std::min(place, this->place(later) - 1);
  return place;
}

Bytes OrderProfile::overflow_after(NodeId node, int place) {
  const int from = this->place(node);
  if (place == from) return overflow();
  const bool late = place > from;
  std::int64_t shift = late ? list_steps_late(node, place) : list_steps_early(node, place);
  effort_ += late ? place - from : from - place;
  // The others move by one: places are the old ones.
  const int end = late ? place + 1 : from;
  int begin = late ? from + 1 : place;
  const std::int64_t need = needs_[node];
  std::int64_t here = resident_before(place) + need;
  std::int64_t change = -above(memory_[from]);
  for (const Step& step : steps_) {
    change += overflow_change(begin, step.place, shift);
    begin = step.place;
    shift += step.bytes;
  }
  change += overflow_change(begin, end, shift);
  if (late) here = resident_before(place + 1) + shift + need;
  return Bytes(overflow_ + change + above(here));
}

void OrderProfile::move(NodeId node, int place) {
  const int from = this->place(node);
  if (place == from) return;
  overflow_ = overflow_after(node, place).count();
  if (place > from) {
    move_late(node, place);
  } else {
    move_early(node, place);
  }
}

/// The node is gone from where it was, and its inputs stay until it runs.
std::int64_t OrderProfile::list_steps_late(NodeId node, int to) {
  steps_.clear();
  std::int64_t shift = -leaves_[node];
  for (const BufferId buffer : problem_->reads(node)) {
    const NodeId last = last_readers_[buffer];
    if (!last.valid()) continue;
    const std::int64_t bytes = problem_->size(buffer).count();
    if (last == node) {
      shift += bytes;
    } else if (place(last) <= to) {
      // The former node at that place keeps its bytes; the next one has them in addition.
      add_step(place(last) + 1, bytes);
    }
  }
  effort_ += static_cast<std::int64_t>(problem_->reads(node).size());
  return shift;
}

/// The node's outputs are resident earlier, and its inputs end earlier if no other node reads them.
std::int64_t OrderProfile::list_steps_early(NodeId node, int to) {
  steps_.clear();
  std::int64_t shift = leaves_[node];
  for (const BufferId buffer : problem_->reads(node)) {
    if (last_readers_[buffer] != node) continue;
    const NodeId other = last_other_reader(buffer, node);
    const std::int64_t bytes = problem_->size(buffer).count();
    if (other.valid() && place(other) >= to) {
      add_step(place(other) + 1, -bytes);
    } else {
      shift -= bytes;
    }
  }
  effort_ += static_cast<std::int64_t>(problem_->reads(node).size());
  return shift;
}

void OrderProfile::add_step(int place, std::int64_t bytes) {
  std::size_t i = steps_.size();
  steps_.push_back({place, bytes});
  for (; i > 0 && steps_[i - 1].place > place; --i) std::swap(steps_[i - 1], steps_[i]);
}

NodeId OrderProfile::last_other_reader(BufferId buffer, NodeId node) {
  NodeId last;
  for (const NodeId reader : problem_->readers(buffer)) {
    if (reader != node && (!last.valid() || place(reader) > place(last))) last = reader;
  }
  effort_ += static_cast<std::int64_t>(problem_->readers(buffer).size());
  return last;
}

std::int64_t OrderProfile::resident_before(int place) const {
  if (place == size()) return final_;
  return memory_[place] - needs_[at(place)];
}

std::int64_t OrderProfile::overflow_change(int begin, int end, std::int64_t shift) const {
  std::int64_t change = 0;
  for (int i = begin; i < end; ++i) {
    const std::int64_t bytes = memory_[i];
    change += above(bytes + shift) - above(bytes);
  }
  return change;
}

void OrderProfile::move_late(NodeId node, int to) {
  std::int64_t shift = list_steps_late(node, to);
  const std::int64_t after = resident_before(to + 1);
  std::size_t step = 0;
  for (int i = place(node) + 1; i <= to; ++i) {
    for (; step < steps_.size() && steps_[step].place == i; ++step) shift += steps_[step].bytes;
    put(i - 1, at(i), memory_[i] + shift);
  }
  for (; step < steps_.size(); ++step) shift += steps_[step].bytes;
  put(to, node, after + shift + needs_[node]);
  for (const BufferId buffer : problem_->reads(node)) {
    NodeId& last = last_readers_[buffer];
    if (last.valid() && place(last) < to) last = node;
  }
}

void OrderProfile::move_early(NodeId node, int to) {
  std::int64_t shift = list_steps_early(node, to);
  const std::int64_t here = resident_before(to) + needs_[node];
  std::size_t step = steps_.size();
  for (const Step& each : steps_) shift += each.bytes;
  for (int i = place(node) - 1; i >= to; --i) {
    for (; step > 0 && steps_[step - 1].place > i; --step) {
      shift -= steps_[step - 1].bytes;
    }
    put(i + 1, at(i), memory_[i] + shift);
  }
  put(to, node, here);
  for (const BufferId buffer : problem_->reads(node)) {
    NodeId& last = last_readers_[buffer];
    if (last != node) continue;
    const NodeId other = last_other_reader(buffer, node);
    if (other.valid() && place(other) > to) last = other;
  }
}

void OrderProfile::put(int place, NodeId node, std::int64_t memory) {
  order_[remora::at(place)] = node;
  places_[node] = place;
  memory_[place] = memory;
}

void OrderProfile::rearrange(int first, std::span<const NodeId> nodes) {
  const int end = first + static_cast<int>(nodes.size());
  std::int64_t resident_after = resident_before(end);
  for (int i = first; i < end; ++i) {
    const NodeId node = nodes[remora::at(i - first)];
    overflow_ -= above(memory_[i]);
    put(i, node, 0);
  }
  ++mark_;
  for (int i = end - 1; i >= first; --i) {
    const NodeId node = at(i);
    resident_after -= leaves_[node];
    for (const BufferId buffer : problem_->reads(node)) {
      NodeId& last = last_readers_[buffer];
      std::int64_t& mark = marks_[buffer];
      if (mark == mark_ || !last.valid() || place(last) >= end) continue;
      mark = mark_;
      last = node;
      resident_after += problem_->size(buffer).count();
    }
    memory_[i] = resident_after + needs_[node];
    overflow_ += above(memory_[i]);
    effort_ += static_cast<std::int64_t>(problem_->reads(node).size());
  }
  effort_ += end - first;
}

void list_overflowing(const OrderProfile& profile, std::vector<int>& places) {
  places.clear();
  for (int i = 0; i < profile.size(); ++i) {
    if (profile.memory(i) > profile.target()) places.push_back(i);
  }
}

int draw_distance(int most, Random& random) {
  return std::min(most, static_cast<int>(std::exp(random.unit() * std::log(static_cast<double>(most) + 1))));
}

int draw_goal(const OrderProfile& profile, NodeId node, Random& random) {
  const int from = profile.place(node);
  const bool late = random.below(2) == 0;
  const int room = late ? profile.latest(node) - from : from - profile.earliest(node);
  if (room == 0) return from;
  return late ? from + draw_distance(room, random) : from - draw_distance(room, random);
}

}  // namespace remora
