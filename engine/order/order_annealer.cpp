// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_annealer.hpp"

#include <algorithm>
#include <cmath>

namespace remora {

void OrderAnnealer::begin(const OrderRound& round) {
  OrderProfile profile(round.problem, round.order);
  double total = 0;
  for (int b = 0; b < round.problem.buffer_count(); ++b) total += static_cast<double>(round.problem.size(BufferId(b)).count());
  unit_ = std::max(1.0, total / std::max(1, round.problem.buffer_count()));
  Cooling::Settings settings;
  settings.first_temperature = settings_.temperature * unit_;
  settings.last_part = settings_.last_part;
  settings.first_effort = settings_.steps * round.problem.node_count() * 50;
  settings.growth = settings_.growth;
  walk_.emplace(Walk{std::move(profile), Cooling(settings)});
  in_.resize(static_cast<std::size_t>(round.problem.node_count()));
}

void OrderAnnealer::aim(Bytes peak) {
  best_ = peak;
  const auto less = static_cast<std::int64_t>(settings_.below * static_cast<double>(peak.count()));
  walk_->profile.set_target(peak - Bytes(1 + less));
}

OrderFind OrderAnnealer::run(const OrderRound& round) {
  OrderFind find;
  if (round.problem.node_count() < 2) return find;
  if (!walk_) begin(round);
  find.peak = round.peak;
  aim(round.peak);
  const std::int64_t first = effort();
  while (effort() - first < round.effort && find.peak > round.enough) {
    if (steps_ % 64 == 0 && round.deadline.reached()) break;
    step();
    if (walk_->profile.overflow() < best_ - walk_->profile.target()) {
      find.peak = walk_->profile.peak();
      find.order = walk_->profile.order();
      aim(find.peak);
    }
    if (walk_->cooling.cold(effort())) walk_->cooling.begin_again(effort());
  }
  find.effort = effort() - first;
  return find;
}

bool OrderAnnealer::accept(Bytes overflow) {
  const double more = static_cast<double>((overflow - walk_->profile.overflow()).count());
  return more <= 0 || more <= -walk_->cooling.temperature(effort()) * std::log(1 - random_.unit());
}

int OrderAnnealer::draw_place() {
  OrderProfile& profile = walk_->profile;
  const int n = profile.size();
  if (steps_ % n == 0) {
    walk_->hot.clear();
    for (int i = 0; i < n; ++i) if (profile.memory(i) > profile.target()) walk_->hot.push_back(i);
  }
  if (walk_->hot.empty() || random_.unit() >= settings_.hot_share) return static_cast<int>(random_.below(static_cast<std::size_t>(n)));
  const int hot = walk_->hot[random_.below(walk_->hot.size())];
  const int far = static_cast<int>(std::exp(random_.unit() * std::log(static_cast<double>(n))));
  return std::clamp(random_.below(2) == 0 ? hot - far + 1 : hot + far - 1, 0, n - 1);
}

int OrderAnnealer::draw_goal(NodeId node) {
  const OrderProfile& profile = walk_->profile;
  const int earliest = profile.earliest(node);
  const int latest = profile.latest(node);
  const int from = profile.place(node);
  const int room = random_.below(2) == 0 ? latest - from : earliest - from;
  if (room == 0) return from;
  const int far = static_cast<int>(std::exp(random_.unit() * std::log(static_cast<double>(std::abs(room)) + 1)));
  return room > 0 ? std::min(latest, from + far) : std::max(earliest, from - far);
}

void OrderAnnealer::step() {
  const NodeId node = walk_->profile.at(draw_place());
  ++steps_;
  if (random_.unit() < settings_.block_share) {
    const int n = walk_->profile.size();
    const int far = static_cast<int>(std::exp(random_.unit() * std::log(std::min(n, 200))));
    const int from = walk_->profile.place(node);
    step_block(node, std::clamp(random_.below(2) == 0 ? from - far : from + far, 0, n - 1));
  } else {
    step_node(node, draw_goal(node));
  }
}

void OrderAnnealer::step_node(NodeId node, int place) {
  if (place == walk_->profile.place(node)) return;
  if (accept(walk_->profile.overflow_after(node, place))) walk_->profile.move(node, place);
}

/// With it, all of the range that it depends on, or that depends on it.
void OrderAnnealer::step_block(NodeId node, int place) {
  OrderProfile& profile = walk_->profile;
  const OrderProblem& problem = profile.problem();
  const int from = profile.place(node);
  if (place == from) return;
  const bool late = place > from;
  const int first = std::min(place, from);
  const int last = std::max(place, from);
  nodes_.clear();
  old_.assign(profile.order().begin() + first, profile.order().begin() + last + 1);
  in_[node] = true;
  const std::size_t count = old_.size();
  // along with it
  for (std::size_t k = 1; k < count; ++k) {
    const NodeId other = late ? old_[k] : old_[count - 1 - k];
    for (const NodeId next : late ? problem.predecessors(other) : problem.successors(other)) {
      if (in_[next]) { in_[other] = true; break; }
    }
  }
  for (const NodeId other : old_) if (in_[other] != late) nodes_.push_back(other);
  for (const NodeId other : old_) if (in_[other] == late) nodes_.push_back(other);
  for (const NodeId other : old_) in_[other] = false;
  const Bytes before = profile.overflow();
  profile.rearrange(first, nodes_);
  const double more = static_cast<double>((profile.overflow() - before).count());
  if (more > 0 && more > -walk_->cooling.temperature(effort()) * std::log(1 - random_.unit())) profile.rearrange(first, old_);
}

}  // namespace remora
