// SPDX-License-Identifier: Apache-2.0
#include "engine/order/down_set_beam.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace remora {

OrderWindow::OrderWindow(const OrderProfile& profile, int first, int size)
    : nodes_(std::vector<NodeId>(profile.order().begin() + first, profile.order().begin() + first + size)),
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

DownSetBeam::DownSetBeam(const OrderWindow& window, const std::function<bool()>& interrupted, Random& random)
    : window_(window), interrupted_(interrupted) {
  hashes_.reserve(window.size());
  for (int i = 0; i < window.size(); ++i) hashes_.push_back(random.next());
}

std::optional<std::vector<NodeId>> DownSetBeam::run(Bytes target, int width, std::int64_t most_effort) {
  const std::size_t size = at(window_.size());
  // By how many nodes have run: those that came there with more than one node at a time.
  std::vector<std::vector<State>> ahead(size + 1);
  std::vector<State> states;
  ahead[0].push_back(first_state());
  for (std::size_t count = 0; count < size; ++count) {
    if (effort_ > most_effort || interrupted_()) return std::nullopt;
    states = select(std::exchange(ahead[count], {}), states, width);
    candidates_.clear();
    for (std::size_t i = 0; i < states.size(); ++i) {
      run_what_is_free(states[i], target);
      const std::size_t reached = at(states[i].count);
      if (reached == size) return order_of(states[i]);
      if (reached == count) {
        expand(states[i], i, target);
      } else {
        ahead[reached].push_back(std::move(states[i]));
      }
    }
  }
  states = select(std::move(ahead[size]), states, 1);
  if (states.empty()) return std::nullopt;
  return order_of(states.front());
}

DownSetBeam::State DownSetBeam::first_state() const {
  State state;
  state.done.resize(window_.size());
  state.resident = window_.resident();
  for (int i = 0; i < window_.size(); ++i) {
    if (window_.predecessors(WindowNode(i)).empty()) state.ready.emplace_back(i);
  }
  return state;
}

Bytes DownSetBeam::resident_after(const State& state, WindowNode node) {
  Bytes resident = state.resident + window_.left(node);
  for (const WindowBuffer buffer : window_.reads(node)) {
    const auto readers = window_.readers(buffer);
    const bool last = std::all_of(readers.begin(), readers.end(),
                                  [&](WindowNode reader) { return reader == node || state.done[reader]; });
    if (last) resident -= window_.size(buffer);
    effort_ += static_cast<std::int64_t>(readers.size());
  }
  ++effort_;
  return resident;
}

bool DownSetBeam::fits(const State& state, WindowNode node, Bytes target) const {
  return state.resident + window_.need(node) <= target;
}

void DownSetBeam::execute(State& state, WindowNode node, Bytes resident) {
  state.done[node] = true;
  state.ready.erase(std::find(state.ready.begin(), state.ready.end(), node));
  for (const WindowNode later : window_.successors(node)) {
    const auto earlier = window_.predecessors(later);
    const bool ready =
        std::all_of(earlier.begin(), earlier.end(), [&state](WindowNode other) { return state.done[other]; });
    if (ready) state.ready.push_back(later);
    effort_ += static_cast<std::int64_t>(earlier.size());
  }
  state.resident = resident;
  state.hash ^= hashes_[node];
  steps_.push_back({node, state.trace});
  state.trace = static_cast<int>(steps_.size()) - 1;
  ++state.count;
}

void DownSetBeam::run_what_is_free(State& state, Bytes target) {
  for (std::size_t i = 0; i < state.ready.size();) {
    const WindowNode node = state.ready[i++];
    if (!fits(state, node, target)) continue;
    const Bytes resident = resident_after(state, node);
    if (resident > state.resident) continue;
    execute(state, node, resident);
    i = 0;
  }
}

void DownSetBeam::expand(const State& state, std::size_t index, Bytes target) {
  for (const WindowNode node : state.ready) {
    if (!fits(state, node, target)) continue;
    const std::uint64_t hash = state.hash ^ hashes_[node];
    candidates_.push_back({index, node, resident_after(state, node), hash});
  }
}

/// The best of the candidates and of the states that are there already.
std::vector<DownSetBeam::State> DownSetBeam::select(std::vector<State> states, const std::vector<State>& parents,
                                                    int width) {
  const std::size_t expanded = candidates_.size();
  for (std::size_t i = 0; i < states.size(); ++i) {
    candidates_.push_back({i, WindowNode::none(), states[i].resident, states[i].hash});
  }
  const auto key = [](const Candidate& each) { return std::tuple{each.resident, each.hash, std::int32_t{each.node}}; };
  std::sort(candidates_.begin(), candidates_.end(),
            [&key](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  const auto same = [](const Candidate& a, const Candidate& b) { return a.hash == b.hash; };
  candidates_.erase(std::unique(candidates_.begin(), candidates_.end(), same), candidates_.end());
  if (candidates_.size() > at(width)) candidates_.resize(at(width));
  effort_ += static_cast<std::int64_t>(expanded);
  std::vector<State> selected;
  selected.reserve(candidates_.size());
  for (const Candidate& candidate : candidates_) {
    if (candidate.node.valid()) {
      selected.push_back(parents[candidate.state]);
      execute(selected.back(), candidate.node, candidate.resident);
      effort_ += window_.size() / 64;
    } else {
      selected.push_back(std::move(states[candidate.state]));
    }
  }
  candidates_.clear();
  return selected;
}

std::vector<NodeId> DownSetBeam::order_of(const State& state) const {
  std::vector<NodeId> order;
  order.reserve(at(state.count));
  for (int step = state.trace; step >= 0; step = steps_[step].before) {
    order.push_back(window_.node(steps_[step].node));
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace remora
