// SPDX-License-Identifier: Apache-2.0
//
// Where the number of computes is left to the engine, "optimal" is meant for any number: against all plans of small graphs.
#include "engine/ask/any_number.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

constexpr int kAsOftenAsTheyLike = 64;

/// The least extra duration of a plan in which ops run no oftener than the instance allows, by trying every plan.
std::optional<Duration> least_of_all_plans(const Instance& instance) {
  RecomputePlan all;
  for (Stage k{1}; k < stages_of(instance); ++k) {
    for (const OpId op : instance.ops()) {
      if (Stage{op} < k && instance.max_computes(op) > 1) all.push_back({k, op});
    }
  }
  std::optional<Duration> least;
  for (std::uint32_t chosen = 0; chosen < 1U << all.size(); ++chosen) {
    RecomputePlan plan;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1U) != 0) plan.push_back(all[i]);
    }
    const Duration extra = extra_duration(instance, plan);
    if ((least && extra >= *least) || within_limits(instance, plan) != plan) continue;
    if (evaluate(instance, sequence_of(instance, plan)).peak <= instance.budget()) least = extra;
  }
  return least;
}

struct Tally {
  int cases = 0;
  int proved = 0;
  int with_more = 0;
  int for_some_number = 0;
};

void check(const Instance& instance, const Schedule& schedule, Tally& tally) {
  const auto truth = least_of_all_plans(with_computes(instance, kAsOftenAsTheyLike));
  const auto of_two = least_of_all_plans(instance);
  if (!truth) {
    ASSERT_FALSE(schedule.has_schedule());
    return;
  }
  ASSERT_NE(schedule.status, Status::infeasible);
  if (!schedule.has_schedule()) return;
  ASSERT_TRUE(verify(instance.graph(), schedule).valid());
  const Duration extra = schedule.duration - schedule.baseline_duration;
  const int proved = schedule.solver.optimal_for_max_computes;
  ++tally.cases;
  tally.with_more += !of_two || *of_two > *truth ? 1 : 0;
  ASSERT_GE(extra, *truth);
  ASSERT_TRUE(schedule.solver.bound_for_any_number);
  ASSERT_LE(schedule.lower_bound - schedule.baseline_duration, *truth);
  ASSERT_EQ(schedule.status == Status::optimal, proved == kAnyNumber);
  ASSERT_EQ(schedule.status == Status::optimal, schedule.lower_bound == schedule.duration);
  if (schedule.status == Status::optimal) {
    ++tally.proved;
    ASSERT_EQ(extra, *truth);
  } else if (proved > 0) {
    ++tally.for_some_number;
    ASSERT_EQ(extra, *least_of_all_plans(with_computes(instance, proved)));
  }
}

TEST(AnyNumber, OptimalMeansThatNoNumberOfComputesIsShorter) {
  std::mt19937 random(53);
  Tally tally;
  for (int round = 0; round < test::fewer(2400) && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = test::random_graph(random, {.least_ops = 3, .most_ops = 5, .in_place = round % 3 == 0});
    const Instance unlimited(graph, {});
    const Bytes least = least_budget(unlimited);
    const Bytes peak = baseline_peak(unlimited);
    if (least >= peak) continue;
    const Instance instance =
        unlimited.with_budget(least + Bytes(static_cast<std::int64_t>(random()) % (peak - least).count()));
    // Little work now and then: what is not proved is not said.
    SolveOptions options = test::work_limited(round % 4 == 0 ? 20 : 2000);
    options.period_bound = round % 5 != 0;
    if (round % 7 == 0) options.workers = Workers::local;
    check(instance, solve_with_more_computes(instance, options), tally);
  }
  EXPECT_GT(tally.cases, test::fewer(600));
  EXPECT_GT(tally.proved, tally.cases * 7 / 10);
  EXPECT_GT(tally.with_more, test::fewer(8));
}

/// Ops whose outputs are as large as half the budget, 9: of each group a dear one, which is read last, and a cheap one,
/// which is read after each of the `wide` ones, where there is too little memory for both. With two computes an op the
/// dear one is computed again, with more the cheap one, each time.
Instance cheap_and_dear(int groups, int wide, const std::function<Duration(int group, bool is_dear)>& duration_of) {
  constexpr Bytes kLarge(4);
  auto graph = std::make_shared<Graph>();
  const auto run = [&](const std::string& name, Duration duration, Bytes size, std::vector<TensorId> inputs,
                       bool may_recompute = false) {
    const TensorId output = graph->add_tensor(name, size);
    graph->add_op({.name = name,
                   .duration = duration,
                   .inputs = std::move(inputs),
                   .outputs = {output},
                   .recompute = may_recompute});
    return output;
  };
  for (int group = 0; group < groups; ++group) {
    const std::string of_group = " of " + std::to_string(group);
    const TensorId dear = run("dear" + of_group, duration_of(group, true), kLarge, {}, true);
    const TensorId cheap = run("cheap" + of_group, duration_of(group, false), kLarge, {}, true);
    for (int i = 0; i < wide; ++i) {
      const std::string which = " " + std::to_string(i) + of_group;
      const TensorId output = run("wide" + which, Duration(2), kLarge, {});
      run("end" + which, Duration(1), Bytes(1), {output});
      run("read" + which, Duration(1), Bytes(1), {cheap});
    }
    run("last read" + of_group, Duration(1), Bytes(1), {dear});
  }
  return {graph, {.budget = Bytes(9)}};
}

