// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/search/workers/relaxation_workers.hpp"
#include "model/evaluate.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

/// Some schedule within the budget, not the best: the first that the constraint program finds.
std::optional<Solution> first_schedule(const Instance& instance, std::uint64_t seed) {
  const cp::RetentionProblem problem(instance, computes_of(input_order(instance)), input_order(instance),
                                     {instance.budget()});
  cp::SearchSettings settings;
  settings.first_only = true;
  settings.noise = 0.9;
  settings.seed = seed;
  const auto outcome = cp::solve_retention(problem, settings);
  if (!outcome.sequence) return std::nullopt;
  return make_solution(instance, *outcome.sequence);
}

/// What is known between rounds.
struct Known {
  Solution incumbent{};
  Duration lower_bound{};
  CoverFacts cover{};
};

/// Rounds of the worker alone, until bound and incumbent meet or it has nothing more to say.
void run_alone(const Instance& instance, Known& state, std::uint64_t seed) {
  const std::function<bool()> never = [] { return false; };
  BendersWorker worker({}, seed);
  for (int round = 0; round < 20 && state.lower_bound < state.incumbent.extra; ++round) {
    const auto result = worker.run({instance, state.incumbent, state.lower_bound, state.cover, never});
    state.lower_bound = std::max(state.lower_bound, result.lower_bound);
    if (result.solution) {
      ASSERT_TRUE(better(instance, *result.solution, state.incumbent));
      state.incumbent = *result.solution;
    }
  }
}

TEST(Benders, AloneFindsAndProvesTheOptimumOfRandomGraphs) {
  std::mt19937 random(61);
  int solved = 0;
  int cuts_needed = 0;
  for (int round = 0; round < 600; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 5, .most_ops = 7});
    const Instance unlimited(graph, {.max_computes = 2 + round % 2});
    const Bytes less(static_cast<std::int64_t>(1 + random() % 6));
    if (baseline_peak(unlimited) < less) continue;
    const Instance instance = unlimited.with_budget(baseline_peak(unlimited) - less);
    auto incumbent = first_schedule(instance, random());
    if (!incumbent) continue;
    Known state;
    state.incumbent = *incumbent;
    state.cover.problem = covering_relaxation(instance);
    auto mip = solve_cover_mip(state.cover.problem, {});
    if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
    ASSERT_FALSE(mip.infeasible);
    state.lower_bound = mip.bound;
    state.cover.given_up = std::move(mip.given_up);
    run_alone(instance, state, random());
    if (testing::Test::HasFatalFailure()) return;
    const auto truth = test::optimum(instance);
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_TRUE(truth.has_value());
    ASSERT_EQ(instance.baseline_duration() + state.lower_bound, *truth);
    ASSERT_EQ(instance.baseline_duration() + state.incumbent.extra, *truth);
    ++solved;
    if (mip.bound < state.lower_bound) ++cuts_needed;
  }
  EXPECT_GT(solved, 100);
  EXPECT_GT(cuts_needed, 20);
}

}  // namespace
}  // namespace remora
