// SPDX-License-Identifier: Apache-2.0
//
// The profile that is kept up while nodes move, against memory_of() of the order.
#include "engine/order/order_profile.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "engine/order/minimise_peak.hpp"
#include "model/evaluate.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

void expect_same(const OrderProfile& profile) {
  ASSERT_TRUE(is_valid(profile.problem(), profile.order()));
  const std::vector<Bytes> memory = memory_of(profile.problem(), profile.order());
  Bytes overflow;
  for (int i = 0; i < profile.size(); ++i) {
    const Bytes here = memory[static_cast<std::size_t>(i)];
    ASSERT_EQ(profile.memory(i), here) << "place " << i;
    ASSERT_EQ(profile.place(profile.at(i)), i);
    if (here > profile.target()) overflow += here - profile.target();
  }
  EXPECT_EQ(profile.overflow(), overflow);
  EXPECT_EQ(profile.peak(), peak_of(profile.problem(), profile.order()));
}

/// Each node's window is as wide as the precedences allow, and no wider.
void expect_window(const OrderProfile& profile, NodeId node) {
  const auto valid_at = [&profile, node](int place) {
    std::vector<NodeId> order = profile.order();
    order.erase(order.begin() + profile.place(node));
    order.insert(order.begin() + place, node);
    return is_valid(profile.problem(), order);
  };
  for (int place = 0; place < profile.size(); ++place) {
    EXPECT_EQ(valid_at(place), profile.earliest(node) <= place && place <= profile.latest(node));
  }
}

void move_at_random(OrderProfile& profile, std::mt19937& random) {
  const NodeId node(static_cast<std::int32_t>(random() % static_cast<unsigned>(profile.size())));
  expect_window(profile, node);
  const int from = profile.place(node);
  const int room = profile.latest(node) - profile.earliest(node) + 1;
  const int to = profile.earliest(node) + static_cast<int>(random() % static_cast<unsigned>(room));
  const Bytes before = profile.overflow();
  const Bytes after = profile.overflow_after(node, to);
  profile.move(node, to);
  EXPECT_EQ(profile.overflow(), after);
  expect_same(profile);
  if (random() % 2 == 0) return;
  profile.move(node, from);
  EXPECT_EQ(profile.overflow(), before);
  expect_same(profile);
}

/// The order's nodes of a random range as they come in another valid order.
void rearrange_at_random(OrderProfile& profile, std::mt19937& random) {
  const auto size = static_cast<unsigned>(profile.size());
  const int first = static_cast<int>(random() % size);
  const int last = first + static_cast<int>(random() % (size - static_cast<unsigned>(first)));
  Random numbers(random());
  std::vector<NodeId> nodes;
  for (const NodeId node : list_order(profile.problem(), 2, numbers)) {
    if (first <= profile.place(node) && profile.place(node) <= last) nodes.push_back(node);
  }
  profile.rearrange(first, nodes);
  expect_same(profile);
}

void change_at_random(const OrderProblem& problem, int changes, std::mt19937& random) {
  OrderProfile profile(problem, given_order(problem));
  const auto peak = static_cast<std::uint64_t>(profile.peak().count());
  for (int i = 0; i < changes; ++i) {
    if (i % 8 == 0) profile.set_target(Bytes(static_cast<std::int64_t>(random() % (peak + 1))));
    expect_same(profile);
    if (i % 4 == 3) {
      rearrange_at_random(profile, random);
    } else {
      move_at_random(profile, random);
    }
  }
  profile.reset(given_order(problem));
  expect_same(profile);
}

TEST(OrderProfile, IsTheMemoryOfTheOrderAfterEveryMove) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 1, .most_ops = 30}), {});
    change_at_random(OrderProblem(instance), 24, random);
  }
}

TEST(OrderProfile, IsTheMemoryOfSequencesWithRecomputes) {
  std::mt19937 random(8);
  const Instance instance(test::training_chain(6), {});
  for (int round = 0; round < 20; ++round) {
    Sequence sequence = input_order(instance);
    for (int i = 0; i < 5; ++i) {
      const auto place = static_cast<std::ptrdiff_t>(1 + random() % (sequence.size() - 1));
      sequence.insert(sequence.begin() + place, sequence[random() % static_cast<std::size_t>(place)]);
    }
    const OrderProblem problem(instance, sequence);
    ASSERT_TRUE(is_valid(problem, given_order(problem)));
    change_at_random(problem, 24, random);
  }
}

TEST(OrderProfile, OfNoNodesIsBaseMemory) {
  Graph graph;
  graph.fixed_memory = Bytes(3);
  const Instance instance(std::make_shared<const Graph>(graph), {});
  const OrderProblem problem(instance);
  const OrderProfile profile(problem, given_order(problem));
  EXPECT_EQ(profile.size(), 0);
  EXPECT_EQ(profile.peak(), Bytes(3));
  EXPECT_EQ(profile.overflow(), Bytes(0));
}

}  // namespace
}  // namespace remora
