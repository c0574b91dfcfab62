// SPDX-License-Identifier: Apache-2.0
//
// Several devices: what problems with fewer choices give is not lost.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/devices/solve.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

/// A graph of one device, and a store where everything may go.
DeviceGraph with_store(const Graph& graph) {
  DeviceGraph result{.graph = graph};
  result.graph.fixed_memory = Bytes(0);
  result.devices.push_back({.name = "gpu", .fixed_memory = graph.fixed_memory});
  result.devices.push_back({.name = "host"});
  for (Op& op : result.graph.ops) {
    result.runs.push_back({{DeviceId(0), op.duration, op.workspace}});
    op.duration = Duration(0);
    op.workspace = Bytes(0);
  }
  const Table<TensorId, bool> produced = produced_tensors(graph);
  for (const TensorId t : produced.ids()) {
    result.places.push_back({});
    if (!produced[t]) result.places[t].home = {DeviceId(0)};
  }
  result.links = {{.from = DeviceId(0), .to = DeviceId(1), .latency = Duration(1), .per = Duration(1)},
                  {.from = DeviceId(1), .to = DeviceId(0), .latency = Duration(1), .per = Duration(1)}};
  validate(result);
  return result;
}

/// What is left of the peak without a limit.
devices::Problem tight_problem(const DeviceGraph& graph, CopyMode copies) {
  devices::Problem problem{.copies = copies};
  problem.budget.assign(2, std::nullopt);
  const DeviceSchedule roomy = solve(graph, problem, {.time_limit = kNoTimeLimit, .work_limit = 1}).schedule;
  EXPECT_TRUE(roomy.has_schedule());
  problem.budget[DeviceId(0)] = Bytes(roomy.peak_memory[DeviceId(0)].count() * 7 / 10);
  return problem;
}

/// Runs again and copies together cost no more than what either gives alone within the share that it has of the limits.
void expect_no_worse_than_alone(CopyMode copies, int rounds) {
  constexpr std::int64_t kWork = 2000;
  std::mt19937 random(5);
  int compared = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const auto graph = test::random_training_graph(random, 20);
    const DeviceGraph devices = with_store(*graph);
    devices::Problem problem = tight_problem(devices, copies);
    const DeviceSchedule both =
        solve(devices, problem, {.time_limit = kNoTimeLimit, .work_limit = kWork, .seed = 2}).schedule;
    if (both.has_schedule()) {
      EXPECT_TRUE(verify(devices, both).valid());
    }
    SolveOptions options = test::work_limited(kWork / 10);
    options.seed = 1;
    const Schedule again = solve(Instance(graph, {.budget = *problem.budget[DeviceId(0)]}), options);
    const Schedule chosen =
        solve_with_more_computes(Instance(graph, {.budget = *problem.budget[DeviceId(0)]}), options);
    const DeviceSchedule all =
        solve_with_more_computes(devices, problem, {.time_limit = kNoTimeLimit, .work_limit = kWork, .seed = 2})
            .schedule;
    if (chosen.has_schedule()) {
      ASSERT_TRUE(all.has_schedule());
      EXPECT_TRUE(verify(devices, all).valid());
      EXPECT_LE(all.cost(), chosen.duration.count());
    }
    problem.max_computes = 1;
    const DeviceSchedule moved =
        solve(devices, problem, {.time_limit = kNoTimeLimit, .work_limit = kWork / 10, .seed = 2}).schedule;
    if (!again.has_schedule() && !moved.has_schedule()) continue;
    ++compared;
    ASSERT_TRUE(both.has_schedule());
    if (again.has_schedule()) {
      EXPECT_LE(both.cost(), again.duration.count());
    }
    if (moved.has_schedule()) {
      EXPECT_LE(both.cost(), moved.cost());
    }
  }
  EXPECT_GT(compared, rounds / 2);
}

TEST(DeviceRestriction, IsNoWorseThanOneDeviceOrCopiesAlone) {
  expect_no_worse_than_alone(CopyMode::sequential, 40);
}

TEST(DeviceRestriction, IsNoWorseThanThatWhereCopiesOverlap) {
  expect_no_worse_than_alone(CopyMode::overlap, 40);
}

/// What it says is a bound of its own optimum, and nothing is left once that is found.
TEST(DeviceRestriction, OneDeviceAloneSaysWhatItMayStillSave) {
  std::mt19937 random(9);
  int proved = 0;
  int open = 0;
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const DeviceGraph devices = with_store(*test::random_training_graph(random, 20));
    const devices::Problem problem = tight_problem(devices, CopyMode::sequential);
    const devices::Options options{.time_limit = kNoTimeLimit, .work_limit = 40};
    const auto alone = devices::one_device_alone(devices, problem, DeviceId(0), options, false);
    ASSERT_NE(alone, nullptr);
    EXPECT_EQ(alone->gap(), 1);
    const auto cost = [&] {
      return static_cast<double>(cost_of_schedule(devices, problem, alone->steps()).value_or(0));
    };
    std::vector<double> least;
    for (int session = 0; session < 60 && !alone->finished(); ++session) {
      alone->run_session({.work = Work(100)});
      if (alone->steps().empty()) continue;
      least.push_back(cost() * (1 - alone->gap()));
      if (alone->gap() > 0) ++open;
    }
    if (!alone->finished() || alone->steps().empty()) continue;
    ++proved;
    EXPECT_EQ(alone->gap(), 0);
    for (const double bound : least) EXPECT_LE(bound, cost() + 1e-6);
  }
  EXPECT_GT(proved, 10);
  EXPECT_GT(open, 0);
}

}  // namespace
}  // namespace remora
