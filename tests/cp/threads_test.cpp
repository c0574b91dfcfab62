// SPDX-License-Identifier: Apache-2.0
//
// Searches in several threads at once, each with a root of its own, over one instance. ThreadSanitizer (preset tsan)
// must have nothing to say; without it the test shows that they don't disturb each other.
#include <array>

#include <gtest/gtest.h>

#include "engine/base/tasks.hpp"
#include "model/evaluate.hpp"
#include "tests/cp/oracle_check.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

constexpr int kTasks = 4;

std::array<cp::SearchOutcome, kTasks> solve_in_parallel(const Instance& instance) {
  std::array<cp::SearchOutcome, kTasks> outcomes;
  run_tasks(kTasks, outcomes.size(), [&](std::size_t task) {
    cp::SearchSettings settings;
    settings.noise = 0.3;
    settings.seed = task;
    outcomes[task] = test::solve_whole(instance, {}, settings);
  });
  return outcomes;
}

TEST(Threads, FourTasksSolveOneInstanceAlikeWithoutDisturbingEachOther) {
  for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
    const auto graph = test::training_chain(order == OrderMode::input ? 8 : 4);
    const Instance unlimited(graph, {.order = order});
    const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 4 / 5));
    const Duration alone = test::solve_whole(instance).extra;
    for (const cp::SearchOutcome& outcome : solve_in_parallel(instance)) {
      ASSERT_TRUE(outcome.complete);
      ASSERT_TRUE(outcome.sequence.has_value());
      EXPECT_EQ(outcome.extra, alone);
      EXPECT_EQ(test::faults(instance, outcome), "");
    }
  }
}

}  // namespace
}  // namespace remora
