// SPDX-License-Identifier: Apache-2.0
#include "engine/search/segments.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

/// What it says of its plan is what the evaluator says, and the plan keeps to the problem.
void check(const Instance& instance, const Solution& found) {
  const Sequence sequence = found.sequence(instance);
  ASSERT_TRUE(is_staged(instance, sequence));
  const Evaluation evaluation = evaluate(instance, sequence);
  ASSERT_EQ(evaluation.peak, found.peak);
  ASSERT_EQ(evaluation.duration, instance.baseline_duration() + found.extra);
  ASSERT_EQ(within_limits(instance, found.plan()), found.plan());
  const Schedule schedule = schedule_of(instance, sequence);
  const Verdict verdict = verify(instance.graph(), schedule);
  ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
}

TEST(Segments, OfAChainNeedTwiceTheSquareRootOfItsLayers) {
  for (const int layers : {16, 64, 100}) {
    const Instance unlimited(test::training_chain(layers, 1), {});
    const auto root = static_cast<std::int64_t>(std::sqrt(layers));
    const Instance instance = unlimited.with_budget(least_budget(unlimited) + Bytes(2 * root + 1));
    const Solution found = start_from_segments(instance, {});
    check(instance, found);
    EXPECT_LE(found.peak, instance.budget()) << layers << " layers";
    EXPECT_LT(found.extra, instance.baseline_duration());
  }
}

TEST(Segments, OfRandomGraphsAreSchedulesOfTheProblem) {
  std::mt19937 random(71);
  int cheaper = 0;
  for (int round = 0; round < test::fewer(2000) && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance unlimited(test::random_graph(random, {.most_ops = 14, .in_place = random() % 2 == 0}),
                             {.max_computes = 2 + round % 5});
    const Bytes least = least_budget(unlimited);
    const Bytes peak = baseline_peak(unlimited);
    if (least >= peak) continue;
    const Instance instance = unlimited.with_budget(Bytes((least.count() + peak.count()) / 2));
    const Solution found = start_from_segments(instance, {});
    check(instance, found);
    // The input order is one of its plans.
    EXPECT_LE(found.peak, peak);
    cheaper += found.peak < peak ? 1 : 0;
  }
  EXPECT_GT(cheaper, test::fewer(100));
}

TEST(Segments, AreFewWhereNoneOfThemHelps) {
  const auto questions = [](const Instance& unlimited, int percent) {
    int asked = 0;
    const Bytes budget(baseline_peak(unlimited).count() * percent / 100);
    check(unlimited, start_from_segments(unlimited.with_budget(budget), [&] { return ++asked < 0; }));
    return asked;
  };
  const auto layered = std::make_shared<const Graph>(generate::generate_layered({.ops = 500, .seed = 2}));
  EXPECT_LT(questions({layered, {.max_computes = 3}}, 50), 20);
  EXPECT_GT(questions({test::training_chain(250, 1), {.max_computes = 3}}, 10), 200);
}

TEST(Segments, NeedLessTheMoreOftenTheyAreCut) {
  const auto chain = test::training_chain(160, 1);
  std::vector<Bytes> peaks;
  for (const int most : {2, 3, 4, 5}) {
    const Instance unlimited(chain, {.max_computes = most});
    const Instance instance = unlimited.with_budget(least_budget(unlimited));
    const Solution found = start_from_segments(instance, {});
    check(instance, found);
    peaks.push_back(found.peak);
  }
  EXPECT_TRUE(std::ranges::is_sorted(peaks, std::greater<>()));
  EXPECT_EQ(std::ranges::adjacent_find(peaks), peaks.end());
}

TEST(Segments, AreWhatTheLeastBudgetBeginsWith) {
  const Instance instance(test::training_chain(64, 1), {});
  const Instance tight = instance.with_budget(least_budget(instance));
  SolveOptions options;
  options.time_limit = 2;
  const BudgetBracket bracket = least_budget(test::asked(instance, options));
  EXPECT_LE(bracket.reached, start_from_segments(tight, {}).peak);
  EXPECT_EQ(evaluate(instance, bracket.sequence).peak, bracket.reached);
}

