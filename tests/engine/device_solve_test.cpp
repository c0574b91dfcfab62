// SPDX-License-Identifier: Apache-2.0
//
// Several devices: evaluator, bound and search against brute force.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/options.hpp"
#include "engine/devices/ask.hpp"
#include "engine/devices/plan.hpp"
#include "engine/devices/prover.hpp"
#include "engine/devices/solve.hpp"
#include "engine/devices/tree_search.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "tests/support/device_oracle.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_devices.hpp"

namespace remora::devices {
namespace {

using test::chance;
using test::draw;
using test::draw_lanes;
using test::draw_limits;
using test::draw_problem;
using test::random_device_graph;

struct DeviceTally {
  int cases = 0;
  int feasible = 0;
  int found = 0;
  int optimal = 0;
  int proved = 0;
  int proved_infeasible = 0;
};

/// What is drawn, and how long each problem is searched.
struct DeviceCases {
  unsigned seed = 0;
  int rounds = 0;
  int devices = 2;
  int most_ops = 6;
  OrderMode order = OrderMode::input;
  CopyMode copies = CopyMode::sequential;
  std::int64_t work = 600;
  /// At most, on each device; of 1 none are named.
  int lanes = 1;
};

/// Against all sequences: bounds, optima, infeasibility.
DeviceTally compare_devices(const DeviceCases& cases) {
  const bool overlaps = cases.copies == CopyMode::overlap;
  DeviceTally tally;
  std::mt19937 random(cases.seed);
  for (int round = 0; round < test::fewer(cases.rounds) && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(cases.seed) + ", round " + std::to_string(round));
    DeviceGraph graph = random_device_graph(random, cases.devices, cases.most_ops);
    if (cases.lanes > 1) draw_lanes(random, graph, cases.lanes);
    Problem problem = draw_problem(random, graph, cases.order);
    problem.copies = cases.copies;
    if (overlaps && chance(random, 30)) draw_limits(random, graph, problem);
    const auto truth = (overlaps ? test::overlapped_optimum : test::device_optimum)(graph, problem);
    const DeviceSchedule schedule =
        solve(graph, problem,
              {.time_limit = kNoTimeLimit, .work_limit = cases.work, .seed = static_cast<std::uint64_t>(round)})
            .schedule;
    [&] {
      if (truth) {
        ASSERT_LE(schedule.lower_bound, *truth);
        ASSERT_NE(schedule.status, Status::infeasible);
      }
      if (!schedule.has_schedule()) return;
      const DeviceVerdict verdict = verify(graph, schedule);
      ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
      ASSERT_TRUE(truth.has_value());
      ASSERT_GE(schedule.cost(), *truth);
      if (schedule.status == Status::optimal) {
        ASSERT_EQ(schedule.cost(), *truth);
      }
    }();
    ++tally.cases;
    tally.feasible += truth ? 1 : 0;
    tally.found += schedule.has_schedule() ? 1 : 0;
    tally.optimal += schedule.has_schedule() && truth && schedule.cost() == *truth ? 1 : 0;
    tally.proved += schedule.status == Status::optimal ? 1 : 0;
    tally.proved_infeasible += schedule.status == Status::infeasible ? 1 : 0;
  }
  std::cout << tally.cases << " cases, " << tally.feasible << " feasible, " << tally.found << " found, "
            << tally.optimal << " optimal, " << tally.proved << " proved, " << tally.proved_infeasible
            << " infeasible\n";
  return tally;
}

/// A schedule as the search found it, for verify.
DeviceSchedule schedule_of(const DeviceGraph& graph, const Problem& problem, std::vector<DeviceStep> steps) {
  DeviceSchedule schedule{.status = Status::feasible,
                          .order = problem.order,
                          .objective = problem.objective,
                          .budget = problem.budget,
                          .duration_limit = problem.duration_limit,
                          .energy_limit = problem.energy_limit};
  schedule.solver.max_computes = problem.max_computes;
  schedule.steps = std::move(steps);
  const DeviceVerdict verdict = verify(graph, schedule);
  schedule.duration = verdict.duration;
  schedule.energy = verdict.energy;
  schedule.peak_memory = verdict.peak;
  return schedule;
}

struct TreeTally {
  int cases = 0;
  int feasible = 0;
  /// By the bound alone: optima that it reaches, and problems that it refutes.
  int tight = 0;
  int proved_infeasible = 0;
  std::int64_t nodes = 0;
};

/// The relaxation asks for no more than an optimum gives, and bounds no optimum away.
void check_relaxation(const DeviceGraph& graph, const Problem& problem, std::optional<std::int64_t> truth,
                      const CompleteOutcome& outcome) {
  if (problem.order == OrderMode::free) return;
  Prover prover(graph, problem, 1);
  for (int step = 0; step < 8; ++step) {
    const ProverUpdate update = prover.step({.below = truth ? *truth + 1 : kNoWay});
    if (truth) {
      EXPECT_FALSE(update.infeasible);
      EXPECT_LE(update.bound, *truth);
    }
    if (update.finished) break;
  }
  if (!truth || !outcome.steps) return;
  const EvaluatedPlan plan{*outcome.steps, evaluate(graph, *outcome.steps)};
  // Where what must be kept ends elsewhere, replayed, than it did.
  if (value_of(graph, problem, plan).violation > 0) return;
  const Instance instance(graph, problem);
  const Allowed anywhere = [&](OpId v, DeviceId d) { return run_cost(graph, v, d) != nullptr; };
  Detail detail;
  for (int stage = 0; stage <= instance.op_count(); ++stage) {
    for (const OpId v : graph.runs.ids()) detail.reruns.insert({stage, v});
  }
  for (int every = 1; every <= 3; ++every) {
    detail.ends.clear();
    for (int stage = 0; stage <= instance.op_count(); stage += every) detail.ends.insert(stage);
    const Program program(instance, anywhere, detail);
    const std::vector<double> solution = program.columns().solution(plan);
    EXPECT_TRUE(holds(program.program(), solution));
    EXPECT_TRUE(violated_rows(program.program(), solution).empty());
    EXPECT_LE(cost_of(program.program(), solution), *truth);
  }
}

/// The complete search alone: optimum and infeasibility are those of brute force. The schedule, if any.
std::optional<DeviceSchedule> compare_tree_search(const DeviceGraph& graph, const Problem& problem, TreeTally& tally) {
  const auto truth = test::device_optimum(graph, problem);
  TreeSearch search(graph, problem, {});
  const CompleteOutcome& outcome = search.advance(10'000'000);
  ++tally.cases;
  tally.nodes += outcome.nodes;
  tally.feasible += truth ? 1 : 0;
  const Bound bound = bound_of(graph, problem);
  if (truth) {
    EXPECT_FALSE(bound.is_infeasible());
    EXPECT_LE(bound.least, *truth);
    EXPECT_LE(bound_below(graph, problem, *truth + 3, {}), *truth);
    EXPECT_LE(bound_below(graph, problem, *truth + 1, {}), *truth);
    tally.tight += bound.least == *truth ? 1 : 0;
    // Cut short at any look at the clock it is weaker, and holds.
    for (int looks = 0; looks <= 3; ++looks) {
      const Bound weaker = bound_of(graph, problem, [left = looks]() mutable { return left-- <= 0; });
      EXPECT_FALSE(weaker.is_infeasible());
      EXPECT_LE(weaker.least, bound.least);
    }
  }
  tally.proved_infeasible += bound.is_infeasible() ? 1 : 0;
  check_relaxation(graph, problem, truth, outcome);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.steps.has_value(), truth.has_value());
  if (!truth || !outcome.steps) return std::nullopt;
  EXPECT_EQ(outcome.cost, *truth);
  const DeviceSchedule schedule = schedule_of(graph, problem, *outcome.steps);
  const DeviceVerdict verdict = verify(graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_EQ(schedule.cost(), *truth);
  return schedule;
}

/// Each problem, and again with the budget of one device at and below what the optimum took there.
void compare_tree_searches(unsigned seed, int rounds, int devices, int most_ops, OrderMode order) {
  TreeTally tally;
  std::mt19937 random(seed);
  for (int round = 0; round < test::fewer(rounds) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const DeviceGraph graph = random_device_graph(random, devices, most_ops);
    Problem problem = draw_problem(random, graph, order);
    draw_limits(random, graph, problem);
    for (int below = 0; below <= 1; ++below) {
      const auto schedule = compare_tree_search(graph, problem, tally);
      if (!schedule) break;
      const DeviceId d(draw(random, 0, devices - 1));
      problem.budget[d] = schedule->peak_memory[d] - Bytes(below);
    }
    compare_tree_search(graph, problem, tally);
  }
  std::cout << tally.cases << " cases, " << tally.feasible << " feasible, " << tally.nodes
            << " nodes; the bound alone: " << tally.tight << " optima, " << tally.proved_infeasible << " infeasible\n";
}

TEST(DeviceTreeSearch, OfTwoDevicesFindsAndProvesTheOptimum) {
  compare_tree_searches(11, 2000, 2, 6, OrderMode::input);
}

TEST(DeviceTreeSearch, OfThreeDevicesFindsAndProvesTheOptimum) {
  compare_tree_searches(12, 1200, 3, 5, OrderMode::input);
}

TEST(DeviceTreeSearch, OfTwoDevicesInFreeOrderFindsAndProvesTheOptimum) {
  compare_tree_searches(13, 1600, 2, 5, OrderMode::free);
}

TEST(DeviceTreeSearch, OfThreeDevicesInFreeOrderFindsAndProvesTheOptimum) {
  compare_tree_searches(14, 600, 3, 4, OrderMode::free);
}

void expect_often_optimal(const DeviceTally& tally, int found, int optimal) {
  EXPECT_GE(tally.found, tally.feasible * found / 100);
  EXPECT_GE(tally.optimal, tally.feasible * optimal / 100);
}

TEST(DeviceSolve, OfTwoDevicesIsRightAndOftenOptimal) {
  expect_often_optimal(compare_devices({.seed = 1, .rounds = 2400}), 98, 95);
}

TEST(DeviceSolve, OfThreeDevicesIsRightAndOftenOptimal) {
  expect_often_optimal(compare_devices({.seed = 2, .rounds = 1200, .devices = 3, .most_ops = 5}), 98, 95);
}

TEST(DeviceSolve, OfFreeOrderIsRight) {
  compare_devices({.seed = 3, .rounds = 1600, .order = OrderMode::free});
}

DeviceCases overlapped_cases(unsigned seed, int rounds) {
  return {.seed = seed, .rounds = rounds, .most_ops = 3, .copies = CopyMode::overlap, .work = 2000};
}

TEST(DeviceOverlap, OfTwoDevicesIsRightAndOftenOptimal) {
  expect_often_optimal(compare_devices(overlapped_cases(21, 6000)), 95, 80);
}

TEST(DeviceOverlap, OfThreeDevicesIsRightAndOftenOptimal) {
  DeviceCases cases = overlapped_cases(22, 160);
  cases.devices = 3;
  expect_often_optimal(compare_devices(cases), 95, 80);
}

/// One device, streams beside each other.
DeviceCases lane_cases(unsigned seed, int rounds, OrderMode order) {
  return {.seed = seed,
          .rounds = rounds,
          .devices = 1,
          .most_ops = 7,
          .order = order,
          .copies = CopyMode::overlap,
          .work = 20000,
          .lanes = 4};
}

/// Each problem is: by an optimum, or by the proof that there is none.
void expect_settled(const DeviceTally& tally) {
  EXPECT_EQ(tally.proved, tally.feasible);
  EXPECT_EQ(tally.proved_infeasible, tally.cases - tally.feasible);
}

TEST(Lanes, InInputOrderAreSettled) {
  expect_settled(compare_devices(lane_cases(31, 2000, OrderMode::input)));
}

TEST(Lanes, OfFreeOrderAreSettled) {
  expect_settled(compare_devices(lane_cases(32, 1000, OrderMode::free)));
}

TEST(Lanes, OfTwoDevicesAreSettled) {
  DeviceCases cases = overlapped_cases(33, 1000);
  cases.lanes = 3;
  cases.work = 20000;
  expect_settled(compare_devices(cases));
}

/// More ops than the search over states takes: what the busier lane has to do proves the schedule.
TEST(Lanes, ABusyLaneIsABound) {
  DeviceGraph graph;
  graph.devices.push_back({.name = "gpu", .lanes = {"compute", "gather"}});
  for (int i = 0; i < 40; ++i) {
    const bool gathers = i % 4 == 0;
    const TensorId made = graph.graph.add_tensor("t" + std::to_string(i), Bytes(1), true);
    graph.places.push_back({});
    graph.graph.ops.push_back({.name = "op" + std::to_string(i), .outputs = {made}});
    graph.runs.push_back({{DeviceId(0), Duration(gathers ? 1 : 5), Bytes(0), Energy(0), LaneId(gathers ? 1 : 0)}});
  }
  validate(graph);
  Problem problem{.copies = CopyMode::overlap};
  problem.budget.assign(1, Bytes(40));
  const DeviceSchedule schedule = solve(graph, problem, {.time_limit = 1e9, .work_limit = 1}).schedule;
  EXPECT_EQ(schedule.duration, Duration(150));
  EXPECT_EQ(schedule.lower_bound, 150);
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_TRUE(verify(graph, schedule).valid());
}

TEST(DeviceOverlap, OfFreeOrderIsRight) {
  DeviceCases cases = overlapped_cases(23, 400);
  cases.order = OrderMode::free;
  compare_devices(cases);
}

/// Without any limit on memory an op that is too expensive on a device must still be ruled out there.
TEST(DeviceSolve, EndsWithoutMemoryLimits) {
  DeviceGraph graph;
  graph.devices = Table<DeviceId, Device>(std::vector<Device>{{.name = "a"}, {.name = "b"}});
  graph.links = {{.from = DeviceId(0), .to = DeviceId(1), .per = Duration(1), .energy = Energy(9)},
                 {.from = DeviceId(1), .to = DeviceId(0), .per = Duration(1), .energy = Energy(9)}};
  for (int i = 0; i < 6; ++i) {
    const TensorId made = graph.graph.add_tensor("t" + std::to_string(i), Bytes(1), i == 5);
    graph.places.push_back({});
    graph.graph.ops.push_back({.name = "op" + std::to_string(i), .outputs = {made}});
    if (i > 0) graph.graph.ops.back().inputs = {TensorId(i - 1)};
    graph.runs.push_back({{DeviceId(0), Duration(1), Bytes(0), Energy(1 + i % 3)},
                          {DeviceId(1), Duration(2), Bytes(0), Energy(3 - i % 2)}});
  }
  validate(graph);
  for (const Objective objective : {Objective::duration, Objective::energy}) {
    Problem problem{.objective = objective};
    problem.budget.assign(2, std::nullopt);
    problem.duration_limit = Duration(9);
    const DeviceSchedule schedule = solve(graph, problem, {.time_limit = 60, .work_limit = 20000}).schedule;
    EXPECT_EQ(schedule.status, Status::optimal);
    EXPECT_TRUE(verify(graph, schedule).valid());
    EXPECT_EQ(schedule.cost(), *test::device_optimum(graph, problem));
  }
}

/// What is said of the answer is true of the problem with as many computes as it states; what is optimal is so for any number, and what
/// is proved for a number has no cheaper one with so many.
TEST(DeviceSolve, ChoosesHowOftenOpsRun) {
  constexpr int kMaxOfOracle = 3;
  std::mt19937 random(91);
  int compared = 0;
  int more = 0;
  int any = 0;
  for (int round = 0; round < test::fewer(16000); ++round) {
    SCOPED_TRACE(round);
    const DeviceGraph graph = random_device_graph(random, 1 + round % 2, 6);
    Problem problem = draw_problem(random, graph, round % 5 == 4 ? OrderMode::free : OrderMode::input);
    problem.max_computes = 1;
    const Options options{.time_limit = kNoTimeLimit, .work_limit = 2000, .seed = static_cast<std::uint64_t>(round)};
    const DeviceSchedule fewest = solve(graph, problem, options).schedule;
    const DeviceSchedule schedule = solve_with_more_computes(graph, problem, options).schedule;
    if (fewest.status == Status::optimal) {
      ASSERT_TRUE(schedule.has_schedule());
      EXPECT_LE(schedule.cost(), fewest.cost());
    }
    problem.max_computes = std::min(schedule.solver.max_computes, kMaxOfOracle);
    const auto truth = test::device_optimum(graph, problem);
    if (schedule.status == Status::infeasible) {
      EXPECT_FALSE(truth.has_value());
    }
    if (!schedule.has_schedule()) continue;
    EXPECT_TRUE(verify(graph, schedule).valid());
    if (schedule.solver.max_computes > kMaxOfOracle) continue;
    ASSERT_TRUE(truth.has_value());
    EXPECT_GE(schedule.cost(), *truth);
    EXPECT_LE(schedule.lower_bound, *truth);
    ++compared;
    const int proved = schedule.solver.optimal_for_max_computes;
    EXPECT_TRUE(schedule.status != Status::optimal || proved == kAnyNumber);
    EXPECT_TRUE(schedule.status == Status::optimal || proved < kAnyNumber);
    any += proved == kAnyNumber ? 1 : 0;
    // Where an op may run thrice, brute force takes as long as a hundred solves.
    if (proved > 0 && round % 16 == 0) {
      problem.max_computes = std::min(proved, kMaxOfOracle);
      EXPECT_LE(schedule.cost(), *test::device_optimum(graph, problem));
      problem.max_computes = kMaxOfOracle;
      EXPECT_LE(schedule.lower_bound, *test::device_optimum(graph, problem));
    }
    if (schedule.solver.max_computes == 1) continue;
    ++more;
    EXPECT_FALSE(schedule.solver.note.empty());
    problem.max_computes = 1;
    const auto once = test::device_optimum(graph, problem);
    if (schedule.status == Status::optimal) {
      EXPECT_TRUE(!once || *once > schedule.cost());
    }
  }
  EXPECT_GT(compared, 50);
  EXPECT_GT(more, 10);
  EXPECT_GT(2 * any, compared);
  std::cout << compared << " compared, " << more << " with more computes, " << any << " optimal for any number\n";
}

/// A schedule of other budgets is a start; one of the problem is never lost.
TEST(DeviceSolve, BeginsFromASchedule) {
  std::mt19937 random(77);
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    const DeviceGraph graph = random_device_graph(random, 2, 6);
    Problem problem = draw_problem(random, graph, OrderMode::input);
    const DeviceSchedule first = solve(graph, problem, {.time_limit = 1e9, .work_limit = 300}).schedule;
    if (!first.has_schedule()) continue;
    ++compared;
    const DeviceSchedule again =
        solve(graph, problem, {.time_limit = 1e9, .work_limit = 1, .seed = 9, .start = first.steps}).schedule;
    ASSERT_TRUE(again.has_schedule());
    EXPECT_LE(again.cost(), first.cost());
    EXPECT_TRUE(verify(graph, again).valid());
    for (auto& budget : problem.budget) budget.reset();
    const DeviceSchedule roomy =
        solve(graph, problem, {.time_limit = 1e9, .work_limit = 50, .start = first.steps}).schedule;
    ASSERT_TRUE(roomy.has_schedule());
    EXPECT_LE(roomy.cost(), first.cost());
    EXPECT_TRUE(verify(graph, roomy).valid());
    std::vector<DeviceStep> broken = first.steps;
    std::erase_if(broken, [&](const DeviceStep& step) { return step.op == OpId(graph.runs.size() - 1); });
    if (broken.empty()) continue;
    EXPECT_THROW(static_cast<void>(solve(graph, problem, {.work_limit = 1, .start = broken})), InputError);
  }
  EXPECT_GT(compared, 10);
}

