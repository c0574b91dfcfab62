// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/bound/covering.hpp"
#include "engine/bound/footprint.hpp"
#include "model/evaluate.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

TEST(CoveringBound, IsNeverAboveTheOptimumAndItsInfeasibilityIsReal) {
  std::mt19937 random(31);
  int cases = 0;
  int positive = 0;
  int infeasible = 0;
  for (int round = 0; round < 500; ++round) {
    const auto graph = test::random_graph(random);
    const int max_computes = 1 + static_cast<int>(random() % 3);
    const Instance unlimited(graph, {.max_computes = max_computes});
    for (Bytes budget = unlimited.base_memory(); budget <= baseline_peak(unlimited); budget += Bytes(1)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto bound = covering_bound(covering_relaxation(instance));
      const auto truth = test::optimum(instance);
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(budget.count()));
      ++cases;
      if (bound.infeasible) {
        ++infeasible;
        ASSERT_FALSE(truth.has_value());
        if (bound.event.valid()) {
          ASSERT_GT(cover_certificate(instance, bound.event).required, budget);
        }
      } else if (truth) {
        ASSERT_LE(instance.baseline_duration() + bound.extra, *truth);
        if (bound.extra > Duration(0)) ++positive;
      }
      if (footprint_certificate(instance)) {
        ASSERT_FALSE(truth.has_value());
      }
      if (budget < least_budget(instance)) {
        ASSERT_FALSE(truth.has_value());
      }
    }
  }
  EXPECT_GT(cases, 3000);
  EXPECT_GT(positive, 300);
  EXPECT_GT(infeasible, 300);
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
