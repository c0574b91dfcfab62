// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/base/deadline.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

void expect_agreement(const CurvePoint& point, const Schedule& schedule) {
  EXPECT_EQ(point.budget, schedule.budget);
  EXPECT_EQ(point.status, schedule.status);
  EXPECT_EQ(point.lower_bound, schedule.lower_bound);
  EXPECT_EQ(point.has_schedule(), schedule.has_schedule());
  if (!point.has_schedule()) return;
  EXPECT_EQ(point.duration, schedule.duration);
  EXPECT_EQ(point.peak_memory, schedule.peak_memory);
  EXPECT_LE(point.lower_bound, point.duration);
}

/// What is promised of every curve; its schedules verified.
void expect_curve(const SweepResult& result, const Graph& graph) {
  const auto& points = result.curve.points;
  ASSERT_EQ(points.size(), result.schedules.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    expect_agreement(points[i], result.schedules[i]);
    if (points[i].has_schedule()) {
      const Verdict verdict = verify(graph, result.schedules[i]);
      EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
    }
    if (points[i].status == Status::infeasible) {
      EXPECT_LT(points[i].budget, result.curve.least_budget);
    }
    if (i == 0) continue;
    EXPECT_LT(points[i - 1].budget, points[i].budget);
    EXPECT_GE(points[i - 1].lower_bound, points[i].lower_bound);
    if (!points[i - 1].has_schedule()) continue;
    EXPECT_TRUE(points[i].has_schedule());
    EXPECT_GE(points[i - 1].duration, points[i].duration);
  }
}

SweepResult swept(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                  const SweepCallbacks& callbacks = {}) {
  SweepResult result = sweep(test::asked(instance, options), sweep_options, callbacks);
  expect_curve(result, instance.graph());
  return result;
}

std::vector<Bytes> all_budgets(const Instance& instance) {
  std::vector<Bytes> budgets;
  const std::int64_t peak = baseline_peak(instance).count();
  for (std::int64_t budget = std::max<std::int64_t>(0, peak - 12); budget <= peak; ++budget)
    budgets.emplace_back(budget);
  return budgets;
}

TEST(Sweep, ProvesTheBruteForceOptimumOfEveryBudget) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 40; ++round) {
    const Instance instance(test::random_graph(random), {.max_computes = 1 + static_cast<int>(random() % 3)});
    const SweepResult result = swept(instance, test::work_limited(5'000'000), {.budgets = all_budgets(instance)});
    for (const CurvePoint& point : result.curve.points) {
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(point.budget.count()));
      const auto truth = test::optimum(instance.with_budget(point.budget));
      ASSERT_EQ(point.status, truth ? Status::optimal : Status::infeasible);
      if (truth) {
        ASSERT_EQ(point.duration, *truth);
      }
    }
  }
}

TEST(Sweep, ARefutedBudgetHasTheBoundOfTheNextLargerOne) {
  std::mt19937 random(20261129);
  int refuted = 0;
  for (int round = 0; round < 40; ++round) {
    const Instance instance(test::random_graph(random), {.max_computes = 2});
    const Curve curve = swept(instance, test::work_limited(5'000'000), {.budgets = all_budgets(instance)}).curve;
    const auto met = std::find_if(curve.points.begin(), curve.points.end(),
                                  [](const CurvePoint& point) { return point.status != Status::infeasible; });
    ASSERT_NE(met, curve.points.end());
    std::for_each(curve.points.begin(), met, [&](const CurvePoint& point) {
      EXPECT_EQ(point.lower_bound, met->lower_bound) << "round " << round;
    });
    refuted += static_cast<int>(met - curve.points.begin());
  }
  EXPECT_GT(refuted, 0);
}

TEST(Sweep, IsMonotoneAndSoundWhereItEndsEarly) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 150; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 5, .most_ops = 7}), {});
    SolveOptions options = test::work_limited(1 + static_cast<std::int64_t>(random() % 400));
    options.seed = round;
    options.covering = random() % 2 == 0 ? Covering::on : Covering::lp;
    options.covering_start = random() % 2 == 0;
    const SweepResult result = swept(instance, options, {.budgets = all_budgets(instance)});
    for (const CurvePoint& point : result.curve.points) {
      const auto truth = test::optimum(instance.with_budget(point.budget));
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(point.budget.count()));
      ASSERT_TRUE(truth || !point.has_schedule());
      ASSERT_TRUE(!truth || point.status != Status::infeasible);
      if (truth) {
        ASSERT_LE(point.lower_bound, *truth);
      }
    }
  }
}

std::shared_ptr<const Graph> layered_graph(int ops, std::int64_t seed) {
  generate::LayeredOptions options;
  options.ops = ops;
  options.seed = seed;
  return std::make_shared<const Graph>(generate::generate_layered(options));
}

void expect_same(const SweepResult& once, const SweepResult& again) {
  ASSERT_EQ(once.schedules.size(), again.schedules.size());
  for (std::size_t i = 0; i < once.schedules.size(); ++i) {
    CurvePoint point = again.curve.points[i];
    point.seconds = once.curve.points[i].seconds;
    EXPECT_TRUE(once.curve.points[i] == point) << "point " << i;
    EXPECT_TRUE(once.schedules[i].steps == again.schedules[i].steps) << "point " << i;
    EXPECT_EQ(once.schedules[i].solver.work, again.schedules[i].solver.work) << "point " << i;
  }
}

