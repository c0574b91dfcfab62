// SPDX-License-Identifier: Apache-2.0
//
// Modes per op by hand: what an instance and the evaluator make of them.
#include "model/modes.hpp"

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr OpId kA(0);
constexpr OpId kB(1);
constexpr OpId kC(2);
constexpr TensorId kOfA(0);
constexpr TensorId kOfB(1);

/// A (4 bytes) -> B (2 bytes) -> C (1 byte, kept), and C reads A's output, too.
std::shared_ptr<const Graph> triangle() {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(4));
  const TensorId b = graph.add_tensor("b", Bytes(2));
  const TensorId c = graph.add_tensor("c", Bytes(1), true);
  graph.add_op({.name = "A", .duration = Duration(1), .outputs = {a}});
  graph.add_op({.name = "B", .duration = Duration(1), .inputs = {a}, .outputs = {b}});
  graph.add_op({.name = "C", .duration = Duration(1), .inputs = {a, b}, .outputs = {c}});
  return std::make_shared<const Graph>(std::move(graph));
}

Instance instance_with(OpId op, OpModes modes, Graph graph = *triangle()) {
  graph[op].modes = std::move(modes);
  return {std::make_shared<const Graph>(std::move(graph)), {}};
}

Mode mode_of_c(std::vector<TensorId> unread) {
  return {.duration = Duration(3), .output_sizes = {Bytes(1)}, .unread = std::move(unread)};
}

std::vector<Bytes> memory_of(const Instance& instance, const std::vector<Compute>& sequence) {
  return evaluate(instance, std::span<const Compute>(sequence)).memory;
}

using Memory = std::vector<Bytes>;

TEST(Modes, AnInputIsReleasedEarlierForAModeThatDoesNotReadIt) {
  const Instance instance = instance_with(kC, {.further = {mode_of_c({kOfA})}});
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}}), (Memory{Bytes(4), Bytes(6), Bytes(7)}));
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 1}}), (Memory{Bytes(4), Bytes(6), Bytes(3)}));
}

TEST(Modes, AnUnreadInputNeedNotBeComputed) {
  const Instance instance = instance_with(kC, {.further = {mode_of_c({kOfB})}});
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kC, 1}, {kB, 0}}), (Memory{Bytes(4), Bytes(5), Bytes(7)}));
  EXPECT_THROW((void)memory_of(instance, {{kA, 0}, {kC, 0}, {kB, 0}}), std::logic_error);
}

TEST(Modes, TheGraphsOwnModeMayLeaveInputsUnread) {
  const Instance instance = instance_with(kC, {.unread = {kOfA}});
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}}), (Memory{Bytes(4), Bytes(6), Bytes(3)}));
  EXPECT_EQ(evaluate(instance, input_order(instance)).peak, Bytes(6));
}

TEST(Modes, KnowWhichModeReadsWhat) {
  const Instance instance = instance_with(kC, {.further = {mode_of_c({kOfA}), mode_of_c({})}});
  EXPECT_TRUE(instance.reads_differ());
  EXPECT_TRUE(instance.reads_differ(kC));
  EXPECT_FALSE(instance.reads_differ(kB));
  EXPECT_TRUE(instance.reads(kC, 0, kOfA));
  EXPECT_FALSE(instance.reads(kC, 1, kOfA));
  EXPECT_TRUE(instance.reads(kC, 1, kOfB));
  EXPECT_TRUE(instance.reads(kC, 2, kOfA));
  EXPECT_TRUE(instance.reads(kB, 0, kOfA));
  EXPECT_EQ(instance.inputs(kC).size(), 2U);
  EXPECT_EQ(instance.users(kOfA).size(), 2U);
  EXPECT_FALSE(Instance(triangle(), {}).reads_differ());
}

TEST(Modes, TheFootprintIsThatOfTheModeThatNeedsLeast) {
  EXPECT_EQ(Instance(triangle(), {}).footprint(kC), Bytes(7));
  EXPECT_EQ(instance_with(kC, {.further = {mode_of_c({kOfA})}}).footprint(kC), Bytes(3));
  EXPECT_EQ(instance_with(kC, {.further = {mode_of_c({})}, .unread = {kOfB}}).footprint(kC), Bytes(5));
}

TEST(Modes, HoldIfTheComputesWeighNoMoreThanTheyMay) {
  Mode heavy{.duration = Duration(1), .output_sizes = {Bytes(1)}, .computes = 3};
  const Instance instance = instance_with(kA, {.further = {heavy}, .computes = 1, .most_computes = 4});
  EXPECT_EQ(instance.computes(kA, 1), 3);
  EXPECT_EQ(instance.computes(kB, 0), 1);
  EXPECT_EQ(instance.most_computes(kB), kNoMostComputes);
  const auto holds = [&](std::vector<Compute> sequence) { return modes_hold(instance, sequence); };
  EXPECT_TRUE(holds({{kA, 0}, {kA, 0}, {kA, 0}, {kA, 0}}));
  EXPECT_FALSE(holds({{kA, 0}, {kA, 0}, {kA, 0}, {kA, 0}, {kA, 0}}));
  EXPECT_TRUE(holds({{kA, 1}, {kB, 0}, {kA, 0}}));
  EXPECT_FALSE(holds({{kA, 1}, {kA, 1}}));
}

