// SPDX-License-Identifier: Apache-2.0
//
// Copies beside computing: the replay by hand, evaluator against verify. The search against brute force: device_solve_test.cpp.
#include <algorithm>
#include <iostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "engine/devices/changes.hpp"
#include "engine/devices/plan.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_devices.hpp"

namespace remora::devices {
namespace {

using test::chance;
using test::draw;

DeviceSchedule overlapped_schedule(const DeviceGraph& graph, const Problem& problem, std::vector<DeviceStep> steps) {
  DeviceSchedule schedule{.status = Status::feasible,
                          .order = problem.order,
                          .objective = problem.objective,
                          .copies = CopyMode::overlap,
                          .budget = problem.budget};
  schedule.solver.max_computes = 64;
  schedule.steps = std::move(steps);
  const DeviceVerdict verdict = verify(graph, schedule);
  schedule.duration = verdict.duration;
  schedule.energy = verdict.energy;
  schedule.peak_memory = verdict.peak;
  return schedule;
}

/// Five ops in a chain on the first device, of 4 each; x, which A makes, is read again by E. A store beside it; copies take 6.
DeviceGraph chain_with_store() {
  DeviceGraph graph;
  graph.devices = Table<DeviceId, Device>(std::vector<Device>{{.name = "gpu"}, {.name = "host"}});
  graph.links = {{.from = DeviceId(0), .to = DeviceId(1), .latency = Duration(6)},
                 {.from = DeviceId(1), .to = DeviceId(0), .latency = Duration(6)}};
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    const bool is_last = name[0] == 'E';
    const TensorId made = graph.graph.add_tensor(std::string(1, static_cast<char>(name[0] + 32)), Bytes(2), is_last);
    Op op{.name = name, .outputs = {made}};
    if (made > 0) op.inputs = {TensorId(made - 1)};
    if (is_last) op.inputs.insert(op.inputs.begin(), TensorId(0));
    graph.places.push_back({});
    graph.graph.add_op(std::move(op));
    graph.runs.push_back({{DeviceId(0), Duration(4)}});
  }
  validate(graph);
  return graph;
}

DeviceStep run_of(int op, std::vector<int> free) {
  DeviceStep step{.op = OpId(op), .device = DeviceId(0)};
  for (const int t : free) step.free.push_back({TensorId(t), DeviceId(0)});
  return step;
}

/// With 4 bytes the last run never finds room for its three tensors. With 6: A 0-4; a goes out 4-10 while B runs 4-8, and C 8-12; a is
/// back 12-18, from where D starts, which stands before it and takes its memory first, 12-16; E 18-22.
TEST(DeviceOverlap, WaitsForStreamsInputsAndMemory) {
  const DeviceGraph graph = chain_with_store();
  Problem problem{.copies = CopyMode::overlap};
  problem.budget = Table<DeviceId, std::optional<Bytes>>(std::vector<std::optional<Bytes>>{Bytes(4), std::nullopt});
  const DeviceStep out{.copied = TensorId(0), .device = DeviceId(0), .to = DeviceId(1), .free = {}};
  const DeviceStep back{
      .copied = TensorId(0), .device = DeviceId(1), .to = DeviceId(0), .free = {{TensorId(0), DeviceId(1)}}};
  std::vector<DeviceStep> steps{run_of(0, {}),  out,  run_of(1, {0}),   run_of(2, {1}),
                                run_of(3, {2}), back, run_of(4, {0, 3})};
  // The last run has three tensors of 2 bytes.
  EXPECT_EQ(overlapped(graph, steps, problem.budget).stuck, 6);
  const DeviceVerdict stuck = verify(graph, overlapped_schedule(graph, problem, steps));
  ASSERT_FALSE(stuck.valid());
  EXPECT_EQ(stuck.errors.front(),
            "step 6: waits for ever for 2 bytes on gpu, whose budget is 4: no step before it gives back enough");
  problem.budget[DeviceId(0)] = Bytes(6);
  const OverlappedTimes times = overlapped(graph, steps, problem.budget);
  ASSERT_FALSE(times.stuck);
  const std::vector<StepTime> expected{{Duration(0), Duration(4)},   {Duration(4), Duration(10)},
                                       {Duration(4), Duration(8)},   {Duration(8), Duration(12)},
                                       {Duration(12), Duration(16)}, {Duration(12), Duration(18)},
                                       {Duration(18), Duration(22)}};
  EXPECT_EQ(times.steps, expected);
  EXPECT_EQ(times.duration, Duration(22));
  const DeviceSchedule schedule = overlapped_schedule(graph, problem, steps);
  EXPECT_TRUE(verify(graph, schedule).valid());
  EXPECT_EQ(schedule.duration, Duration(22));
  EXPECT_EQ(schedule.peak_memory, times.peak);
  EXPECT_EQ(evaluate(graph, steps).duration, Duration(32));
}

/// Random plans, some of them with copies moved: the one pass and the clock agree, overlapping takes no longer, and a schedule
/// goes on for ever exactly where memory fits one thing at a time.
TEST(DeviceOverlap, EvaluatorAndVerifyAgree) {
  std::mt19937 random(5);
  int compared = 0;
  int stuck = 0;
  int shorter = 0;
  for (int round = 0; round < test::fewer(40000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const DeviceGraph graph = test::random_device_graph(random, draw(random, 2, 3), 6);
    Problem problem = test::draw_problem(random, graph, OrderMode::free);
    problem.max_computes = 3;
    Table<OpId, DeviceId> devices;
    for (const auto& runs : graph.runs) devices.push_back(runs[random() % runs.size()].device);
    std::optional<EvaluatedPlan> plan = plan_of(graph, problem, devices);
    if (!plan) continue;
    for (int change = draw(random, 0, 4); change > 0 && plan; --change) {
      const int step = draw(random, 0, static_cast<int>(plan->plan.size()) - 1);
      const DeviceId device(draw(random, 0, static_cast<int>(graph.devices.size()) - 1));
      const auto ways = making_room(graph, problem, plan->plan, plan->evaluation, step, device);
      if (ways.empty()) continue;
      auto next = mended(graph, problem, with_steps(plan->plan, ways[random() % ways.size()]));
      if (next) plan = std::move(next);
    }
    for (const DeviceId d : graph.devices.ids()) {
      problem.budget[d].reset();
      if (chance(random, 70)) problem.budget[d] = plan->evaluation.peak[d] - Bytes(chance(random, 30) ? 1 : 0);
    }
    const std::vector<DeviceStep> steps = with_releases(plan->evaluation, plan->plan);
    const OverlappedTimes times = overlapped(graph, steps, problem.budget);
    const DeviceSchedule schedule = overlapped_schedule(graph, problem, steps);
    const DeviceVerdict verdict = verify(graph, schedule);
    bool fits = true;
    for (const DeviceId d : graph.devices.ids()) {
      for (const Bytes here : plan->evaluation.memory[d]) {
        fits = fits && (!problem.budget[d] || here <= *problem.budget[d]);
      }
    }
    ASSERT_EQ(times.stuck.has_value(), !fits);
    ASSERT_EQ(verdict.valid(), fits) << verdict.errors.front();
    ++compared;
    stuck += fits ? 0 : 1;
    if (!fits) continue;
    ASSERT_EQ(times.duration, verdict.duration);
    ASSERT_EQ(times.peak, verdict.peak);
    ASSERT_LE(times.duration, plan->evaluation.duration);
    shorter += times.duration < plan->evaluation.duration ? 1 : 0;
  }
  std::cout << compared << " compared, " << stuck << " never go on, " << shorter << " shorter\n";
  EXPECT_GT(stuck, 100);
  EXPECT_GT(shorter, 100);
}

}  // namespace
}  // namespace remora::devices
