// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_workers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/order/down_set_beam.hpp"
#include "engine/order/order_profile.hpp"

namespace remora {
namespace {

constexpr double kLastPart = 0.02;
constexpr double kGrowth = 1.5;
/// How far below the best peak the target of a cooling is, a part of it.
constexpr std::array kBelow{0.002, 0.03, 0.1, 0.01};
constexpr double kHotShare = 0.5;
constexpr double kBlockShare = 0.02;
constexpr int kMaxBlock = 200;
/// A step counts at least as much.
constexpr std::int64_t kStepEffort = 20;
/// After so much effort the clock is looked at.
constexpr std::int64_t kLookEffort = 100'000;

double mean_size(const OrderProblem& problem) {
  double total = 0;
  for (int b = 0; b < problem.buffer_count(); ++b) total += static_cast<double>(problem.size(BufferId(b)).count());
  return std::max(1.0, total / std::max(1, problem.buffer_count()));
}

}  // namespace

OrderFind OrderAnnealer::run(const OrderRound& round) {
  OrderFind find;
  if (round.problem.node_count() < 2) return find;
  if (!walk_) begin(round);
  find.peak = round.peak;
  best_ = round.peak;
  aim();
  const std::int64_t first = effort();
  while (effort() - first < round.effort && find.peak > round.enough) {
    if (effort() >= next_look_) {
      next_look_ = effort() + kLookEffort;
      if (round.interrupted()) break;
    }
    step();
    if (better_peak()) {
      find.peak = walk_->profile.peak();
      find.order = walk_->profile.order();
      best_ = find.peak;
      aim();
    }
    if (walk_->cooling.cold(effort())) begin_cooling(round, find);
  }
  find.effort = effort() - first;
  return find;
}

void OrderAnnealer::begin(const OrderRound& round) {
  Cooling::Settings cooling;
  cooling.first_temperature = settings_.temperature * mean_size(round.problem);
  cooling.last_part = kLastPart;
  cooling.first_effort = settings_.effort * round.problem.node_count();
  cooling.growth = kGrowth;
  walk_.emplace(Walk{OrderProfile(round.problem, round.order), Cooling(cooling)});
  walk_->taken.resize(round.problem.node_count());
}

void OrderAnnealer::begin_cooling(const OrderRound& round, const OrderFind& find) {
  if (settings_.from_best) walk_->profile.reset(find.order.empty() ? round.order : find.order);
  walk_->cooling.begin_again(effort());
  ++coolings_;
  aim();
}

void OrderAnnealer::aim() {
  const double below = kBelow[(settings_.first_target + coolings_) % kBelow.size()];
  const auto less = static_cast<std::int64_t>(below * static_cast<double>(best_.count()));
  walk_->profile.set_target(best_ - Bytes(1 + less));
}

/// The overflow says it for a target nearby; for one far below the peak itself is asked now and then.
bool OrderAnnealer::better_peak() const {
  const OrderProfile& profile = walk_->profile;
  return profile.overflow() < best_ - profile.target() || (steps_ % profile.size() == 0 && profile.peak() < best_);
}

bool OrderAnnealer::accepts(Bytes more) {
  if (more <= Bytes(0)) return true;
  const double most = -walk_->cooling.temperature(effort()) * std::log(1 - random_.unit());
  return static_cast<double>(more.count()) <= most;
}

int OrderAnnealer::draw_place() {
  const std::vector<int>& hot = walk_->hot;
  const int size = walk_->profile.size();
  if (hot.empty() || random_.unit() >= kHotShare) return static_cast<int>(random_.below(at(size)));
  const int place = hot[random_.below(hot.size())];
  const int far = draw_distance(size, random_) - 1;
  return std::clamp(random_.below(2) == 0 ? place - far : place + far, 0, size - 1);
}

void OrderAnnealer::step() {
  const int size = walk_->profile.size();
  if (steps_ % size == 0) list_overflowing(walk_->profile, walk_->hot);
  ++steps_;
  step_effort_ += kStepEffort;
  const NodeId node = walk_->profile.at(draw_place());
  if (random_.unit() >= kBlockShare) {
    step_effort_ += static_cast<std::int64_t>(walk_->profile.problem().predecessors(node).size());
    move_node(node, draw_goal(walk_->profile, node, random_));
    return;
  }
  const int from = walk_->profile.place(node);
  const int far = draw_distance(std::min(size, kMaxBlock), random_);
  move_block(node, std::clamp(random_.below(2) == 0 ? from - far : from + far, 0, size - 1));
}

void OrderAnnealer::move_node(NodeId node, int place) {
  OrderProfile& profile = walk_->profile;
  if (place == profile.place(node)) return;
  if (accepts(profile.overflow_after(node, place) - profile.overflow())) profile.move(node, place);
}

/// Takes along what depends on the node, on the way to a later place, or what it depends on.
void OrderAnnealer::move_block(NodeId node, int place) {
  OrderProfile& profile = walk_->profile;
  const OrderProblem& problem = profile.problem();
  Table<NodeId, bool>& taken = walk_->taken;
  const int from = profile.place(node);
  const bool late = place > from;
  const int first = std::min(place, from);
  old_.assign(profile.order().begin() + first, profile.order().begin() + std::max(place, from) + 1);
  const auto is_taken = [&taken](NodeId other) { return taken[other]; };
  taken[node] = true;
  for (std::size_t i = 1; i < old_.size(); ++i) {
    const NodeId other = late ? old_[i] : old_[old_.size() - 1 - i];
    const auto links = late ? problem.predecessors(other) : problem.successors(other);
    taken[other] = std::any_of(links.begin(), links.end(), is_taken);
    step_effort_ += static_cast<std::int64_t>(links.size());
  }
  nodes_ = old_;
  std::stable_partition(nodes_.begin(), nodes_.end(), [&](NodeId other) { return is_taken(other) != late; });
  for (const NodeId other : old_) taken[other] = false;
  const Bytes before = profile.overflow();
  profile.rearrange(first, nodes_);
  if (!accepts(profile.overflow() - before)) profile.rearrange(first, old_);
}

namespace {

constexpr int kMinWindow = 16;
constexpr int kMaxWindow = 2048;
/// A window's beam is so wide that it takes about this effort.
constexpr std::int64_t kBeamEffort = 500'000;
/// The effort of a state and of each of its nodes.
constexpr int kEffortOfState = 32;
constexpr int kMinWidth = 4;

}  // namespace

OrderFind WindowWorker::run(const OrderRound& round) {
  OrderFind find;
  if (round.problem.node_count() < 2) return find;
  if (!profile_) {
    profile_.emplace(round.problem, round.order);
  } else {
    profile_->reset(round.order);
  }
  find.peak = round.peak;
  profile_->set_target(round.peak - Bytes(1));
  const std::int64_t first = effort_;
  while (effort_ - first < round.effort && find.peak > round.enough && !round.interrupted()) {
    improve(round);
    if (profile_->overflow() > Bytes(0)) continue;
    find.peak = profile_->peak();
    find.order = profile_->order();
    profile_->set_target(find.peak - Bytes(1));
  }
  find.effort = effort_ - first;
  return find;
}

void WindowWorker::improve(const OrderRound& round) {
  const int size = draw_size();
  const int before = static_cast<int>(random_.below(at(size)));
  const int first = std::clamp(draw_place() - before, 0, profile_->size() - size);
  const OrderWindow window(*profile_, first, size);
  DownSetBeam beam(window, round.interrupted, random_);
  const std::int64_t width = std::max<std::int64_t>(kMinWidth, kBeamEffort / kEffortOfState / size);
  const auto order = beam.run(profile_->target(), static_cast<int>(width), 4 * kBeamEffort);
  const std::int64_t looks = profile_->effort();
  if (order) profile_->rearrange(first, *order);
  effort_ += beam.effort() + (profile_->effort() - looks) + profile_->size() + size;
}

int WindowWorker::draw_place() {
  int chosen = 0;
  std::size_t seen = 0;
  for (int place = 0; place < profile_->size(); ++place) {
    if (profile_->memory(place) > profile_->target() && random_.below(++seen) == 0) chosen = place;
  }
  return chosen;
}

int WindowWorker::draw_size() {
  const int most = std::min(kMaxWindow, profile_->size());
  const int least = std::min(kMinWindow, most);
  // Each order of magnitude is as likely.
  return static_cast<int>(std::lround(least * std::pow(static_cast<double>(most) / least, random_.unit())));
}

}  // namespace remora
