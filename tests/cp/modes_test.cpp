// SPDX-License-Identifier: Apache-2.0
//
// Modes per op by hand: what the search makes of them.
#include <gtest/gtest.h>

#include "model/evaluate.hpp"
#include "tests/cp/oracle_check.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_modes.hpp"

namespace remora {
namespace {

/// The extra duration of the best sequence of every op's computes, which the oracle confirms; nothing if there is none.
std::optional<Duration> best_extra(const std::shared_ptr<const Graph>& graph,
                                   const std::vector<std::pair<OpId, OpModes>>& modes, Bytes budget,
                                   OrderMode order = OrderMode::input) {
  const Instance instance(test::with_modes(*graph, modes), {.budget = budget, .order = order});
  const auto outcome = test::solve_whole(instance);
  const auto truth = test::optimum(instance);
  EXPECT_EQ(outcome.sequence.has_value(), truth.has_value());
  if (!outcome.sequence || !truth) return std::nullopt;
  EXPECT_EQ(instance.baseline_duration() + outcome.extra, *truth);
  EXPECT_EQ(test::faults(instance, outcome), "");
  return outcome.extra;
}

/// A forward half of two ops, F and G, and the backward half B of both, which reads what they left: f (3 bytes) and
/// g (3 bytes); in between H, which needs 3 bytes for itself.
std::shared_ptr<const Graph> block() {
  Graph graph;
  const TensorId f = graph.add_tensor("f", Bytes(3));
  const TensorId g = graph.add_tensor("g", Bytes(3));
  const TensorId h = graph.add_tensor("h", Bytes(1));
  const TensorId b = graph.add_tensor("b", Bytes(1), true);
  graph.add_op({.name = "F", .duration = Duration(5), .outputs = {f}});
  graph.add_op({.name = "G", .duration = Duration(5), .inputs = {f}, .outputs = {g}});
  graph.add_op({.name = "H", .duration = Duration(5), .workspace = Bytes(3), .inputs = {g}, .outputs = {h}});
  graph.add_op({.name = "B", .duration = Duration(5), .inputs = {f, g, h}, .outputs = {b}});
  return std::make_shared<const Graph>(std::move(graph));
}

constexpr TensorId kOfF(0);

TEST(ComputeOptionsInSearch, AnInputThatIsNotReadIsNotKept) {
  // f cannot stay beside H: it is recomputed for 5, unless B has a way to go without it that adds less.
  const auto mode = [](int duration) {
    return Mode{.duration = Duration(duration), .output_sizes = {Bytes(1)}, .unread = {kOfF}};
  };
  for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
    EXPECT_EQ(best_extra(block(), {}, Bytes(10), order), Duration(0));
    EXPECT_EQ(best_extra(block(), {}, Bytes(9), order), Duration(5));
    EXPECT_EQ(best_extra(block(), {{OpId(3), {.further = {mode(7)}}}}, Bytes(9), order), Duration(2));
    EXPECT_EQ(best_extra(block(), {{OpId(3), {.further = {mode(11)}}}}, Bytes(9), order), Duration(5));
    EXPECT_EQ(best_extra(block(), {{OpId(3), {.unread = {kOfF}}}}, Bytes(9), order), Duration(0));
    // B itself takes 8 bytes, or 5 without f; H takes 7 without f.
    EXPECT_EQ(best_extra(block(), {}, Bytes(7), order), std::nullopt);
    EXPECT_EQ(best_extra(block(), {{OpId(3), {.further = {mode(11)}}}}, Bytes(7), order), Duration(6));
  }
}

TEST(ComputeOptionsInSearch, ComputesWeighNoMoreThanTheyMay) {
  // With 9 bytes F runs twice: by its own mode for 5 each, or by one that takes 7.
  const Mode slow{.duration = Duration(7), .output_sizes = {Bytes(3)}};
  const auto modes = [&](int own, int further, int most) {
    Mode mode = slow;
    mode.computes = further;
    return std::vector<std::pair<OpId, OpModes>>{
        {OpId(0), {.further = {mode}, .computes = own, .most_computes = most}}};
  };
  for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
    EXPECT_EQ(best_extra(block(), modes(2, 1, 4), Bytes(9), order), Duration(5));
    EXPECT_EQ(best_extra(block(), modes(2, 1, 3), Bytes(9), order), Duration(7));
    EXPECT_EQ(best_extra(block(), modes(2, 1, 2), Bytes(9), order), Duration(9));
    EXPECT_EQ(best_extra(block(), modes(2, 2, 3), Bytes(9), order), std::nullopt);
    EXPECT_EQ(best_extra(block(), modes(2, 2, 3), Bytes(10), order), Duration(0));
  }
}

TEST(ComputeOptionsInSearch, AnInnerPeakMakesRoomByRecomputingLater) {
  // G's second half takes 4 bytes with f gone: 10 with f, which B needs again, and 7 if B's f is a recompute.
  const InnerPeak begin{.workspace = Bytes(0)};
  const InnerPeak end{.workspace = Bytes(4), .freed = {kOfF}};
  const auto graph = [] {
    Graph copy = *block();
    copy.ops[2].workspace = Bytes(0);
    return std::make_shared<const Graph>(std::move(copy));
  }();
  const std::vector<std::pair<OpId, OpModes>> modes{{OpId(1), {.inner = {begin, end}}}};
  for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
    EXPECT_EQ(best_extra(graph, modes, Bytes(10), order), Duration(0));
    EXPECT_EQ(best_extra(graph, modes, Bytes(9), order), Duration(5));
    EXPECT_EQ(best_extra(graph, modes, Bytes(8), order), Duration(5));
    EXPECT_EQ(best_extra(graph, modes, Bytes(7), order), std::nullopt);
  }
}

}  // namespace
}  // namespace remora
