// SPDX-License-Identifier: Apache-2.0
//
// The model against the oracle: same feasibility and same optimum under every budget, in both forms, with options and
// without, with random switches, branching rules and seeds.
#include <gtest/gtest.h>

#include "tests/cp/oracle_check.hpp"

namespace remora {
namespace {

test::OracleTally check(std::uint32_t first_seed, std::uint32_t graphs, const test::ProblemKind& kind) {
  test::OracleTally tally;
  for (std::uint32_t seed = first_seed; seed < first_seed + graphs && tally.failure.empty(); ++seed) {
    test::check_random_graph(seed, kind, tally);
  }
  return tally;
}

TEST(RetentionModel, StagedFormAgreesWithBruteForce) {
  const auto tally = check(10'000, 2500, {.order = OrderMode::input});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, 9000);
  EXPECT_GT(tally.feasible, 5000);
  EXPECT_GT(tally.recomputing, 1000);
}

TEST(RetentionModel, StagedFormOfSevenOpsAgreesWithBruteForce) {
  const auto tally = check(20'000, 300, {.order = OrderMode::input, .least_ops = 7, .most_ops = 7});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, 1000);
  EXPECT_GT(tally.recomputing, 200);
}

TEST(RetentionModel, FreeOrderAgreesWithBruteForce) {
  const auto tally = check(30'000, 1500, {.order = OrderMode::free, .most_ops = 5});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, 5000);
  EXPECT_GT(tally.feasible, 3000);
  EXPECT_GT(tally.recomputing, 200);
}

TEST(RetentionModel, StagedFormWithOptionsAgreesWithBruteForce) {
  const auto tally = check(50'000, 800, {.order = OrderMode::input, .with_options = true, .most_ops = 5});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, 3000);
  EXPECT_GT(tally.recomputing, 500);
}

TEST(RetentionModel, FreeOrderWithOptionsAgreesWithBruteForce) {
  const auto tally = check(60'000, 400, {.order = OrderMode::free, .with_options = true, .most_ops = 4});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, 1500);
  EXPECT_GT(tally.recomputing, 200);
}

}  // namespace
}  // namespace remora