/// Forward and back through so many layers on one device, each tensor read again on the way back, with a store beside it.
DeviceGraph there_and_back(int layers) {
  DeviceGraph graph;
  graph.devices = Table<DeviceId, Device>(std::vector<Device>{{.name = "gpu"}, {.name = "host"}});
  for (const int d : {0, 1}) {
    graph.links.push_back(
        {.from = DeviceId(d), .to = DeviceId(1 - d), .latency = Duration(1), .bytes = Bytes(2), .per = Duration(1)});
  }
  const auto add = [&](const char* type, std::vector<TensorId> inputs, bool keep) {
    const TensorId made = graph.graph.add_tensor("t" + std::to_string(graph.places.size()), Bytes(4), keep);
    graph.places.push_back({});
    graph.graph.ops.push_back({.name = "op" + std::to_string(made), .type = type, .inputs = std::move(inputs)});
    graph.graph.ops.back().outputs = {made};
    graph.runs.push_back({{DeviceId(0), Duration(5 + made % 3)}});
  };
  for (int i = 0; i < layers; ++i)
    add("forward", i == 0 ? std::vector<TensorId>{} : std::vector{TensorId(i - 1)}, false);
  for (int i = layers; i-- > 0;) {
    add("backward", {TensorId(graph.places.size() - 1), TensorId(i)}, i == 0);
    auto& inputs = graph.graph.ops.back().inputs;
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  }
  validate(graph);
  return graph;
}

