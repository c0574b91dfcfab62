// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/place_banks.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/placement_oracle.hpp"

namespace remora {
namespace {

using test::fewer;

std::string text_of(const BankProblem& problem) {
  std::string text = test::text_of(problem.buffers);
  for (const Bank& bank : problem.banks) text += bank.name + ": " + std::to_string(bank.capacity.count()) + "\n";
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    text += problem.buffers[i].id + ":";
    for (const BankChoice& choice : problem.choices[i]) {
      text += " " + problem.banks[choice.bank].name + " at " + std::to_string(choice.cost);
    }
    text += "\n";
  }
  return text;
}

/// The answer, whose placement is valid whatever it is.
PlaceResult checked_banks(const BankProblem& problem, const PlaceSettings& settings) {
  PlaceResult result = place_banks(problem, settings, [] { return false; });
  if (result.status == PlacementStatus::optimal || result.status == PlacementStatus::feasible) {
    EXPECT_EQ(bank_fault(problem, BankPlacement{result.banks, result.offsets}), "");
    EXPECT_EQ(cost_of(problem, BankPlacement{result.banks, result.offsets}), result.cost);
    EXPECT_LE(result.least_cost, result.cost);
  }
  return result;
}

TEST(PlaceBanks, LeastCostIsThatOfBruteForce) {
  constexpr int kCases = 6'000;
  Random random(47);
  int spilled = 0;
  int impossible = 0;
  for (int i = 0; i < fewer(kCases); ++i) {
    const BankProblem problem = test::random_bank_problem(random);
    const std::optional<std::int64_t> truth = test::least_bank_cost(problem);
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(problem));
    const PlaceResult result = checked_banks(problem, {});
    if (!truth) {
      ASSERT_EQ(result.status, PlacementStatus::infeasible);
      ++impossible;
      continue;
    }
    ASSERT_EQ(result.status, PlacementStatus::optimal);
    ASSERT_EQ(result.cost, *truth);
    ASSERT_EQ(result.least_cost, *truth);
    spilled += *truth > 0 ? 1 : 0;
  }
  EXPECT_GE(spilled, fewer(kCases) / 10);
  EXPECT_GE(impossible, fewer(kCases) / 100);
}

TEST(PlaceBanks, CutShortItsBoundHolds) {
  constexpr int kCases = 1'000;
  Random random(53);
  for (int i = 0; i < fewer(kCases); ++i) {
    const BankProblem problem = test::random_bank_problem(random);
    const std::optional<std::int64_t> truth = test::least_bank_cost(problem);
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(problem));
    const PlaceResult result = checked_banks(problem, {.work_limit = 1, .exact = i % 2 == 0});
    if (!truth) {
      ASSERT_TRUE(result.status == PlacementStatus::infeasible || result.status == PlacementStatus::unknown);
      continue;
    }
    ASSERT_NE(result.status, PlacementStatus::infeasible);
    ASSERT_LE(result.least_cost, *truth);
    if (result.status != PlacementStatus::unknown) {
      ASSERT_GE(result.cost, *truth);
    }
  }
}

/// Whenever the clock runs out, also within a pass of the propagator.
TEST(PlaceBanks, StoppedAtAnyMomentItsAnswerHolds) {
  constexpr int kCases = 2'000;
  Random random(61);
  for (int i = 0; i < fewer(kCases); ++i) {
    const BankProblem problem = test::random_bank_problem(random);
    const std::optional<std::int64_t> truth = test::least_bank_cost(problem);
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(problem));
    std::uint64_t looks = random.below(200);
    const PlaceResult result = place_banks(problem, {}, [&] { return looks == 0 || --looks == 0; });
    if (result.status == PlacementStatus::infeasible) {
      ASSERT_FALSE(truth);
      continue;
    }
    ASSERT_LE(result.least_cost, truth.value_or(result.least_cost));
    if (result.status == PlacementStatus::unknown) continue;
    ASSERT_EQ(bank_fault(problem, BankPlacement{result.banks, result.offsets}), "");
    ASSERT_TRUE(truth);
    ASSERT_GE(result.cost, *truth);
    if (result.status == PlacementStatus::optimal) {
      ASSERT_EQ(result.cost, *truth);
    }
  }
}

TEST(PlaceBanks, ManyBuffersHaveAPlacementOfCheapMoves) {
  // Twice what the fast bank holds: half of the bytes have to move, at one a byte.
  Random random(59);
  BankProblem problem{
      .banks = {{.name = "fast", .capacity = Bytes(2048)}, {.name = "slow", .capacity = Bytes(1 << 20)}},
      .buffers = test::cut_buffers(random, 200, 0, 400, 4096)};
  for (const Buffer& buffer : problem.buffers) {
    problem.choices.push_back({{.bank = 0}, {.bank = 1, .cost = buffer.size.count()}});
  }
  const PlaceResult result = checked_banks(problem, {.work_limit = 200'000});
  ASSERT_EQ(result.status, PlacementStatus::feasible);
  EXPECT_GE(result.least_cost, 2048);
  const PlaceResult first = checked_banks(problem, {.work_limit = 1});
  EXPECT_LE(result.cost, first.status == PlacementStatus::unknown ? INT64_MAX : first.cost);
}

TEST(PlaceBanks, OfNothingIsNothing) {
  const BankProblem problem{.banks = {{.name = "sram", .capacity = Bytes(1)}}};
  EXPECT_EQ(checked_banks(problem, {}).status, PlacementStatus::optimal);
}

TEST(PlaceBanks, WhatIsWrongIsNamed) {
  const BankProblem right{.banks = {{.name = "sram", .capacity = Bytes(8)}},
                          .buffers = {{.id = "a", .lifespan = {0, 1}, .size = Bytes(4)}},
                          .choices = {{{.bank = 0}}}};
  EXPECT_NO_THROW(check_bank_problem(right));
  const auto refuses = [&](auto&& change) {
    BankProblem problem = right;
    change(problem);
    EXPECT_THROW(check_bank_problem(problem), InputError);
  };
  refuses([](BankProblem& problem) { problem.banks.clear(); });
  refuses([](BankProblem& problem) { problem.banks.push_back(problem.banks.front()); });
  refuses([](BankProblem& problem) { problem.banks.front().capacity = Bytes(-1); });
  refuses([](BankProblem& problem) { problem.choices.front().clear(); });
  refuses([](BankProblem& problem) { problem.choices.front().front().bank = 1; });
  refuses([](BankProblem& problem) { problem.choices.front().front().cost = -1; });
  refuses([](BankProblem& problem) { problem.choices.front().push_back({.bank = 0}); });
  EXPECT_EQ(bank_fault(right, {.banks = {0}, .offsets = {Bytes(4)}}), "");
  EXPECT_NE(bank_fault(right, {.banks = {0}, .offsets = {Bytes(5)}}), "");
  EXPECT_NE(bank_fault(right, {.banks = {1}, .offsets = {Bytes(0)}}), "");
  EXPECT_NE(bank_fault(right, {.banks = {}, .offsets = {}}), "");
}

}  // namespace
}  // namespace remora
