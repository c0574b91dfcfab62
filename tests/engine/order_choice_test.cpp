// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

/// Branches of a large and a small tensor, one after the other or all large ones first, and an op that reads the small
/// ones. Peaks: large + branches, or branches * large + 1.
std::shared_ptr<const Graph> branches(int count, bool large_first, Bytes large = Bytes(100)) {
  Graph graph{.name = "branches"};
  Op join{.name = "join", .duration = Duration(1)};
  std::vector<Op> small;
  const auto flush = [&] {
    for (Op& op : small) graph.add_op(std::move(op));
    small.clear();
  };
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const TensorId a = graph.add_tensor("a" + number, large);
    const TensorId b = graph.add_tensor("b" + number, Bytes(1));
    graph.add_op({.name = "A" + number, .duration = Duration(10), .outputs = {a}});
    small.push_back({.name = "B" + number, .duration = Duration(10), .inputs = {a}, .outputs = {b}});
    join.inputs.push_back(b);
    if (!large_first) flush();
  }
  flush();
  join.outputs = {graph.add_tensor("end", Bytes(1))};
  graph.tensors.back().keep = true;
  graph.add_op(std::move(join));
  return std::make_shared<const Graph>(std::move(graph));
}

Instance of(std::shared_ptr<const Graph> graph, std::int64_t budget) {
  return {std::move(graph), {.budget = Bytes(budget)}};
}

TEST(OrderChoice, IsFreeWhereAnotherOrderNeedsClearlyLess) {
  const OrderChoice choice = choose_order(of(branches(4, true), 350), {});
  EXPECT_EQ(choice.mode, OrderMode::free);
  EXPECT_NE(choice.reason.find("% of the input order's peak"), std::string::npos) << choice.reason;
  EXPECT_EQ(choice.text(), "order free: " + choice.reason);
}

TEST(OrderChoice, KeepsAnInputOrderThatHoldsTheBudget) {
  const Instance instance = of(branches(4, true), 401);
  ASSERT_EQ(baseline_peak(instance), instance.budget());
  const OrderChoice choice = choose_order(instance, {});
  EXPECT_EQ(choice.mode, OrderMode::input);
  EXPECT_NE(choice.reason.find("fits within the budget"), std::string::npos) << choice.reason;
}

TEST(OrderChoice, KeepsAnInputOrderThatNoOtherBeats) {
  const OrderChoice choice = choose_order(of(branches(4, false), 100), {});
  EXPECT_EQ(choice.mode, OrderMode::input);
  EXPECT_NE(choice.reason.find("no other order was found"), std::string::npos) << choice.reason;
}

