// SPDX-License-Identifier: Apache-2.0
#include "model/cover.hpp"

#include <random>

#include <gtest/gtest.h>

namespace remora {
namespace {

/// The cheapest choice whose gains reach the excess, by trying all.
Duration cheapest_choice(Bytes excess, const std::vector<CoverOffer>& offers) {
  Duration best = Duration::max();
  for (unsigned choice = 0; choice < (1U << offers.size()); ++choice) {
    Bytes gain;
    Duration cost;
    for (std::size_t i = 0; i < offers.size(); ++i) {
      if ((choice & (1U << i)) == 0) continue;
      gain += offers[i].gain;
      cost += offers[i].cost;
    }
    if (gain >= excess) best = std::min(best, cost);
  }
  return best;
}

TEST(Cover, TheExampleOfTheHeader) {
  std::vector<CoverOffer> offers{{0, Bytes(4), Duration(4)}, {1, Bytes(3), Duration(9)}};
  EXPECT_EQ(spend_on_cover(Bytes(5), offers), Duration(7));
  EXPECT_EQ(offers[0].cost, Duration(4));
  EXPECT_EQ(offers[1].cost, Duration(9));
}

TEST(Cover, IsNeverAboveTheCheapestChoiceNorSpendsMoreThanItHas) {
  std::mt19937_64 random(51);
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t largest = round % 2 == 0 ? 12 : 100'000'000'000'000;
    std::vector<CoverOffer> offers;
    for (int i = 0; i < 6; ++i) {
      offers.push_back({i, Bytes(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest))),
                        Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest)))});
    }
    const Bytes excess(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(4 * largest)));
    const auto before = offers;
    const Duration truth = cheapest_choice(excess, offers);
    const Duration bound = spend_on_cover(excess, offers);
    ASSERT_EQ(bound == Duration::max(), truth == Duration::max());
    ASSERT_LE(bound, truth);
    for (const CoverOffer& offer : offers) {
      ASSERT_GE(offer.cost, Duration(0));
      ASSERT_LE(offer.cost, before[static_cast<std::size_t>(offer.item)].cost);
    }
    // The bound holds for the costs that were spent, too: that is what lets several events add theirs up.
    if (bound != Duration::max()) {
      ASSERT_LE(bound, cheapest_choice(excess, offers));
    }
  }
}

TEST(Cover, PricesThatDoublesCannotTellApartAreOrderedExactly) {
  // 52942900/92027939 and 57307841/99615293 are equal as doubles; by the wrong order the bound is one too high.
  std::vector<CoverOffer> offers{{0, Bytes(92027939), Duration(52942900)}, {1, Bytes(99615293), Duration(57307841)}};
  EXPECT_EQ(spend_on_cover(Bytes(99615293), offers), Duration(57307841));
}

}  // namespace
}  // namespace remora
