// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/bound/first_bound.hpp"
#include "model/evaluate.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

struct Bounds {
  int cases = 0;
  int positive = 0;
  int infeasible = 0;
  /// Cases in which CBC's bound is the optimum, of those with an optimum above the baseline.
  int tight = 0;
};

/// What a certificate lists adds up to what it requires, and that exceeds the budget: checked without the bound's code.
void check_certificate(const Instance& instance, const Certificate& certificate) {
  // What an output takes over may have to be counted, too.
  Bytes sum = instance.base_memory() + instance.workspace(certificate.op);
  const Bytes most = sum + instance.workspace(certificate.op, 0) - instance.workspace(certificate.op);
  std::set<int> seen;
  for (const TensorId t : certificate.tensors) {
    ASSERT_TRUE(seen.insert(t).second);
    sum += instance.size(t);
  }
  ASSERT_GE(certificate.required, sum);
  ASSERT_LE(certificate.required - sum, most - instance.base_memory() - instance.workspace(certificate.op));
  ASSERT_GT(certificate.required, instance.budget());
  for (const TensorId t : instance.inputs(certificate.op)) ASSERT_TRUE(seen.contains(t));
  for (const TensorId t : instance.outputs(certificate.op)) ASSERT_TRUE(seen.contains(t));
}

void check_ascent(const Instance& instance, const CoverProblem& problem, const std::optional<Duration>& truth) {
  const auto bound = covering_bound(problem);
  if (bound.infeasible) {
    ASSERT_FALSE(truth.has_value());
    if (bound.event.valid() && instance.problem().order == OrderMode::input) {
      check_certificate(instance, cover_certificate(instance, problem, bound.event));
    }
  } else if (truth) {
    ASSERT_LE(instance.baseline_duration() + bound.extra, *truth);
  }
}

void check_mip(const Instance& instance, const CoverProblem& problem, const std::optional<Duration>& truth,
               Bounds& tally) {
  if (!cover_mip_available()) return;
  const auto mip = solve_cover_mip(problem, {});
  if (mip.infeasible) {
    ++tally.infeasible;
    ASSERT_FALSE(truth.has_value());
    if (instance.problem().order == OrderMode::input) {
      check_certificate(instance, cover_certificate(instance, problem, mip.event, mip.given_up));
    }
    return;
  }
  if (!truth) return;
  ASSERT_LE(instance.baseline_duration() + mip.priced.bound, *truth);
  ASSERT_LE(instance.baseline_duration() + mip.bound, *truth);
  if (mip.bound > Duration(0)) ++tally.positive;
  if (*truth > instance.baseline_duration() && instance.baseline_duration() + mip.bound == *truth) ++tally.tight;
}

void check_footprint(const Instance& instance, const std::optional<Duration>& truth) {
  if (const auto certificate = footprint_certificate(instance)) {
    ASSERT_FALSE(truth.has_value());
    ASSERT_GT(certificate->required, instance.budget());
  }
  if (instance.budget() < least_budget(instance)) {
    ASSERT_FALSE(truth.has_value());
  }
}

Bounds check_bounds(unsigned seed, int rounds, OrderMode order, const test::RandomGraphOptions& kind, int computes) {
  std::mt19937 random(seed);
  Bounds tally;
  for (int round = 0; round < test::fewer(rounds) && !testing::Test::HasFatalFailure(); ++round) {
    const auto graph = test::random_graph(random, kind);
    const int max_computes = 1 + static_cast<int>(random() % static_cast<unsigned>(computes));
    const Instance unlimited(graph, {.max_computes = max_computes, .order = order});
    const Bytes least = std::max(unlimited.base_memory(), least_budget(unlimited) - Bytes(2));
    for (Bytes budget = least; budget <= baseline_peak(unlimited); budget += Bytes(1)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto truth = test::optimum(instance);
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(budget.count()));
      ++tally.cases;
      const auto problem = covering_relaxation(instance);
      check_ascent(instance, problem, truth);
      check_mip(instance, problem, truth, tally);
      if (order == OrderMode::input && max_computes > 1) {
        Bounds ignored;
        check_mip(instance, covering_relaxation(instance, false), truth, ignored);
      }
      check_footprint(instance, truth);
    }
  }
  return tally;
}

