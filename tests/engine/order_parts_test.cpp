// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "engine/order/exact_order.hpp"
#include "engine/order/minimise_peak.hpp"
#include "engine/order/peak_bound.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/order_oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

/// Groups of one to three ops, with an op between two of them that comes after the first and before the second; by data
/// or by precedence alone. Tensors are read across, some are kept, some are not read.
std::shared_ptr<const Graph> jointed_graph(std::mt19937& random) {
  Graph graph;
  if (random() % 3 == 0) graph.fixed_memory = Bytes(4);
  std::vector<TensorId> written;
  OpId joint;
  std::vector<OpId> group;
  const auto add = [&](std::vector<OpId> after) {
    const std::string name = std::to_string(graph.ops.size());
    Op op{.name = name, .duration = Duration(1), .workspace = Bytes(random() % 4 == 0 ? 3 : 0)};
    for (std::size_t i = random() % 3; i > 0 && !written.empty(); --i) {
      op.inputs.push_back(written[random() % written.size()]);
    }
    op.after = std::move(after);
    op.outputs.push_back(graph.add_tensor(name, Bytes(static_cast<std::int64_t>(random() % 9)), random() % 8 == 0));
    written.push_back(op.outputs.front());
    graph.add_op(std::move(op));
    return OpId(graph.ops.size() - 1);
  };
  for (std::size_t groups = 2 + random() % 2; groups > 0; --groups) {
    group.clear();
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      group.push_back(add(joint.valid() ? std::vector<OpId>{joint} : std::vector<OpId>{}));
    }
    if (groups > 1 && graph.ops.size() < 6) joint = add(group);
  }
  while (graph.ops.size() > 9) graph.ops.pop_back();
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(FixedNodes, AreThoseBeforeOrAfterEveryOther) {
  std::mt19937 random(71);
  int some = 0;
  for (int round = 0; round < test::fewer(4000); ++round) {
    SCOPED_TRACE(round);
    const auto graph = round % 2 == 0 ? jointed_graph(random) : test::random_graph(random, {.most_ops = 8});
    const Instance instance(graph, {});
    const OrderProblem problem(instance);
    std::vector<bool> found(static_cast<std::size_t>(problem.node_count()));
    for (const NodeId node : fixed_nodes(problem)) found[static_cast<std::size_t>(node)] = true;
    ASSERT_EQ(found, test::fixed(problem));
    some += std::find(found.begin(), found.end(), true) != found.end() ? 1 : 0;
  }
  EXPECT_GT(some, test::fewer(2000));
}

TEST(OrderParts, HaveTheMemoryOfTheWholeWhateverTheOrder) {
  std::mt19937 random(72);
  Random noise(72);
  int several = 0;
  for (int round = 0; round < test::fewer(4000); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(jointed_graph(random), {});
    const OrderProblem problem(instance);
    const OrderParts split = split_at_fixed_nodes(problem);
    several += split.parts.size() > 1 ? 1 : 0;
    const std::vector<NodeId> order = list_order(problem, 5, noise);
    const std::vector<Bytes> memory = memory_of(problem, order);
    Bytes peak = split.fixed;
    for (const OrderPart& part : split.parts) {
      std::vector<NodeId> inside;
      for (int i = part.begin; i < part.end; ++i) inside.emplace_back(order[static_cast<std::size_t>(i)] - part.begin);
      ASSERT_TRUE(is_valid(part.problem, inside));
      const std::vector<Bytes> there = memory_of(part.problem, inside);
      ASSERT_TRUE(std::equal(there.begin(), there.end(), memory.begin() + part.begin));
      peak = std::max(peak, peak_of(part.problem, inside));
    }
    ASSERT_EQ(peak, peak_of(problem, order));
  }
  EXPECT_GT(several, test::fewer(1000));
}

TEST(OrderParts, EachAtItsBestMakeTheBestOfAllOrders) {
  std::mt19937 random(73);
  for (int round = 0; round < test::fewer(2000); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(jointed_graph(random), {});
    const OrderProblem problem(instance);
    const Bytes truth = test::least_peak(problem);
    const OrderParts split = split_at_fixed_nodes(problem);
    Bytes peak = split.fixed;
    for (const OrderPart& part : split.parts) {
      const Bytes least = test::least_peak(part.problem);
      EXPECT_EQ(exact_order(part.problem, {}).peak, least);
      peak = std::max(peak, least);
    }
    ASSERT_EQ(peak, truth);
    const PartwiseResult result = exact_order_by_parts(problem, given_order(problem), {});
    ASSERT_TRUE(result.proved());
    ASSERT_EQ(result.peak, truth);
    ASSERT_TRUE(is_valid(problem, result.order));
    ASSERT_EQ(peak_of(problem, result.order), truth);
  }
}

TEST(OrderParts, OfAChainAreNone) {
  Graph graph;
  TensorId last;
  for (int i = 0; i < 1000; ++i) {
    Op op{.name = std::to_string(i), .duration = Duration(1)};
    if (i > 0) op.inputs.push_back(last);
    last = graph.add_tensor(std::to_string(i), Bytes(i % 7));
    op.outputs.push_back(last);
    graph.add_op(std::move(op));
  }
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  const OrderProblem problem(instance);
  const PartwiseResult result = exact_order_by_parts(problem, given_order(problem), {});
  EXPECT_EQ(result.parts, 0);
  EXPECT_TRUE(result.proved());
  EXPECT_EQ(result.peak, Bytes(11));
}

TEST(PeakBound, IsTheLargestOfEachNodesLeastMemory) {
  std::mt19937 random(74);
  int raised = 0;
  int tight = 0;
  const int rounds = test::fewer(3000);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.most_ops = 8}), {});
    const OrderProblem problem(instance);
    const Bytes bound = peak_bound(problem, given_order(problem), {}).bytes;
    const Bytes truth = test::least_peak(problem);
    ASSERT_EQ(bound, test::node_bound(problem));
    ASSERT_LE(bound, truth);
    ASSERT_GE(bound, largest_footprint(problem));
    raised += bound > largest_footprint(problem) ? 1 : 0;
    tight += bound == truth ? 1 : 0;
  }
  EXPECT_GT(raised, rounds / 10);
  EXPECT_GT(tight, rounds / 2);
}

TEST(PeakBound, IsOneStillWhereItStopsEarly) {
  std::mt19937 random(75);
  int lower = 0;
  for (int round = 0; round < test::fewer(1000); ++round) {
    SCOPED_TRACE(round);
    const Instance instance(test::random_graph(random, {.least_ops = 6, .most_ops = 12}), {});
    const OrderProblem problem(instance);
    const std::vector<NodeId> known = given_order(problem);
    const Bytes full = peak_bound(problem, known, {}).bytes;
    const Bytes limited = peak_bound(problem, known, {.work_limit = 1}).bytes;
    EXPECT_LE(limited, full);
    EXPECT_EQ(peak_bound(problem, known, {.interrupted = [] { return true; }}).bytes, largest_footprint(problem));
    lower += limited < full ? 1 : 0;
  }
  EXPECT_GT(lower, 0);
}

}  // namespace
}  // namespace remora
