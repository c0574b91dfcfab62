// SPDX-License-Identifier: Apache-2.0
//
// Amounts at the edge of 64 bits, and many solves at once.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

using test::optimum;
using test::random_graph;
using test::scaled;
using test::training_chain;
using test::work_limited;

TEST(Limits, EightSolvesInOneProcessGiveWhatTheyGiveAlone) {
  constexpr int kSolves = 8;
  const auto run = [](int i) {
    SolveOptions options = work_limited(1000);
    options.seed = i;
    // More threads than this machine may have.
    options.threads = i % 3 == 0 ? 16 : 1 + i % 3;
    const Instance whole(training_chain(20 + 2 * (i / 2)), {});
    return solve(whole.with_budget(Bytes(baseline_peak(whole).count() / 2)), options);
  };
  std::vector<Schedule> alone(kSolves);
  for (int i = 0; i < kSolves; ++i) alone[at(i)] = run(i);
  std::vector<Schedule> together(kSolves);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSolves; ++i) threads.emplace_back([&, i] { together[at(i)] = run(i); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kSolves; ++i) {
    EXPECT_EQ(together[at(i)].steps, alone[at(i)].steps) << i;
    EXPECT_EQ(together[at(i)].lower_bound, alone[at(i)].lower_bound) << i;
  }
}

TEST(Limits, AmountsAtTheFormatsLimitsAreAsGoodAsSmallOnes) {
  // Sizes add up to nearly 2^63, and so do 64 computes of each op.
  constexpr int kSizeShift = 54;
  constexpr int kDurationShift = 51;
  std::mt19937 random(25);
  for (int round = 0; round < 60; ++round) {
    const auto graph = scaled(*random_graph(random), kSizeShift, kDurationShift);
    for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
      const Instance whole(graph, {.max_computes = 2, .order = order});
      const Instance instance = whole.with_budget(Bytes(baseline_peak(whole).count() / 8 * (4 + round % 5)));
      const auto best = optimum(instance);
      for (const Strategy strategy : {Strategy::automatic, Strategy::cp}) {
        SCOPED_TRACE(std::to_string(round) + " " + strategy_name(strategy));
        SolveOptions options = work_limited(2000);
        options.strategy = strategy;
        const Schedule schedule = solve(instance, options);
        if (schedule.has_schedule()) {
          EXPECT_TRUE(verify(*graph, schedule).valid());
        }
        if (schedule.status == Status::optimal) {
          EXPECT_EQ(schedule.duration, best);
        }
        if (schedule.has_schedule()) {
          EXPECT_GE(schedule.duration, best);
        }
        if (schedule.status == Status::infeasible) {
          EXPECT_FALSE(best.has_value());
        }
        if (best) {
          EXPECT_LE(schedule.lower_bound, *best);
        }
      }
    }
  }
}

TEST(Allowance, SharesOutWhatIsLeftOfTimeAndWork) {
  Allowance allowance({.seconds = 1000, .work = Work(100)}, nullptr);
  allowance.spend(Work(20));
  EXPECT_EQ(allowance.left().work, Work(80));
  EXPECT_EQ(allowance.share(0.5).work, Work(40));
  EXPECT_NEAR(allowance.share(0.5).seconds, 500, 1);
  EXPECT_EQ(allowance.share(0.5, allowance.left().part(0.75)).work, Work(10));
  EXPECT_EQ(allowance.share(0.001).work, Work(1));
  EXPECT_EQ(allowance.again(0.25).work, Work(5));
  EXPECT_EQ(allowance.again(0.25, {0, Work(7)}).work, Work(7));
  // Under a work limit nothing else depends on time.
  EXPECT_NEAR(allowance.again(0.25).seconds, 1000, 1);
  EXPECT_NEAR(allowance.uncounted_seconds(0.25), 1000, 1);
  allowance.spend(Work(100));
  EXPECT_EQ(allowance.left().work, Work(0));
  EXPECT_TRUE(allowance.is_over());
}

TEST(Allowance, WithoutAWorkLimitIsOverWithTheTimeOrAtAWish) {
  std::atomic<bool> cancel = false;
  Allowance allowance({.seconds = 1000}, &cancel);
  allowance.spend(Work(1'000'000'000));
  EXPECT_EQ(allowance.left().work, Work::max());
  EXPECT_NEAR(allowance.uncounted_seconds(0.25), 250, 1);
  EXPECT_NEAR(allowance.again(0.25, {.seconds = 7}).seconds, 7, 1);
  EXPECT_FALSE(allowance.is_over());
  cancel = true;
  EXPECT_TRUE(allowance.is_over());
  EXPECT_TRUE(Allowance({.seconds = 0}, nullptr).is_over());
}

TEST(Allowance, OptionsWithinAShareHaveAWorkLimitWhereThereWasOne) {
  const SolveOptions counted = work_limited(100);
  EXPECT_EQ(within(counted, limits_of(counted).part(0.001)).work_limit, 1);
  EXPECT_EQ(within(counted, limits_of(counted).part(0.5)).work_limit, 50);
  EXPECT_EQ(within(SolveOptions{}, limits_of(SolveOptions{}).part(0.5)).work_limit, 0);
  EXPECT_EQ(within(SolveOptions{}, limits_of(SolveOptions{}).part(0.5)).time_limit, 30);
}

}  // namespace
}  // namespace remora
