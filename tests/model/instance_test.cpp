// SPDX-License-Identifier: Apache-2.0
#include "model/instance.hpp"

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

TEST(Instance, TensorsWithoutProducerCountAsBaseMemoryAndAreNoInputs) {
  Graph graph;
  graph.fixed_memory = Bytes(100);
  const TensorId data = graph.add_tensor("data", Bytes(7));
  const TensorId out = graph.add_tensor("out", Bytes(5), true);
  graph.add_op({.name = "A", .duration = Duration(1), .workspace = Bytes(3), .inputs = {data}, .outputs = {out}});
  const Instance instance(std::make_shared<const Graph>(graph), {});
  EXPECT_EQ(instance.base_memory(), Bytes(107));
  EXPECT_TRUE(instance.inputs(OpId(0)).empty());
  EXPECT_EQ(instance.footprint(OpId(0)), Bytes(115));
}

TEST(Instance, RepeatedInputsCountOnce) {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(4));
  const TensorId b = graph.add_tensor("b", Bytes(4));
  graph.add_op({.name = "A", .outputs = {a}});
  graph.add_op({.name = "B", .inputs = {a, a}, .outputs = {b}});
  const Instance instance(std::make_shared<const Graph>(graph), {});
  EXPECT_EQ(instance.inputs(OpId(1)).size(), 1U);
  EXPECT_EQ(instance.users(a).size(), 1U);
  EXPECT_EQ(instance.footprint(OpId(1)), Bytes(8));
}

TEST(Instance, ComputesAreLimitedByOptionOpAndUse) {
  Graph graph;
  std::vector<TensorId> t;
  for (int i = 0; i < 5; ++i) t.push_back(graph.add_tensor("t" + std::to_string(i), Bytes(1)));
  graph.add_op({.name = "free", .outputs = {t[0]}});
  graph.add_op({.name = "never", .outputs = {t[1]}, .recompute = false});
  graph.add_op({.name = "own", .outputs = {t[2]}, .max_computes = 2});
  graph.add_op({.name = "wide", .outputs = {t[3]}, .max_computes = 9});
  graph.add_op({.name = "dead end", .inputs = {t[0], t[1], t[2], t[3]}, .outputs = {t[4]}});
  const Instance instance(std::make_shared<const Graph>(graph), {.max_computes = 3});
  EXPECT_EQ(instance.max_computes(OpId(0)), 3);
  EXPECT_EQ(instance.max_computes(OpId(1)), 1);
  EXPECT_EQ(instance.max_computes(OpId(2)), 2);
  EXPECT_EQ(instance.max_computes(OpId(3)), 3);
  EXPECT_EQ(instance.max_computes(OpId(4)), 1);
}

TEST(Instance, NoOpRunsMoreOftenThanOnceAStage) {
  const Instance instance(test::figure_1(), {.max_computes = 1'000'000'000});
  EXPECT_EQ(instance.max_computes(OpId(0)), 6);
  EXPECT_EQ(instance.max_computes(OpId(3)), 3);
}

TEST(Instance, OfAnotherProblemIsAsMadeForIt) {
  const auto graph = test::figure_1();
  const Problem problem{.budget = Bytes(100), .max_computes = 3, .order = OrderMode::free};
  const Instance made(graph, problem);
  const Instance changed = Instance(graph, {.max_computes = 7}).with_problem(problem);
  EXPECT_EQ(changed.budget(), made.budget());
  EXPECT_EQ(changed.problem().order, made.problem().order);
  EXPECT_EQ(changed.baseline_duration(), made.baseline_duration());
  EXPECT_EQ(changed.all_recomputes(), made.all_recomputes());
  for (const OpId op : made.ops()) {
    EXPECT_EQ(changed.max_computes(op), made.max_computes(op));
    EXPECT_EQ(changed.footprint(op), made.footprint(op));
  }
  EXPECT_THROW(static_cast<void>(made.with_problem({.budget = Bytes(-1)})), InputError);
  EXPECT_THROW(static_cast<void>(made.with_problem({.max_computes = 0})), InputError);
}

TEST(Instance, NeedsAGraph) {
  EXPECT_THROW(Instance(nullptr, {}), InputError);
}

TEST(Instance, RefusesBadOptionsAndBadGraphs) {
  EXPECT_THROW(Instance(test::figure_1(), {.budget = Bytes(-1)}), InputError);
  EXPECT_THROW(Instance(test::figure_1(), {.max_computes = 0}), InputError);
  Graph graph;
  graph.add_tensor("a", Bytes(-4));
  EXPECT_THROW(Instance(std::make_shared<const Graph>(graph), {}), InputError);
}

}  // namespace
}  // namespace remora