TEST(Modes, TheLightestModeLimitsHowOftenAnOpRuns) {
  const auto most = [](OpModes modes) {
    return instance_with(kA, std::move(modes)).with_problem({.max_computes = 3}).max_computes(kA);
  };
  const Mode light{.output_sizes = {Bytes(1)}, .computes = 2};
  EXPECT_EQ(most({.computes = 3}), 3);
  EXPECT_EQ(most({.computes = 3, .most_computes = 5}), 1);
  EXPECT_EQ(most({.further = {light}, .computes = 3, .most_computes = 5}), 2);
}

TEST(Modes, RefuseWeightsBelowOneOrAllAboveTheLimit) {
  EXPECT_THROW(instance_with(kA, {.computes = 0}), InputError);
  EXPECT_THROW(instance_with(kA, {.computes = 3, .most_computes = 2}), InputError);
  EXPECT_NO_THROW(instance_with(
      kA, {.further = {Mode{.output_sizes = {Bytes(1)}, .computes = 2}}, .computes = 3, .most_computes = 2}));
}

TEST(Modes, AnInnerPeakDoesNotCountWhatIsFreedBeforeUnlessItIsNeededLater) {
  // C takes 2 more bytes with a and b there, 4 more when a is gone; 1 byte of output, a 4, b 2.
  const std::vector<InnerPeak> inner{{.workspace = Bytes(2)}, {.workspace = Bytes(4), .freed = {kOfA}}};
  const Instance instance = instance_with(kC, {.inner = inner});
  EXPECT_TRUE(instance.has_inner(kC));
  EXPECT_FALSE(instance.has_inner(kA));
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}}), (Memory{Bytes(4), Bytes(6), Bytes(9)}));
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}, {kB, 0}}),
            (Memory{Bytes(4), Bytes(6), Bytes(11), Bytes(7)}));
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}, {kA, 0}, {kB, 0}}),
            (Memory{Bytes(4), Bytes(6), Bytes(9), Bytes(5), Bytes(7)}));
  EXPECT_EQ(instance.footprint(kC), Bytes(9));
}

TEST(Modes, TheHighestInnerPeakCountsEvenBelowTheInputsAndOutputs) {
  const std::vector<InnerPeak> inner{{.workspace = Bytes(-2)}, {.workspace = Bytes(0), .freed = {kOfA, kOfB}}};
  const Instance instance = instance_with(kC, {.inner = inner});
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}}), (Memory{Bytes(4), Bytes(6), Bytes(5)}));
}

TEST(Modes, AnInnerPeakDoesNotFreeWhatMustBeKept) {
  Graph graph = *triangle();
  graph.tensors[kOfA].keep = true;
  const Instance instance = instance_with(kC, {.inner = {{.workspace = Bytes(4), .freed = {kOfA}}}}, graph);
  EXPECT_EQ(memory_of(instance, {{kA, 0}, {kB, 0}, {kC, 0}}), (Memory{Bytes(4), Bytes(6), Bytes(11)}));
}

TEST(Modes, RefuseToFreeWhatIsNotReadOrTwice) {
  const auto freeing = [](std::vector<FreedInput> freed) {
    return std::vector<InnerPeak>{{.workspace = Bytes(1), .freed = std::move(freed)}};
  };
  EXPECT_NO_THROW(instance_with(kC, {.inner = freeing({kOfA, kOfB})}));
  EXPECT_THROW(instance_with(kB, {.inner = freeing({kOfB})}), InputError);
  EXPECT_THROW(instance_with(kC, {.unread = {kOfA}, .inner = freeing({kOfA})}), InputError);
  EXPECT_THROW(instance_with(kC, {.inner = freeing({kOfA, kOfA})}), InputError);
}

TEST(Modes, RefuseUnreadTensorsThatAreNoInputs) {
  EXPECT_THROW(instance_with(kB, {.unread = {kOfB}}), InputError);
  EXPECT_THROW(instance_with(kB, {.further = {Mode{.output_sizes = {Bytes(1)}, .unread = {kOfB}}}}), InputError);
}

TEST(Modes, RefuseAFollowerThatReadsNothingOfItsLeader) {
  EXPECT_NO_THROW(instance_with(kC, {.follows = kB, .unread = {kOfA}}));
  EXPECT_THROW(instance_with(kC, {.follows = kB, .unread = {kOfB}}), InputError);
}

}  // namespace
}  // namespace remora