Instance cheap_and_dear() {
  return cheap_and_dear(1, 2, [](int, bool is_dear) { return Duration(is_dear ? 5 : 1); });
}

/// Where the limits end while more computes are tried, what was proved of fewer is no bound.
TEST(AnyNumber, AProofForFewerComputesIsNoBoundWhereMoreWereTried) {
  std::mt19937 random(7);
  int proved_for_fewer = 0;
  for (int round = 0; round < 8; ++round) {
    const Instance instance = cheap_and_dear(2, 2 + round % 2, [&](int, bool is_dear) {
      return Duration(is_dear ? 4 + static_cast<int>(random() % 6) : 1 + static_cast<int>(random() % 2));
    });
    const Schedule best = solve_with_more_computes(instance, test::work_limited(2'000));
    ASSERT_TRUE(verify(instance.graph(), best).valid());
    for (std::int64_t work = 1; work < 100; work += 4) {
      for (const bool proves : {false, true}) {
        SCOPED_TRACE("round " + std::to_string(round) + ", work " + std::to_string(work));
        SolveOptions options = test::work_limited(work);
        options.segments = options.period_bound = proves;
        options.covering = proves ? Covering::on : Covering::off;
        const Schedule schedule = solve_with_more_computes(instance, options);
        ASSERT_NE(schedule.status, Status::infeasible);
        ASSERT_LE(schedule.lower_bound, best.duration);
        ASSERT_TRUE(schedule.status != Status::optimal || schedule.duration == best.duration);
        proved_for_fewer += schedule.solver.optimal_for_max_computes == 2 && schedule.duration > best.duration ? 1 : 0;
      }
    }
  }
  EXPECT_GT(proved_for_fewer, 0);
}

/// By local search alone nothing is ever proved of two computes.
TEST(AnyNumber, MoreComputesAreTriedWhereTwoAreNeitherProvedNorBeaten) {
  const Instance instance = cheap_and_dear();
  ASSERT_EQ(least_of_all_plans(instance), Duration(5));
  ASSERT_EQ(least_of_all_plans(with_computes(instance, 3)), Duration(2));
  for (const bool proves : {false, true}) {
    SolveOptions options = test::work_limited(4'000, {.workers = Workers::local});
    options.segments = options.period_bound = proves;
    options.covering = proves ? Covering::on : Covering::off;
    Tally tally;
    const Schedule schedule = solve_with_more_computes(instance, options);
    check(instance, schedule, tally);
    EXPECT_EQ(schedule.duration - schedule.baseline_duration, Duration(2));
    EXPECT_EQ(schedule.solver.max_computes, 3);
    Request request = test::asked(instance, options);
    request.max_computes.reset();
    const SweepResult swept = sweep(request, {.budgets = {instance.budget()}});
    check(instance, swept.schedules.front(), tally);
    EXPECT_EQ(swept.curve.points.front().duration, schedule.duration);
  }
}

/// What it says of an op with these inputs, outputs and readers.
TEST(AnyNumber, AnOpRunsNoOftenerThanItIsReadAndThanTimeAllows) {
  auto graph = std::make_shared<Graph>();
  const TensorId a = graph->add_tensor("a", Bytes(1));
  const TensorId b = graph->add_tensor("b", Bytes(1));
  const TensorId c = graph->add_tensor("c", Bytes(1));
  const TensorId d = graph->add_tensor("d", Bytes(1));
  graph->add_op({.name = "A", .duration = Duration(2), .outputs = {a}});
  graph->add_op({.name = "B", .duration = Duration(5), .inputs = {a}, .outputs = {b}});
  graph->add_op({.name = "C", .duration = Duration(1), .inputs = {b}, .outputs = {c}});
  graph->add_op({.name = "D", .duration = Duration(1), .inputs = {a, c}, .outputs = {d}});
  const Instance twice(graph, {});
  // D reads c once, so that C may run twice, B three times, and A, which B and D read, five times if there is time for it.
  EXPECT_FALSE(AnyNumber(twice, Duration(100)).is_within(with_computes(twice, 4)));
  EXPECT_TRUE(AnyNumber(twice, Duration(100)).is_within(with_computes(twice, 5)));
  // Recomputes of less than 4 in all: A once more, B never; C, which D alone reads, once more.
  EXPECT_TRUE(AnyNumber(twice, Duration(4)).is_within(twice));
}

/// A training step of a U-Net within this part of what it needs beyond fixed memory.
Instance unet_within(int levels, int percent) {
  const Instance unlimited(std::make_shared<const Graph>(test::generate_unet({.levels = levels})), {});
  const Bytes base = unlimited.base_memory();
  return unlimited.with_budget(base + Bytes((baseline_peak(unlimited) - base).count() / 100 * percent));
}

TEST(AnyNumber, AUNetWhoseOpsCouldRunOftenerIsProvedByThePeriodRelaxation) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  for (const int percent : {55, 60}) {
    const Instance tight = unet_within(5, percent);
    const Schedule schedule = solve_with_more_computes(tight, test::work_limited(50'000));
    ASSERT_TRUE(verify(tight.graph(), schedule).valid());
    EXPECT_EQ(schedule.status, Status::optimal);
    EXPECT_EQ(schedule.solver.optimal_for_max_computes, kAnyNumber);
    // With two computes an op the tighter one has no schedule.
    const Schedule same = solve(with_computes(tight, schedule.solver.max_computes), test::work_limited(50'000));
    EXPECT_EQ(same.duration, schedule.duration);
    EXPECT_EQ(same.solver.optimal_for_max_computes, 0);
    EXPECT_FALSE(AnyNumber(tight, schedule.duration - schedule.baseline_duration)
                     .is_within(with_computes(tight, schedule.solver.max_computes)));
  }
}

/// What a listener hears of one solve.
struct Received {
  std::vector<Duration> bounds;

  [[nodiscard]] SolveCallbacks callbacks() {
    return {.progress = [this](const Progress& now) { bounds.push_back(now.lower_bound); },
            .heartbeat = [this](const Progress& now) { bounds.push_back(now.lower_bound); }};
  }
};

/// The bound never falls, the answer's least of all, and a search ends with a proof or with its work.
void check_course(const Instance& instance, std::int64_t work) {
  Received received;
  const Schedule schedule = solve_with_more_computes(instance, test::work_limited(work), received.callbacks());
  EXPECT_TRUE(std::ranges::is_sorted(received.bounds));
  if (!schedule.has_schedule()) return;
  if (!received.bounds.empty()) {
    EXPECT_EQ(schedule.lower_bound, received.bounds.back());
  }
  EXPECT_TRUE(verify(instance.graph(), schedule).valid());
  EXPECT_EQ(schedule.solver.stop, schedule.status == Status::optimal ? Stop::optimum : Stop::work);
  if (schedule.solver.stop == Stop::work) {
    EXPECT_GE(schedule.solver.work, work);
  }
}

TEST(AnyNumber, TheReportedBoundNeverFallsAndASearchEndsWithAProofOrItsLimit) {
  for (const int levels : {3, 4, 5}) {
    for (const int percent : {55, 60, 70}) {
      for (const std::int64_t work : {200, 2'000, 20'000}) {
        SCOPED_TRACE(std::to_string(levels) + " levels, " + std::to_string(percent) + " %, work " +
                     std::to_string(work));
        check_course(unet_within(levels, percent), work);
      }
    }
  }
  std::mt19937 random(11);
  for (int round = 0; round < test::fewer(200) && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance unlimited(test::random_graph(random, {.least_ops = 6, .most_ops = 14}), {});
    const Bytes least = least_budget(unlimited);
    if (least >= baseline_peak(unlimited)) continue;
    const Bytes budget = least + Bytes((baseline_peak(unlimited) - least).count() / (2 + round % 3));
    check_course(unlimited.with_budget(budget), round % 2 == 0 ? 50 : 1'000);
  }
}

/// Two convolutions a level: with two computes an op it is proved within a second, with any number after some more.
TEST(AnyNumber, AProofForTwoComputesIsNotTheEndWhereTimeIsLeft) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const Graph graph = json::read_graph(json::Text(json::read_file(REMORA_TEST_DATA "/unet_three_levels.json")));
  const Instance unlimited(std::make_shared<const Graph>(graph), {});
  const Bytes fixed = graph.fixed_memory;
  const Instance half = unlimited.with_budget(fixed + Bytes((baseline_peak(unlimited) - fixed).count() / 2));
  for (const std::int64_t seed : {2, 3}) {
    Received received;
    const Schedule schedule = solve_with_more_computes(half, {.time_limit = 600, .seed = seed}, received.callbacks());
    EXPECT_TRUE(verify(graph, schedule).valid());
    EXPECT_EQ(schedule.status, Status::optimal);
    EXPECT_EQ(schedule.solver.optimal_for_max_computes, kAnyNumber);
    EXPECT_EQ(schedule.solver.stop, Stop::optimum);
    EXPECT_TRUE(std::ranges::is_sorted(received.bounds));
  }
}

}  // namespace
}  // namespace remora
