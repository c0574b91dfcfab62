// SPDX-License-Identifier: Apache-2.0
#include "engine/order/window_worker.hpp"

#include <algorithm>
#include <cmath>

#include "engine/order/down_set_beam.hpp"

namespace remora {
namespace {

constexpr int kLeastWindow = 16;
constexpr int kMostWindow = 2048;
/// A window's beam is so wide that it takes about this effort.
constexpr std::int64_t kBeamEffort = 500'000;
/// Of a state and each of its nodes.
constexpr int kEffortOfState = 32;
constexpr int kLeastWidth = 4;

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
  const int before = static_cast<int>(random_.below(static_cast<std::size_t>(size)));
  const int first = std::clamp(draw_place() - before, 0, profile_->size() - size);
  const OrderWindow window(*profile_, first, size);
  DownSetBeam beam(window, round.interrupted, random_);
  const std::int64_t width = std::max<std::int64_t>(kLeastWidth, kBeamEffort / kEffortOfState / size);
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
  const int most = std::min(kMostWindow, profile_->size());
  const int least = std::min(kLeastWindow, most);
  // Each order of magnitude is as likely.
  return static_cast<int>(std::lround(least * std::pow(static_cast<double>(most) / least, random_.unit())));
}

}  // namespace remora
