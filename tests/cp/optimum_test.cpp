// SPDX-License-Identifier: Apache-2.0
//
// The model against the oracle: same feasibility and same optimum under every budget, in both forms, with modes and
// without, with random switches, branching rules and seeds.
#include <gtest/gtest.h>

#include "tests/cp/oracle_check.hpp"
#include "tests/support/fewer.hpp"

namespace remora {
namespace {

test::OracleTally check(std::uint32_t first_seed, std::uint32_t graphs, const test::ProblemKind& kind) {
  test::OracleTally tally;
  for (std::uint32_t seed = first_seed; seed < first_seed + test::fewer(graphs) && tally.failure.empty(); ++seed) {
    test::check_random_graph(seed, kind, tally);
  }
  return tally;
}

TEST(RetentionModel, StagedFormAgreesWithBruteForce) {
  const auto tally = check(10'000, 5500, {.order = OrderMode::input});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(19'000));
  EXPECT_GT(tally.feasible, test::fewer(10'000));
  EXPECT_GT(tally.recomputing, test::fewer(2000));
}

TEST(RetentionModel, StagedFormOfSevenOpsAgreesWithBruteForce) {
  const auto tally = check(20'000, 150, {.order = OrderMode::input, .least_ops = 7, .most_ops = 7});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(600));
  EXPECT_GT(tally.recomputing, test::fewer(100));
}

TEST(RetentionModel, FreeOrderWithThreeComputesAgreesWithBruteForce) {
  const auto tally = check(30'000, 1500, {.order = OrderMode::free, .most_ops = 4});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(3500));
  EXPECT_GT(tally.feasible, test::fewer(2000));
  EXPECT_GT(tally.recomputing, test::fewer(50));
}

TEST(RetentionModel, FreeOrderWithTwoComputesAgreesWithBruteForce) {
  const test::ProblemKind kind{.order = OrderMode::free, .least_ops = 5, .most_ops = 6, .most_computes = 2};
  const auto tally = check(40'000, 250, kind);
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(900));
  EXPECT_GT(tally.recomputing, test::fewer(40));
}

TEST(RetentionModel, StagedFormWithOptionsAgreesWithBruteForce) {
  const auto tally = check(50'000, 1000, {.order = OrderMode::input, .with_modes = true, .most_ops = 5});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(3000));
  EXPECT_GT(tally.recomputing, test::fewer(500));
}

TEST(RetentionModel, FreeOrderWithOptionsAgreesWithBruteForce) {
  const auto tally = check(60'000, 300, {.order = OrderMode::free, .with_modes = true, .most_ops = 4});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(800));
  EXPECT_GT(tally.recomputing, test::fewer(100));
}

TEST(RetentionModel, StagedFormWithStorageTakenOverAgreesWithBruteForce) {
  const auto tally = check(70'000, 2500, {.order = OrderMode::input, .in_place = true});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(8000));
  EXPECT_GT(tally.recomputing, test::fewer(500));
}

TEST(RetentionModel, FreeOrderWithStorageTakenOverAgreesWithBruteForce) {
  const auto tally = check(80'000, 800, {.order = OrderMode::free, .most_ops = 4, .in_place = true});
  EXPECT_EQ(tally.failure, "");
  EXPECT_GT(tally.cases, test::fewer(1500));
  EXPECT_GT(tally.recomputing, test::fewer(20));
}

}  // namespace
}  // namespace remora