/// With so little work nothing is proved, so that what was tried last stays a byte below what was reached.
TEST(LeastBudget, EndsWhereAByteIsLeftThatNoSearchDecides) {
  std::mt19937 random(72);
  int undecided = 0;
  for (int round = 0; round < 60; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 5, .most_ops = 9}), {});
    SolveOptions options;
    options.work_limit = 1;
    options.time_limit = kNoTimeLimit;
    options.threads = 1;
    options.period_bound = false;
    const BudgetBracket bracket = least_budget(test::asked(instance, options));
    ASSERT_LE(bracket.proved, bracket.reached);
    EXPECT_EQ(evaluate(instance, bracket.sequence).peak, bracket.reached);
    undecided += bracket.proved < bracket.reached ? 1 : 0;
  }
  EXPECT_GT(undecided, 0);
}

TEST(Segments, EndWhenAsked) {
  const Instance unlimited(test::training_chain(40), {});
  const Instance instance = unlimited.with_budget(least_budget(unlimited));
  const Solution found = start_from_segments(instance, [] { return true; });
  EXPECT_EQ(found.peak, baseline_peak(instance));
}

TEST(MoreComputes, AreTakenWhereTheyHoldTheBudgetOrAreShorter) {
  std::mt19937 random(43);
  const SolveOptions options = test::work_limited(200'000);
  int dear = 0;
  for (int round = 0; round < 200; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 4, .most_ops = 6});
    const Instance unlimited(graph, {});
    const Bytes budget = baseline_peak(unlimited) - Bytes(static_cast<std::int64_t>(random() % 8));
    if (budget < Bytes(0)) continue;
    SCOPED_TRACE("round " + std::to_string(round));
    const Schedule schedule = solve_with_more_computes(unlimited.with_budget(budget), options);
    // More are too many for the oracle.
    const int chosen = std::min(3, schedule.solver.max_computes);
    const auto truth = test::optimum(Instance(graph, {.budget = budget, .max_computes = chosen}));
    if (chosen < schedule.solver.max_computes) {
      ASSERT_LE(schedule.has_schedule() ? schedule.duration : Duration::max(), truth.value_or(Duration::max()));
      continue;
    }
    ASSERT_EQ(schedule.status, truth ? Status::optimal : Status::infeasible);
    if (!truth) continue;
    const Verdict verdict = verify(*graph, schedule);
    ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
    ASSERT_EQ(schedule.duration, *truth);
    dear += *truth > unlimited.baseline_duration() ? 1 : 0;
    if (chosen == 2) continue;
    EXPECT_FALSE(schedule.solver.note.empty());
    const auto with_fewer = test::optimum(Instance(graph, {.budget = budget, .max_computes = chosen - 1}));
    ASSERT_TRUE(!with_fewer || *with_fewer > *truth);
  }
  EXPECT_GT(dear, 5);
}

/// A training chain, and what checkpoints hold of it with three computes per op and nothing does with two.
struct TightChain {
  std::shared_ptr<const Graph> chain = test::training_chain(64, 1);
  Instance thrice{chain, {.max_computes = 3}};
  Solution segments = start_from_segments(thrice.with_budget(least_budget(thrice)), {});
  Instance instance = Instance(chain, {}).with_budget(segments.peak);
};

/// Nothing is searched, and no bound is asked.
SolveOptions without_search() {
  SolveOptions options = test::work_limited(1, 1);
  options.period_bound = false;
  options.covering_start = false;
  return options;
}

TEST(MoreComputes, BeginWhereAWarmStartHoldsTheBudget) {
  const TightChain tight;
  SolveOptions nothing;
  nothing.time_limit = 0;
  const Schedule schedule =
      solve_with_more_computes(tight.instance, nothing, {}, tight.segments.computes(tight.thrice));
  ASSERT_TRUE(schedule.has_schedule());
  EXPECT_EQ(schedule.solver.max_computes, 3);
  EXPECT_TRUE(verify(*tight.chain, schedule).valid());
}

