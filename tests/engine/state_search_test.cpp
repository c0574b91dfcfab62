// SPDX-License-Identifier: Apache-2.0
//
// The complete search over lanes against brute force: every optimum, every infeasibility, and no bound above an optimum.
#include "engine/devices/state_search.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/device_oracle.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_devices.hpp"

namespace remora::devices {
namespace {

using test::draw;

struct Cases {
  unsigned seed = 0;
  int rounds = 0;
  int devices = 1;
  int most_ops = 7;
  OrderMode order = OrderMode::input;
};

struct Tally {
  int cases = 0;
  int feasible = 0;
  std::int64_t nodes = 0;
  std::int64_t most_nodes = 0;
};

/// The schedule of the optimum, if there is one.
std::optional<DeviceSchedule> compare(const DeviceGraph& graph, const Problem& problem, Tally& tally) {
  const auto truth = test::overlapped_optimum(graph, problem);
  StateSearch search(graph, problem, {});
  // In two sessions: the bound of the first one is one of the problem.
  const CompleteOutcome first = search.advance(20);
  const CompleteOutcome& outcome = search.advance(10'000'000);
  ++tally.cases;
  tally.feasible += truth ? 1 : 0;
  tally.nodes += outcome.nodes;
  tally.most_nodes = std::max(tally.most_nodes, outcome.nodes);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.steps.has_value(), truth.has_value());
  if (!truth || !outcome.steps) return std::nullopt;
  EXPECT_LE(first.least, *truth);
  EXPECT_EQ(outcome.cost, *truth);
  DeviceSchedule schedule{.status = Status::feasible,
                          .order = problem.order,
                          .objective = problem.objective,
                          .copies = CopyMode::overlap,
                          .budget = problem.budget,
                          .duration_limit = problem.duration_limit,
                          .energy_limit = problem.energy_limit};
  schedule.solver.max_computes = problem.max_computes;
  schedule.steps = *outcome.steps;
  const DeviceVerdict replayed = verify(graph, schedule);
  schedule.duration = replayed.duration;
  schedule.energy = replayed.energy;
  schedule.peak_memory = replayed.peak;
  const DeviceVerdict verdict = verify(graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_EQ(schedule.cost(), *truth);
  return schedule;
}

/// Each problem, and again with the budget of one device at and below what the optimum took there.
void compare_all(const Cases& cases) {
  Tally tally;
  std::mt19937 random(cases.seed);
  for (int round = 0; round < test::fewer(cases.rounds) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(cases.seed) + ", round " + std::to_string(round));
    DeviceGraph graph = test::random_device_graph(random, cases.devices, cases.most_ops);
    test::draw_lanes(random, graph, 4);
    Problem problem = test::draw_problem(random, graph, cases.order);
    problem.copies = CopyMode::overlap;
    if (test::chance(random, 30)) test::draw_limits(random, graph, problem);
    for (int below = 0; below <= 1; ++below) {
      const auto schedule = compare(graph, problem, tally);
      if (!schedule) break;
      const DeviceId d(draw(random, 0, cases.devices - 1));
      problem.budget[d] = schedule->peak_memory[d] - Bytes(below);
    }
    compare(graph, problem, tally);
  }
  std::cout << tally.cases << " cases, " << tally.feasible << " feasible, " << tally.nodes << " nodes, at most "
            << tally.most_nodes << "\n";
}

// 10,000 graphs in all.

TEST(StateSearch, InInputOrderFindsAndProvesTheOptimum) {
  compare_all({.seed = 41, .rounds = 6000});
}

TEST(StateSearch, InFreeOrderFindsAndProvesTheOptimum) {
  compare_all({.seed = 42, .rounds = 3000, .order = OrderMode::free});
}

TEST(StateSearch, OfTwoDevicesFindsAndProvesTheOptimum) {
  compare_all({.seed = 43, .rounds = 600, .devices = 2, .most_ops = 3});
}

TEST(StateSearch, OfTwoDevicesInFreeOrderFindsAndProvesTheOptimum) {
  compare_all({.seed = 44, .rounds = 400, .devices = 2, .most_ops = 3, .order = OrderMode::free});
}

}  // namespace
}  // namespace remora::devices
