// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/hierarchy/hierarchical.hpp"
#include "engine/solve.hpp"
#include "frontends/generate/transformer.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora {
namespace {

SolveOptions small_groups(std::int64_t work) {
  SolveOptions options;
  options.strategy = Strategy::hierarchical;
  options.work_limit = work;
  options.time_limit = kNoTimeLimit;
  options.threads = 1;
  options.group_size = 3;
  options.top_size = 2;
  return options;
}

/// The stitched solution alone, without the search behind it.
Solution stitched(const Instance& instance, const SolveOptions& options) {
  const Deadline deadline(options.time_limit, nullptr);
  const HierarchicalResult result = solve_hierarchically(instance, options, deadline);
  const Evaluation evaluation = evaluate(instance, sequence_of(instance, result.solution.plan));
  EXPECT_EQ(evaluation.peak, result.solution.peak);
  EXPECT_EQ(evaluation.duration, instance.baseline_duration() + result.solution.extra);
  return result.solution;
}

Instance tight(const std::shared_ptr<const Graph>& graph, std::mt19937& random) {
  const Instance unlimited(graph, {});
  const std::int64_t most = baseline_peak(unlimited).count();
  return unlimited.with_budget(Bytes(most - static_cast<std::int64_t>(random() % static_cast<unsigned>(most / 2 + 1))));
}

struct Tally {
  int feasible = 0;
  int harder = 0;
  int within = 0;
  int optimal = 0;
};

void count(const Instance& instance, const Solution& found, const std::optional<Duration>& optimum, Tally& tally) {
  const bool holds = found.peak <= instance.budget();
  if (!optimum) {
    EXPECT_FALSE(holds) << "a schedule within the budget where there is none";
    return;
  }
  ++tally.feasible;
  if (*optimum == instance.baseline_duration()) return;
  ++tally.harder;
  if (!holds) return;
  ++tally.within;
  const Duration duration = instance.baseline_duration() + found.extra;
  EXPECT_GE(duration, *optimum);
  if (duration == *optimum) ++tally.optimal;
}

TEST(Hierarchical, IsTheOptimumOfTwoSmallBlocks) {
  std::mt19937 random(20261161);
  Tally tally;
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261161, round " + std::to_string(round));
    const Instance instance = tight(test::random_training_graph(random, 4), random);
    count(instance, stitched(instance, small_groups(50'000)), test::optimum(instance), tally);
  }
  std::printf("feasible %d harder %d within %d optimal %d\n", tally.feasible, tally.harder, tally.within,
              tally.optimal);
}

}  // namespace
}  // namespace remora