TEST(OrderChoice, KeepsAnInputOrderForLessThanOnePercentUnlessThatHoldsTheBudget) {
  // The huge tensor comes last, beside the byte that the branches leave; before them it would need one byte less.
  Graph graph = *branches(3, true, Bytes(2));
  const TensorId huge = graph.add_tensor("huge", Bytes(10'000));
  const TensorId rest = graph.add_tensor("rest", Bytes(1));
  graph.tensors[static_cast<std::size_t>(rest)].keep = true;
  graph.add_op({.name = "H", .duration = Duration(1), .outputs = {huge}});
  graph.add_op({.name = "R", .duration = Duration(1), .inputs = {huge}, .outputs = {rest}});
  const Instance instance = of(std::make_shared<const Graph>(std::move(graph)), 10'000);
  const Bytes byte_less = baseline_peak(instance) - Bytes(1);
  ASSERT_GT(byte_less, instance.budget());
  EXPECT_EQ(choose_order(instance, {}).mode, OrderMode::input);
  EXPECT_EQ(choose_order(instance.with_budget(byte_less), {}).mode, OrderMode::free);
}

TEST(OrderChoice, SeesThatAChainHasOneOrder) {
  Graph graph{.name = "chain"};
  TensorId former;
  for (int i = 0; i < 5; ++i) {
    const TensorId next = graph.add_tensor("t" + std::to_string(i), Bytes(10));
    Op op{.name = "op" + std::to_string(i), .duration = Duration(1), .outputs = {next}};
    // Order alone counts as well as data.
    if (i == 2) op.after = {OpId(1)};
    if (i != 2 && former.valid()) op.inputs = {former};
    graph.add_op(std::move(op));
    former = next;
  }
  const OrderChoice choice = choose_order(of(std::make_shared<const Graph>(std::move(graph)), 15), {});
  EXPECT_EQ(choice.mode, OrderMode::input);
  EXPECT_EQ(choice.reason, "there is no other");
}

TEST(OrderChoice, OfAMethodTooInfeasibleIsSaidOnlyWhereNoOtherOrderFits) {
  Graph graph = *branches(4, true);
  // What is computed first stays, so that the input order cannot be mended.
  for (Op& op : graph.ops) op.recompute = false;
  const Instance instance = of(std::make_shared<const Graph>(std::move(graph)), 150);
  ASSERT_TRUE(solve(with_order(instance, OrderMode::free), {.time_limit = 5, .work_limit = 20'000}).has_schedule());
  for (const Strategy strategy : {Strategy::none, Strategy::greedy, Strategy::sqrt, Strategy::rotor}) {
    SolveOptions options{.strategy = strategy};
    options.time_limit = 5;
    const Instance input = with_order(instance, OrderMode::input);
    EXPECT_EQ(solve(input, options).status, Status::infeasible) << strategy_name(strategy);
    const OrderChoice choice = choose_order(instance, options);
    EXPECT_EQ(choice.mode, OrderMode::free) << strategy_name(strategy);
    EXPECT_NE(solve(with_order(instance, choice.mode), options).status, Status::infeasible) << strategy_name(strategy);
  }
}

TEST(OrderChoice, IsTheSameOnAnyNumberOfThreads) {
  auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 120, .seed = 3}));
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 7 / 10));
  const OrderChoice one = choose_order(instance, {.time_limit = kNoTimeLimit, .threads = 1});
  const OrderChoice two = choose_order(instance, {.time_limit = kNoTimeLimit, .threads = 2});
  EXPECT_EQ(one.mode, two.mode);
  EXPECT_EQ(one.reason, two.reason);
}

TEST(OrderChoice, WhatTheUserChoosesNeedsNoReason) {
  const Instance instance = of(branches(4, true), 350);
  EXPECT_EQ(settle_order(instance, OrderRequest::input, {}).mode, OrderMode::input);
  const OrderChoice free = settle_order(instance, OrderRequest::free, {});
  EXPECT_EQ(free.mode, OrderMode::free);
  EXPECT_TRUE(free.reason.empty());
  EXPECT_EQ(settle_order(instance, OrderRequest::automatic, {}).mode, OrderMode::free);
}

TEST(OrderChoice, StatesTheProblemThatIsSolved) {
  const Instance instance = of(branches(4, true), 150);
  const Instance free = with_order(instance, choose_order(instance, {}).mode);
  EXPECT_EQ(free.budget(), instance.budget());
  SolveOptions options;
  options.work_limit = 20'000;
  options.threads = 1;
  const Schedule schedule = solve(free, options);
  EXPECT_EQ(schedule.order, OrderMode::free);
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_EQ(schedule.duration, schedule.baseline_duration);
  EXPECT_TRUE(verify(free.graph(), schedule).valid());
}

TEST(OrderChoice, FollowsAWarmStartOfAnotherOrder) {
  // The input order holds the budget, so that nothing else would have asked for another one.
  const auto graph = branches(3, true);
  Request request{.graph = graph, .budget = Bytes(10'000), .order = OrderRequest::automatic};
  request.options.work_limit = 1000;
  for (const int v : {0, 3, 1, 4, 2, 5, 6}) request.warm_start.push_back({OpId(v), 0});
  const Answer answer = solve(request);
  EXPECT_EQ(answer.order.mode, OrderMode::free);
  EXPECT_TRUE(answer.schedule.has_schedule());
  EXPECT_NE(answer.schedule.solver.note.find("warm start"), std::string::npos) << answer.schedule.solver.note;
  for (const int v : {0, 1, 2, 3, 4, 5, 6}) request.warm_start[static_cast<std::size_t>(v)].op = OpId(v);
  EXPECT_EQ(solve(request).order.mode, OrderMode::input);
}

TEST(OrderRequest, IsReadFromItsName) {
  for (const OrderRequest request : {OrderRequest::input, OrderRequest::free, OrderRequest::automatic}) {
    EXPECT_EQ(order_request_from_name(order_request_name(request)), request);
  }
  try {
    order_request_from_name("random");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "order: 'random' is not one of input, free, auto");
  }
}

/// `early` is made before `wide`, which leaves no room for it, and read behind it.
std::shared_ptr<const Graph> read_late() {
  Graph graph{.name = "read late"};
  const TensorId a = graph.add_tensor("a", Bytes(4));
  const TensorId early = graph.add_tensor("early", Bytes(4));
  const TensorId wide = graph.add_tensor("wide", Bytes(4));
  const TensorId end = graph.add_tensor("end", Bytes(1));
  graph.tensors.back().keep = true;
  graph.add_op({.name = "A", .duration = Duration(10), .outputs = {a}});
  graph.add_op({.name = "Early", .duration = Duration(5), .inputs = {a}, .outputs = {early}});
  graph.add_op({.name = "Wide", .duration = Duration(30), .workspace = Bytes(4), .inputs = {a}, .outputs = {wide}});
  graph.add_op({.name = "End", .duration = Duration(5), .inputs = {a, early, wide}, .outputs = {end}});
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(OrderChoice, TheInputOrdersUnreadComputesAreNoted) {
  const Request request{.graph = read_late(), .budget = Bytes(13)};
  const Schedule staged = solve(request).schedule;
  ASSERT_EQ(staged.status, Status::optimal);
  EXPECT_EQ(staged.duration, Duration(55));
  EXPECT_NE(staged.solver.note.find("1 run is unused (9.1 % of the time)"), std::string::npos) << staged.solver.note;

  Request open = request;
  open.order = OrderRequest::free;
  const Schedule free = solve(open).schedule;
  EXPECT_EQ(free.duration, Duration(50));
  EXPECT_EQ(free.solver.note.find("nobody"), std::string::npos) << free.solver.note;

  Request ample = request;
  ample.budget = Bytes(16);
  EXPECT_EQ(solve(ample).schedule.solver.note, "");
}

}  // namespace
}  // namespace remora
