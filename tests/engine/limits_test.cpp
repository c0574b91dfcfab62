// SPDX-License-Identifier: Apache-2.0
//
// Amounts at the edge of 64 bits, and many solves at once.
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/solve.hpp"
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
      for (const Strategy strategy : {Strategy::automatic, Strategy::cp, Strategy::checkmate}) {
        if (strategy == Strategy::checkmate && order == OrderMode::free) continue;
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

}  // namespace
}  // namespace remora