/// What repeats is put out and back together: a schedule within fewer plans than there are tensors to move.
TEST(DeviceSolve, BlocksThatRepeatGiveWayTogether) {
  constexpr int kLayers = 200;
  const DeviceGraph graph = there_and_back(kLayers);
  const Table<OpId, int> alike = alike_ops(graph);
  EXPECT_EQ(alike[OpId(kLayers / 2)], alike[OpId(kLayers / 2 + 1)]) << "not by what they take";
  EXPECT_NE(alike[OpId(0)], alike[OpId(kLayers / 2)]);
  EXPECT_NE(alike[OpId(kLayers / 2)], alike[OpId(2 * kLayers - 9)]);
  for (const CopyMode copies : {CopyMode::sequential, CopyMode::overlap}) {
    Problem problem{.copies = copies, .max_computes = 1};
    problem.budget = Table<DeviceId, std::optional<Bytes>>(std::vector<std::optional<Bytes>>{Bytes(40), std::nullopt});
    const DeviceSchedule schedule = solve(graph, problem, {.time_limit = kNoTimeLimit, .work_limit = 1000}).schedule;
    ASSERT_TRUE(schedule.has_schedule());
    EXPECT_TRUE(verify(graph, schedule).valid());
  }
}

/// What listeners hear is what the answer says, and changes nothing of it.
TEST(DeviceSolve, TellsHowItGoes) {
  std::mt19937 random(7);
  int told = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    Request request{.graph = std::make_shared<const DeviceGraph>(random_device_graph(random, 2, 6))};
    request.budget = draw_problem(random, *request.graph, OrderMode::input).budget;
    request.copies = round % 2 == 0 ? CopyMode::sequential : CopyMode::overlap;
    request.options.time_limit = kNoTimeLimit;
    request.options.work_limit = 300;
    const DeviceSchedule silent = solve(request).schedule;
    std::vector<std::int64_t> costs;
    Progress last;
    Callbacks callbacks;
    callbacks.incumbent = [&](const DeviceSchedule& schedule) {
      EXPECT_TRUE(verify(*request.graph, schedule).valid());
      EXPECT_TRUE(costs.empty() || schedule.cost() < costs.back());
      costs.push_back(schedule.cost());
    };
    callbacks.progress = [&](const Progress& update) {
      EXPECT_GE(update.work, last.work);
      last = update;
    };
    const DeviceSchedule schedule = solve(request, callbacks).schedule;
    EXPECT_EQ(schedule.steps, silent.steps);
    EXPECT_EQ(schedule.lower_bound, silent.lower_bound);
    EXPECT_EQ(schedule.solver.work, silent.solver.work);
    if (!schedule.has_schedule()) continue;
    ++told;
    ASSERT_FALSE(costs.empty());
    EXPECT_EQ(costs.back(), schedule.cost());
    EXPECT_EQ(last.duration.count(), schedule.cost());
    EXPECT_EQ(last.phase, 2);
    EXPECT_LE(solve(request, {.enough = [](const Progress&) { return true; }}).schedule.lower_bound, schedule.cost());
  }
  EXPECT_GT(told, 10);
}