TEST(MoreComputes, AreToldAsOneSolve) {
  const TightChain tight;
  Duration best = Duration::max();
  double seconds = 0;
  SolveCallbacks callbacks;
  callbacks.incumbent = [&](const Schedule& schedule) {
    EXPECT_LT(schedule.duration, best);
    EXPECT_TRUE(verify(*tight.chain, schedule).valid());
    best = schedule.duration;
  };
  int phases = 0;
  callbacks.progress = [&](const Progress& now) {
    phases += now.event == Event::phase ? 1 : 0;
    EXPECT_GE(now.seconds, seconds);
    seconds = now.seconds;
    EXPECT_TRUE(best == Duration::max() || now.duration == best);
  };
  const Schedule schedule = solve_with_more_computes(tight.instance, test::work_limited(50'000), callbacks);
  EXPECT_EQ(schedule.duration, best);
  EXPECT_EQ(phases, 1);
  ASSERT_FALSE(schedule.solver.history.empty());
  EXPECT_EQ(schedule.solver.history.back().duration, best);
  EXPECT_TRUE(std::ranges::is_sorted(schedule.solver.history, {}, &Incumbent::seconds));
}

TEST(MoreComputes, LowerTheLeastBudgetAndWidenTheCurve) {
  const auto chain = test::training_chain(64, 1);
  const Instance instance(chain, {});
  const SolveOptions options = test::work_limited(2'000, 1);
  const BudgetBracket two = least_budget(test::asked(instance, options));
  const BudgetBracket bracket = least_budget({.graph = chain, .options = options});
  EXPECT_LT(bracket.reached, two.reached);
  EXPECT_LE(bracket.proved, bracket.reached);
  EXPECT_GT(bracket.max_computes, 2);
  EXPECT_TRUE(is_permitted(Instance(chain, {.max_computes = bracket.max_computes}), ops_of(bracket.sequence)));
  EXPECT_EQ(evaluate(instance, bracket.sequence).peak, bracket.reached);

  const Bytes tight = bracket.reached;
  const SweepResult result = sweep({.graph = chain, .options = test::work_limited(100'000)},
                                   {.budgets = {tight, baseline_peak(instance) - Bytes(1)}});
  ASSERT_EQ(result.curve.points.size(), 2U);
  const CurvePoint& point = result.curve.points.front();
  ASSERT_TRUE(point.has_schedule());
  EXPECT_EQ(point.budget, tight);
  EXPECT_GT(point.max_computes, 2);
  EXPECT_EQ(result.schedules.front().solver.max_computes, point.max_computes);
  EXPECT_LE(result.curve.least_budget, tight);
  EXPECT_EQ(result.curve.points.back().status, Status::optimal);
  for (const Schedule& schedule : result.schedules) {
    EXPECT_TRUE(verify(*chain, schedule).valid());
  }
}

TEST(MoreComputes, HoldWhatAnyMethodHolds) {
  std::mt19937 random(44);
  int tight = 0;
  for (int round = 0; round < test::fewer(400); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = round % 4 == 0 ? test::training_chain(8 + static_cast<int>(random() % 60), 1)
                                      : test::random_training_graph(random, 14);
    const Instance unlimited(graph, {});
    const Bytes least = least_budget(unlimited);
    const Bytes peak = baseline_peak(unlimited);
    if (least >= peak) continue;
    const auto part = static_cast<std::int64_t>(random() % 40);
    const Instance instance = unlimited.with_budget(least + Bytes((peak - least).count() * part / 100));
    const Instance often(graph, {.budget = instance.budget(), .max_computes = 64});
    bool is_held = false;
    for (const Strategy strategy : {Strategy::rotor, Strategy::sqrt, Strategy::greedy}) {
      SolveOptions options;
      options.strategy = strategy;
      is_held = is_held || solve(often, options).has_schedule();
    }
    if (!is_held) continue;
    const Schedule schedule = solve_with_more_computes(instance, without_search());
    ASSERT_TRUE(schedule.has_schedule());
    const Verdict verdict = verify(*graph, schedule);
    ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
    ASSERT_FALSE(schedule.solver.history.empty());
    EXPECT_EQ(schedule.solver.history.back().duration, schedule.duration);
    tight += schedule.solver.max_computes > 2 ? 1 : 0;
  }
  EXPECT_GT(tight, 0);
}

TEST(MoreComputes, AreNotConstructedWithoutSegments) {
  const TightChain tight;
  SolveOptions options = without_search();
  EXPECT_TRUE(solve_with_more_computes(tight.instance, options).has_schedule());
  options.segments = false;
  EXPECT_FALSE(solve_with_more_computes(tight.instance, options).has_schedule());
}

TEST(MoreComputes, HoldWhatTwoCannot) {
  const TightChain tight;
  const SolveOptions options = test::work_limited(50'000);
  const Schedule schedule = solve_with_more_computes(tight.instance, options);
  EXPECT_TRUE(schedule.has_schedule());
  EXPECT_EQ(schedule.solver.max_computes, 3);
  EXPECT_FALSE(schedule.solver.note.empty());
  EXPECT_TRUE(verify(*tight.chain, schedule).valid());
}

}  // namespace
}  // namespace remora
