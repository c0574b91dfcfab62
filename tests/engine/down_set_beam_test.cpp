// SPDX-License-Identifier: Apache-2.0
//
// Windows of an order, put into another order by beam search over down-sets.
#include "engine/order/down_set_beam.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

constexpr std::int64_t kMuch = 10'000'000;
constexpr int kWide = 10'000;

class Windows : public testing::Test {
 protected:
  std::optional<std::vector<NodeId>> search(const OrderProfile& profile, int first, int size, Bytes target, int width,
                                            std::int64_t effort = kMuch) {
    const OrderWindow window(profile, first, size);
    const std::function<bool()> never = [] { return false; };
    return DownSetBeam(window, never, random_).run(target, width, effort);
  }

  OrderProblem next_problem(int most_ops) {
    return OrderProblem(Instance(test::random_graph(graphs_, {.least_ops = 2, .most_ops = most_ops}), {}));
  }

  std::mt19937 graphs_{11};
  Random random_{1};
};

/// The least peak of a window over all orders of its nodes.
Bytes least_peak(OrderProfile& profile, int first, int size) {
  std::vector<NodeId> nodes(profile.order().begin() + first, profile.order().begin() + first + size);
  const std::vector<NodeId> given = nodes;
  std::sort(nodes.begin(), nodes.end());
  Bytes least = Bytes::max();
  do {
    std::vector<NodeId> order = profile.order();
    std::copy(nodes.begin(), nodes.end(), order.begin() + first);
    if (!is_valid(profile.problem(), order)) continue;
    profile.rearrange(first, nodes);
    Bytes peak;
    for (int place = first; place < first + size; ++place) peak = std::max(peak, profile.memory(place));
    least = std::min(least, peak);
  } while (std::next_permutation(nodes.begin(), nodes.end()));
  profile.rearrange(first, given);
  return least;
}

TEST_F(Windows, AWideBeamIsExact) {
  for (int round = 0; round < 60; ++round) {
    const OrderProblem problem = next_problem(20);
    OrderProfile profile(problem, given_order(problem));
    const int size = std::min(6, profile.size());
    const int first = static_cast<int>(random_.below(static_cast<std::size_t>(profile.size() - size + 1)));
    const Bytes least = least_peak(profile, first, size);
    EXPECT_FALSE(search(profile, first, size, least - Bytes(1), kWide));
    const auto order = search(profile, first, size, least, kWide);
    ASSERT_TRUE(order);
    profile.rearrange(first, *order);
    EXPECT_TRUE(is_valid(problem, profile.order()));
    for (int place = first; place < first + size; ++place) EXPECT_LE(profile.memory(place), least);
    EXPECT_EQ(profile.peak(), peak_of(problem, profile.order()));
  }
}

TEST_F(Windows, ANarrowBeamFindsValidOrdersUnderTheTarget) {
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    const OrderProblem problem = next_problem(60);
    const OrderProfile profile(problem, given_order(problem));
    const auto order = search(profile, 0, profile.size(), profile.peak() - Bytes(1), 2);
    if (!order) continue;
    ++found;
    ASSERT_TRUE(is_valid(problem, *order));
    EXPECT_LT(peak_of(problem, *order), profile.peak());
  }
  EXPECT_GT(found, 0);
}

TEST_F(Windows, TheEffortIsBounded) {
  const OrderProblem problem = next_problem(40);
  const OrderProfile profile(problem, given_order(problem));
  EXPECT_TRUE(search(profile, 0, profile.size(), profile.peak(), kWide, 1'000'000'000));
  EXPECT_FALSE(search(profile, 0, profile.size(), profile.peak(), kWide, -1));
}

}  // namespace
}  // namespace remora