/// Every number in a refusal is called a lower bound, and is one: a byte less on that device, all else as asked, holds no schedule by
/// brute force. Lanes and copies that overlap included.
void refusals_name_lower_bounds(CopyMode copies, int lanes, unsigned seed) {
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; refused < test::fewer(1600); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    DeviceGraph graph = random_device_graph(random, 2, copies == CopyMode::overlap ? 3 : 5);
    if (lanes > 1) draw_lanes(random, graph, lanes);
    Problem problem = draw_problem(random, graph, chance(random, 50) ? OrderMode::input : OrderMode::free);
    problem.copies = copies;
    for (std::optional<Bytes>& budget : problem.budget) {
      if (budget) budget = Bytes(draw(random, 0, 8));
    }
    const Answer answer = solve(graph, problem, {.time_limit = kNoTimeLimit, .work_limit = 50});
    const Refusal& refusal = answer.refusal;
    ASSERT_EQ(answer.schedule.status == Status::infeasible, refusal.is_proved());
    const bool names_needs = refusal.cause == Refusal::Cause::op || refusal.cause == Refusal::Cause::kept ||
                             refusal.cause == Refusal::Cause::event;
    ASSERT_EQ(names_needs, !refusal.shortages.empty());
    ASSERT_EQ(names_needs && refusal.cause != Refusal::Cause::kept, refusal.op.valid());
    if (refusal.op.valid()) {
      ASSERT_EQ(refusal.shortages.size(), graph.runs[refusal.op].size());
    }
    for (const auto& [device, needed, budget] : refusal.shortages) {
      ++refused;
      ASSERT_EQ(budget, *problem.budget[device]);
      ASSERT_GT(needed, budget);
      ASSERT_NE(answer.schedule.solver.note.find(graph.devices[device].name + " needs at least " +
                                                 std::to_string(needed.count()) + " bytes (a lower bound)"),
                std::string::npos)
          << answer.schedule.solver.note;
      Problem below = problem;
      below.budget[device] = needed - Bytes(1);
      ASSERT_FALSE((copies == CopyMode::overlap ? test::overlapped_optimum : test::device_optimum)(graph, below));
    }
  }
}