TEST(CoveringBound, IsNeverAboveTheOptimumOfTheStagedForm) {
  const auto tally = check_bounds(31, 3600, OrderMode::input, {}, 3);
  EXPECT_GT(tally.cases, test::fewer(15'000));
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(2000));
  EXPECT_GT(tally.infeasible, test::fewer(50));
  EXPECT_GT(tally.tight, test::fewer(1000));
}

TEST(CoveringBound, IsNeverAboveTheOptimumOfTheFreeOrder) {
  const auto tally = check_bounds(32, 1200, OrderMode::free, {.least_ops = 3, .most_ops = 5}, 2);
  EXPECT_GT(tally.cases, test::fewer(5000));
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(20));
}

TEST(CoveringBound, IsNeverAboveTheOptimumWhereStorageIsTakenOver) {
  const auto tally = check_bounds(34, 1600, OrderMode::input, {.in_place = true}, 3);
  EXPECT_GT(tally.cases, test::fewer(5000));
  check_bounds(35, 600, OrderMode::free, {.least_ops = 3, .most_ops = 5, .in_place = true}, 2);
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(400));
}

/// Limits that end the work at the k-th question.
CoverMipLimits limits_of(int k, int& asked) {
  CoverMipLimits limits;
  limits.interrupted = [k, &asked] { return ++asked >= k; };
  return limits;
}

TEST(CoveringBound, OfAProgramThatIsInterruptedAnywhereIsNeverAboveTheOptimum) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(33);
  for (int round = 0; round < test::fewer(150); ++round) {
    const Instance unlimited(test::random_graph(random, {}), {});
    const Bytes budget((least_budget(unlimited).count() + baseline_peak(unlimited).count()) / 2);
    const Instance instance = unlimited.with_budget(budget);
    const auto truth = test::optimum(instance);
    const auto problem = covering_relaxation(instance);
    for (const int k : {1, 2, 5, 12, 30, 70, 150}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", question " + std::to_string(k));
      int asked = 0;
      const auto mip = solve_cover_mip(problem, limits_of(k, asked));
      ASSERT_FALSE(mip.infeasible && truth);
      if (!truth) continue;
      ASSERT_LE(instance.baseline_duration() + mip.bound, *truth);
    }
  }
}

TEST(CoveringBound, IsAskedToEndWithinTheFirstLinearProgram) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const Instance unlimited(test::training_chain(20), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 6 / 10));
  const auto problem = covering_relaxation(instance);
  int asked = 0;
  solve_cover_mip(problem, limits_of(2, asked));
  EXPECT_GE(asked, 2);
}

TEST(CoveringBound, IsPositiveOnATrainingChainThatMustRecompute) {
  const auto graph = test::training_chain(4);
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(baseline_peak(unlimited) - Bytes(1));
  const auto truth = test::optimum(instance);
  ASSERT_TRUE(truth.has_value());
  const auto bound = covering_bound(covering_relaxation(instance));
  // The fractional knapsack takes a quarter of one recompute, rounded up.
  EXPECT_GT(bound.extra, Duration(0));
  EXPECT_LE(instance.baseline_duration() + bound.extra, *truth);
}

TEST(FootprintCertificate, NamesTheOpItsTensorsAndTheBytes) {
  const Instance instance(test::figure_1(), {.budget = Bytes(2)});
  const auto certificate = footprint_certificate(instance);
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->op, OpId(3));
  EXPECT_EQ(certificate->required, Bytes(3));
  EXPECT_EQ(certificate->tensors.size(), 3U);
  EXPECT_FALSE(footprint_certificate(instance.with_budget(Bytes(3))).has_value());
}

TEST(FootprintCertificate, TensorsThatMustBeKeptTogetherAreNamed) {
  Graph graph;
  for (int i = 0; i < 4; ++i) {
    const TensorId t = graph.add_tensor("t" + std::to_string(i), Bytes(1), true);
    graph.add_op({.name = "op" + std::to_string(i), .duration = Duration(1), .outputs = {t}});
  }
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(3)});
  const auto certificate = footprint_certificate(instance);
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->required, Bytes(4));
  EXPECT_EQ(certificate->tensors.size(), 4U);
  EXPECT_EQ(least_budget(instance), Bytes(4));
}

}  // namespace
}  // namespace remora