bool has_open_point(const SweepResult& result) {
  return std::any_of(result.curve.points.begin(), result.curve.points.end(), [](const CurvePoint& point) {
    return point.status == Status::feasible || point.status == Status::unknown;
  });
}

Instance small_transformer() {
  return {std::make_shared<const Graph>(test::generate_transformer({.layers = 2})), {}};
}

SolveOptions in_groups(std::int64_t work) {
  SolveOptions options = test::work_limited(work);
  options.groups = GroupStart::on;
  options.group_size = 12;
  options.top_size = 8;
  options.grid_levels = 4;
  return options;
}

TEST(Sweep, IsTheSameForAnyNumberOfThreads) {
  const std::vector<std::pair<Instance, SolveOptions>> cases{
      {Instance(layered_graph(60, 3), {}), test::work_limited(10'000)}, {small_transformer(), in_groups(10'000)}};
  for (auto [instance, options] : cases) {
    options.threads = 1;
    const SweepResult once = swept(instance, options, {.points = 6});
    EXPECT_TRUE(has_open_point(once)) << "the limit must bind";
    for (const int threads : {2, 4}) {
      options.threads = threads;
      expect_same(once, swept(instance, options, {.points = 6}));
    }
  }
}

TEST(Sweep, KeepsToItsWorkLimit) {
  // What a round, a composition or the last session takes beyond is small beside the limit.
  constexpr std::int64_t kLimit = 30'000;
  for (const auto& [instance, options] :
       std::vector<std::pair<Instance, SolveOptions>>{{Instance(layered_graph(100, 4), {}), test::work_limited(kLimit)},
                                                      {small_transformer(), in_groups(kLimit)}}) {
    const SweepResult result = swept(instance, options, {.points = 10});
    std::int64_t work = 0;
    int visited = 0;
    for (const Schedule& schedule : result.schedules) {
      work += schedule.solver.work;
      visited += schedule.solver.work > 0 ? 1 : 0;
    }
    EXPECT_TRUE(has_open_point(result));
    EXPECT_LE(work, kLimit * 5 / 4);
    EXPECT_GE(visited, 7) << "every budget that needs work has its share";
  }
}

TEST(Sweep, DoesNotSearchForWhatALargerBudgetRefuted) {
  // Found by trying: the smallest budget that takes a search to refute.
  std::mt19937 random(20261123);
  int proved_infeasible = 0;
  for (int round = 0; round < 400 && proved_infeasible < 3; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 5, .most_ops = 7}), {});
    std::vector<Bytes> budgets = all_budgets(instance);
    const SweepResult all = swept(instance, test::work_limited(1'000'000), {.budgets = budgets});
    for (std::size_t i = 0; i + 1 < all.schedules.size(); ++i) {
      const bool by_search = all.schedules[i + 1].status == Status::infeasible && all.schedules[i + 1].solver.work > 0;
      if (!by_search) continue;
      ++proved_infeasible;
      EXPECT_EQ(all.schedules[i].status, Status::infeasible);
      EXPECT_EQ(all.schedules[i].solver.work, 0);
      EXPECT_EQ(all.curve.points[i].seconds, 0);
    }
  }
  EXPECT_GE(proved_infeasible, 1);
}

TEST(Sweep, TakesGraphsWithoutOpsOrAmounts) {
  const auto empty = std::make_shared<const Graph>(Graph{.name = "empty", .fixed_memory = Bytes(7)});
  const SweepResult nothing = swept(Instance(empty, {}), test::work_limited(100), {.budgets = {Bytes(3), Bytes(7)}});
  EXPECT_EQ(nothing.curve.points[0].status, Status::infeasible);
  EXPECT_EQ(nothing.curve.points[1].status, Status::optimal);
  const Instance weightless(test::training_chain(3, 0, 0), {});
  const SweepResult still = swept(weightless, test::work_limited(100), {.points = 5});
  for (const CurvePoint& point : still.curve.points) EXPECT_EQ(point.status, Status::optimal);
}

TEST(Sweep, FindsTheBudgetsOfAFreeOrder) {
  SolveOptions options;
  options.strategy = Strategy::greedy;
  const Instance instance(test::training_chain(12), {.order = OrderMode::free});
  const SweepResult result = swept(instance, options, {.points = 8});
  EXPECT_EQ(result.curve.order, OrderMode::free);
  EXPECT_TRUE(result.curve.points.back().has_schedule());
}

TEST(Sweep, RefusesToSearchInFreeOrder) {
  const Instance instance(test::training_chain(4), {.order = OrderMode::free});
  try {
    sweep(test::asked(instance, test::work_limited(100)), {.points = 4});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.place(), "order");
  }
}