TEST(DeviceSolve, RefusalsNameLowerBounds) {
  refusals_name_lower_bounds(CopyMode::sequential, 1, 61);
}

TEST(DeviceOverlap, RefusalsNameLowerBounds) {
  refusals_name_lower_bounds(CopyMode::overlap, 1, 62);
}

TEST(Lanes, RefusalsNameLowerBounds) {
  refusals_name_lower_bounds(CopyMode::overlap, 3, 63);
}

/// Why there is none, and what would help, as for one device.
TEST(DeviceSolve, AnAnswerWithoutAScheduleSaysWhatWouldHelp) {
  using Help = Refusal::Help;
  std::mt19937 random(64);
  int limits = 0;
  for (int round = 0; round < test::fewer(200); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = std::make_shared<const DeviceGraph>(random_device_graph(random, 2, 6));
    Request request{.graph = graph, .budget = draw_problem(random, *graph, OrderMode::input).budget};
    request.options = {.time_limit = kNoTimeLimit, .work_limit = 1};
    if (chance(random, 50)) request.max_computes = 2;
    const std::atomic<bool> stop{chance(random, 50)};
    const Answer answer = solve(request, {.cancel = &stop});
    const Refusal& refusal = answer.refusal;
    const auto advises = [&](Help help) { return std::ranges::count(refusal.help, help) == 1; };
    ASSERT_EQ(answer.schedule.has_schedule(), refusal.cause == Refusal::Cause::none);
    ASSERT_TRUE(!answer.schedule.has_schedule() || refusal.help.empty());
    ASSERT_EQ(answer.schedule.status == Status::unknown, refusal.cause == Refusal::Cause::limits);
    if (answer.schedule.has_schedule()) continue;
    ASSERT_EQ(advises(Help::larger_budget),
              std::ranges::any_of(request.budget, [](const auto& budget) { return budget.has_value(); }));
    ASSERT_FALSE(advises(Help::offload));
    if (refusal.cause != Refusal::Cause::limits) continue;
    ++limits;
    ASSERT_TRUE(advises(Help::free_order) && !advises(Help::longer_time));
    ASSERT_EQ(advises(Help::more_work), answer.schedule.solver.work >= request.options.work_limit);
    ASSERT_EQ(advises(Help::more_computes), request.max_computes.has_value());
  }
  EXPECT_GT(limits, 0);
}

