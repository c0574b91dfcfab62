// SPDX-License-Identifier: Apache-2.0
//
// Several devices: what problems with fewer choices give is not lost.
#include <random>

#include <gtest/gtest.h>

#include "engine/devices/device_solve.hpp"
#include "engine/solve.hpp"
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

/// Runs again and copies together cost no more than what either gives alone within the share that it has of the limits.
TEST(DeviceRestriction, IsNoWorseThanOneDeviceAlone) {
  constexpr std::int64_t kWork = 2000;
  std::mt19937 random(5);
  int open = 0;
  int compared = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const auto graph = test::random_training_graph(random, 20);
    const DeviceGraph devices = with_store(*graph);
    DeviceProblem problem;
    problem.budget.assign(2, std::nullopt);
    const DeviceSchedule roomy = solve(devices, problem, {.time_limit = kNoTimeLimit, .work_limit = 1});
    ASSERT_TRUE(roomy.has_schedule());
    const Bytes budget(roomy.peak_memory[DeviceId(0)].count() * 7 / 10);
    problem.budget[DeviceId(0)] = budget;
    const DeviceSchedule both = solve(devices, problem, {.time_limit = kNoTimeLimit, .work_limit = kWork, .seed = 2});
    if (both.has_schedule()) {
      EXPECT_TRUE(verify(devices, both).valid());
    }
    SolveOptions options = test::work_limited(kWork / 10);
    options.seed = 1;
    const Schedule alone = solve(Instance(graph, {.budget = budget}), options);
    if (!alone.has_schedule()) continue;
    ++compared;
    open += both.status == Status::feasible ? 1 : 0;
    ASSERT_TRUE(both.has_schedule());
    EXPECT_LE(both.cost(), alone.duration.count());
  }
  EXPECT_GT(compared, 10);
  RecordProperty("open", open);
}

}  // namespace
}  // namespace remora