TEST(Sweep, BisectionReachesFromTheInputOrdersPeakToTheLeastBudget) {
  const Instance instance(test::training_chain(12), {});
  const SweepResult result = swept(instance, test::work_limited(60'000), {.points = 12, .resolution = 0});
  const auto& curve = result.curve;
  ASSERT_LE(curve.points.size(), 12U);
  EXPECT_EQ(curve.points.front().budget, proved_least_budget(instance, Deadline(kNoTimeLimit, nullptr)));
  EXPECT_EQ(curve.points.back().budget, baseline_peak(instance));
  EXPECT_EQ(curve.points.back().duration, curve.baseline_duration);
  ASSERT_TRUE(curve.smallest_feasible().has_value());
  EXPECT_GE(curve.points[*curve.smallest_feasible()].budget, curve.least_budget);
}

TEST(Sweep, BisectionStopsWhereNeighboursAgree) {
  const Instance instance(test::figure_1(), {});
  const SweepResult result = swept(instance, test::work_limited(100'000), {.points = 50, .resolution = 0});
  // Of unit sizes: four bytes without recompute, three with one; there is nothing between.
  ASSERT_EQ(result.curve.points.size(), 2U);
  EXPECT_EQ(result.curve.points[0].budget, Bytes(3));
  EXPECT_EQ(result.curve.points[0].duration, Duration(6));
  EXPECT_EQ(result.curve.points[1].budget, Bytes(4));
}

TEST(Sweep, EndsAtOnceWhenCancelledWithAPointForEveryBudget) {
  const Instance instance(layered_graph(100, 5), {});
  const std::atomic<bool> cancel{true};
  const std::int64_t peak = baseline_peak(instance).count();
  const SweepResult result = swept(
      instance, SolveOptions{}, {.budgets = {Bytes(peak), Bytes(peak * 9 / 10), Bytes(peak / 2)}}, {.cancel = &cancel});
  ASSERT_EQ(result.curve.points.size(), 3U);
  EXPECT_FALSE(result.curve.points[0].has_schedule());
  EXPECT_EQ(result.curve.points[2].status, Status::optimal);
  // Bisection does not invent budgets that nobody looks at.
  EXPECT_EQ(swept(instance, SolveOptions{}, {.points = 20}, {.cancel = &cancel}).curve.points.size(), 1U);
}

TEST(Sweep, TellsAfterEverySitting) {
  const Instance instance(test::training_chain(8), {});
  int calls = 0;
  SweepProgress last;
  SweepCallbacks callbacks;
  callbacks.progress = [&](const SweepProgress& progress) {
    ++calls;
    last = progress;
  };
  const SweepResult result = swept(instance, test::work_limited(1'000'000), {.points = 5}, callbacks);
  EXPECT_GE(calls, static_cast<int>(result.curve.points.size()));
  EXPECT_EQ(last.points, static_cast<int>(result.curve.points.size()));
  EXPECT_LE(last.settled, last.points);
}

class CountingStore : public BlockMemory {
 public:
  std::optional<std::string> find(const std::string& key) override {
    ++asked_;
    return BlockMemory::find(key);
  }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  int asked_ = 0;
};

TEST(Sweep, SharesTheOptionsOfGroups) {
  const Instance instance = small_transformer();
  const std::int64_t peak = baseline_peak(instance).count();
  CountingStore store;
  SolveOptions options = in_groups(40'000);
  // It proves every budget before groups are asked for.
  options.period_bound = false;
  const SweepResult result =
      swept(instance, options, {.budgets = {Bytes(peak * 9 / 10), Bytes(peak * 7 / 10), Bytes(peak * 8 / 10)}},
            {.blocks = &store});
  double distinct = 0;
  for (const Schedule& schedule : result.schedules) {
    EXPECT_TRUE(schedule.has_schedule());
    for (const Statistic& statistic : schedule.solver.statistics) {
      if (statistic.name == "distinct_groups") distinct = statistic.value;
    }
  }
  EXPECT_GE(distinct, 1);
  EXPECT_EQ(store.asked(), distinct) << "each group once, whatever the number of budgets";
}

TEST(Sweep, TakesMethodsThatDoNotSearch) {
  const Instance instance(test::training_chain(10), {});
  for (const Strategy strategy : {Strategy::greedy, Strategy::none}) {
    SolveOptions options;
    options.strategy = strategy;
    const SweepResult result = swept(instance, options, {.points = 6});
    EXPECT_TRUE(result.curve.points.back().has_schedule()) << strategy_name(strategy);
    EXPECT_EQ(result.curve.points.back().duration, result.curve.baseline_duration);
  }
}

TEST(Sweep, RefusesWhatMakesNoSense) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(sweep(test::asked(instance, SolveOptions{}), {.budgets = {Bytes(3), Bytes(4), Bytes(3)}}), InputError);
  EXPECT_THROW(sweep(test::asked(instance, SolveOptions{}), {.points = 1}), InputError);
  EXPECT_THROW(sweep(test::asked(instance, SolveOptions{}), {.resolution = -1}), InputError);
  SolveOptions options;
  options.threads = -1;
  EXPECT_THROW(sweep(test::asked(instance, options), {}), InputError);
}

}  // namespace
}  // namespace remora
