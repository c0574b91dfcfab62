// SPDX-License-Identifier: Apache-2.0
#include "model/cover.hpp"

#include <algorithm>

namespace remora {
namespace {

bool cheaper(const CoverOffer& a, const CoverOffer& b) {
  const Wide left = Wide{a.cost.count()} * b.gain.count();
  const Wide right = Wide{b.cost.count()} * a.gain.count();
  return left != right ? left < right : a.item < b.item;
}

/// The cost of `part` bytes at the offer's price, rounded up, but at most `most`.
Duration share(const CoverOffer& offer, Bytes part, Duration most) {
  const Wide product = Wide{offer.cost.count()} * part.count();
  const Wide rounded = (product + offer.gain.count() - 1) / offer.gain.count();
  return rounded < most.count() ? Duration(static_cast<std::int64_t>(rounded)) : most;
}

struct Knapsack {
  Duration cost{};
  /// The last offer taken.
  CoverOffer critical{};
};

Knapsack fill(Bytes excess, std::vector<CoverOffer>& offers) {
  std::sort(offers.begin(), offers.end(), cheaper);
  Duration total;
  for (const CoverOffer& offer : offers) {
    if (offer.gain >= excess) return {total + share(offer, excess, offer.cost), offer};
    total += offer.cost;
    excess -= offer.gain;
  }
  return {Duration::max(), {}};
}

}  // namespace

Duration spend_on_cover(Bytes excess, std::vector<CoverOffer>& offers) {
  const Knapsack full = fill(excess, offers);
  if (full.cost == Duration::max()) return full.cost;
  for (CoverOffer& offer : offers) {
    // An offer at most as dear as the critical one is spent whole, a more expensive one in part.
    if (cheaper(full.critical, offer)) offer.cost = share(full.critical, offer.gain, offer.cost);
  }
  return fill(excess, offers).cost;
}

}  // namespace remora