/// What percentages are of, without a search, is what a sweep's curve says, too.
TEST(DeviceSolve, TheBaselineIsThatOfTheSweep) {
  std::mt19937 random(65);
  for (int round = 0; round < test::fewer(60); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = std::make_shared<const DeviceGraph>(random_device_graph(random, 2, 5));
    Request request{.graph = graph, .copies = chance(random, 50) ? CopyMode::overlap : CopyMode::sequential};
    request.options = {.time_limit = kNoTimeLimit, .work_limit = 20};
    const DeviceId device(static_cast<std::size_t>(draw(random, 0, 1)));
    const Curve before = baseline(request, device);
    const Curve curve = sweep(request, device, {Bytes(40), Bytes(9)}).curve;
    ASSERT_EQ(before.device, curve.device);
    ASSERT_EQ(before.fixed_memory, curve.fixed_memory);
    ASSERT_EQ(before.baseline_duration, curve.baseline_duration);
    ASSERT_EQ(before.baseline_peak_memory, curve.baseline_peak_memory);
  }
}

/// Buffers of a schedule over devices: all that a device holds at a time, and no more.
TEST(DeviceSolve, BuffersTakeWhatTheScheduleTakes) {
  std::mt19937 random(66);
  int overlapped = 0;
  int copied = 0;
  int delayed = 0;
  for (int round = 0; round < test::fewer(400); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    DeviceGraph graph = random_device_graph(random, 2, 6);
    if (chance(random, 50)) draw_lanes(random, graph, 3);
    if (chance(random, 30)) graph.graph.recompute_allocates = Allocation::all;
    // A buffer that takes over another one is a buffer of its own here.
    for (Op& op : graph.graph.ops) op.in_place.clear();
    Problem problem = draw_problem(random, graph, OrderMode::input);
    problem.copies = has_lanes(graph) || chance(random, 50) ? CopyMode::overlap : CopyMode::sequential;
    const DeviceSchedule schedule = solve(graph, problem, {.time_limit = kNoTimeLimit, .work_limit = 100}).schedule;
    if (!schedule.has_schedule()) continue;
    const std::vector<ScheduleBuffers> buffers = buffers_of(graph, schedule);
    ASSERT_EQ(buffers.size(), graph.devices.size());
    for (const DeviceId d : graph.devices.ids()) {
      ASSERT_EQ(largest_load(buffers[d.index()].buffers) + graph.devices[d].fixed_memory, schedule.peak_memory[d]);
    }
    // What is released later, read or not, is occupied until then, and until it is made.
    DeviceSchedule later = schedule;
    for (std::size_t i = 0; i + 1 < later.steps.size(); ++i) {
      auto& free = later.steps[i].free;
      if (free.empty() || chance(random, 50)) continue;
      const auto next =
          static_cast<std::size_t>(draw(random, static_cast<int>(i) + 1, static_cast<int>(later.steps.size()) - 1));
      later.steps[next].free.push_back(free.back());
      free.pop_back();
    }
    const DeviceVerdict verdict = verify(graph, later);
    later.duration = verdict.duration;
    later.peak_memory = verdict.peak;
    if (verify(graph, later).valid()) {
      ++delayed;
      const std::vector<ScheduleBuffers> longer = buffers_of(graph, later);
      for (const DeviceId d : graph.devices.ids()) {
        ASSERT_EQ(largest_load(longer[d.index()].buffers) + graph.devices[d].fixed_memory, later.peak_memory[d]);
      }
    }
    overlapped += schedule.copies == CopyMode::overlap ? 1 : 0;
    copied += std::ranges::any_of(schedule.steps, [](const DeviceStep& step) { return step.is_copy(); }) ? 1 : 0;
  }
  EXPECT_GT(overlapped, test::fewer(50));
  EXPECT_GT(copied, test::fewer(50));
  EXPECT_GT(delayed, test::fewer(50));
}

TEST(DeviceSolve, RefusesWhatMakesNoSense) {
  std::mt19937 random(4);
  const DeviceGraph graph = random_device_graph(random, 2, 3);
  Problem problem{.max_computes = 0};
  problem.budget.assign(2, std::nullopt);
  EXPECT_THROW(solve(graph, problem, {}), InputError);
  problem.max_computes = 2;
  problem.budget.assign(1, std::nullopt);
  EXPECT_THROW(solve(graph, problem, {}), InputError);
  EXPECT_THROW(baseline(Request{}, DeviceId(0)), InputError);
  EXPECT_THROW(baseline(Request{.graph = std::make_shared<const DeviceGraph>(graph)}, DeviceId(2)), InputError);
}

}  // namespace
}  // namespace remora::devices
