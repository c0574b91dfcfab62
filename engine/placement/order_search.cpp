// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/order_search.hpp"

#include <cmath>
#include <optional>

namespace remora::placement {
namespace {

/// Blame is drawn up to this factor: equal steps go round in circles.
constexpr double kMostBlame = 1.5;
/// So many placements without a smaller arena, and the order begins anew, disturbed.
constexpr int kPatience = 60;
constexpr double kDisturbance = 1.3;

}  // namespace

OrderSearch::OrderSearch(const Part& part, Choice choice, std::uint64_t seed)
    : part_(part), random_(seed), first_(worth_by(part, choice)), worth_(first_) {}

std::vector<Units> OrderSearch::next(Bytes goal, const std::function<bool()>& stopped) {
  std::optional<std::vector<Units>> offsets = valley_fit(part_, worth_, stopped);
  if (!offsets) return {};
  for (int i = 0; i < part_.count(); ++i) {
    const Bytes end = part_.bytes((*offsets)[at(i)]) + part_.items[at(i)].bytes;
    if (end > goal) worth_[at(i)].first *= 1 + (kMostBlame - 1) * random_.unit();
  }
  const Bytes arena = part_.arena(*offsets);
  if (arena < best_) {
    best_ = arena;
    since_ = 0;
  } else if (++since_ >= kPatience) {
    best_ = Bytes::max();
    since_ = 0;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      worth_[i] = {first_[i].first * std::pow(kDisturbance, random_.unit()), first_[i].second};
    }
  }
  return *std::move(offsets);
}

}  // namespace remora::placement
