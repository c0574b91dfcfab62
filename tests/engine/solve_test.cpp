// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/base/deadline.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

/// Solves and passes the schedule, if there is one, through the verifier.
Schedule solve_verified(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {}) {
  Schedule schedule = solve(instance, options, callbacks);
  if (schedule.has_steps()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  }
  EXPECT_LE(schedule.lower_bound, schedule.has_steps() ? schedule.duration : Duration::max());
  return schedule;
}

/// What differs from the defaults.
std::string described(const SolveOptions& options) {
  const auto usual = describe_options({});
  const auto given = describe_options(options);
  std::string text;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] != usual[i]) text += given[i].first + " " + given[i].second + " ";
  }
  return text;
}

TEST(Solve, ProvesTheBruteForceOptimumOrInfeasibilityOfRandomGraphs) {
  std::mt19937 random(41);
  for (int round = 0; round < 120; ++round) {
    const auto graph = test::random_graph(random);
    const int max_computes = 1 + static_cast<int>(random() % 3);
    const Instance unlimited(graph, {.max_computes = max_computes});
    for (const int below : {0, 1, 2, 4, 8}) {
      const Bytes budget = std::max(Bytes(0), baseline_peak(unlimited) - Bytes(below));
      const Instance instance = unlimited.with_budget(budget);
      SolveOptions options = test::work_limited(200000);
      for (bool* one : {&options.covering_limits, &options.covering_start, &options.reduced_costs, &options.benders,
                        &options.period_bound}) {
        *one = random() % 4 != 0;
      }
      options.covering = std::array{Covering::off, Covering::lp, Covering::on, Covering::on}.at(random() % 4);
      options.mip = random() % 4 == 0 ? IntegerSolver::off : IntegerSolver::highs;
      const Schedule schedule = solve_verified(instance, options);
      const auto truth = test::optimum(instance);
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(budget.count()));
      ASSERT_EQ(schedule.status, truth ? Status::optimal : Status::infeasible);
      if (truth) {
        ASSERT_EQ(schedule.duration, *truth);
      }
    }
  }
}

TEST(Solve, BoundsOfSearchesThatEndEarlyAreNeverAboveTheOptimum) {
  std::mt19937 random(42);
  int early = 0;
  for (int round = 0; round < 300; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 5, .most_ops = 7});
    const Instance unlimited(graph, {.max_computes = 2});
    const Bytes budget = baseline_peak(unlimited) - Bytes(static_cast<std::int64_t>(1 + random() % 8));
    if (budget < Bytes(0)) continue;
    SolveOptions options = test::work_limited(200000);
    options.work_limit = 1 + static_cast<std::int64_t>(random() % 60);
    options.neighbourhood_nodes = 1 + static_cast<std::int64_t>(random() % 20);
    options.seed = round;
    const Instance instance = unlimited.with_budget(budget);
    const Schedule schedule = solve_verified(instance, options);
    const auto truth = test::optimum(instance);
    SCOPED_TRACE("round " + std::to_string(round));
    if (schedule.status == Status::infeasible) {
      ASSERT_FALSE(truth.has_value());
    }
    if (truth) {
      ASSERT_LE(schedule.lower_bound, *truth);
      if (schedule.status != Status::optimal) ++early;
    }
  }
  RecordProperty("early", early);
}

TEST(Solve, AnEmptyGraphOverBudgetIsInfeasible) {
  Graph graph;
  graph.fixed_memory = Bytes(10);
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(5)});
  EXPECT_EQ(solve(instance, test::work_limited(200000)).status, Status::infeasible);
}

TEST(Solve, PricesThatDoublesCannotTellApartLeaveTheOptimumOptimal) {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(92027939));
  const TensorId b = graph.add_tensor("b", Bytes(99615293));
  std::vector<TensorId> ends;
  for (const char* name : {"x", "ua", "ub"}) ends.push_back(graph.add_tensor(name, Bytes(1)));
  graph.add_op({.name = "A", .duration = Duration(52942900), .outputs = {a}});
  graph.add_op({.name = "B", .duration = Duration(57307841), .outputs = {b}});
  graph.add_op({.name = "X", .duration = Duration(1), .workspace = Bytes(99615293), .outputs = {ends[0]}});
  graph.add_op({.name = "UA", .duration = Duration(1), .inputs = {a}, .outputs = {ends[1]}});
  graph.add_op({.name = "UB", .duration = Duration(1), .inputs = {b}, .outputs = {ends[2]}});
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(191643233)});
  const Schedule schedule = solve_verified(instance, test::work_limited(200000));
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_EQ(schedule.duration - schedule.baseline_duration, Duration(57307841));
}

TEST(Solve, ANoRecomputeScheduleIsOptimalAtThePeak) {
  const Instance instance(test::figure_1(), {.budget = Bytes(4)});
  const Schedule schedule = solve_verified(instance, test::work_limited(200000));
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_EQ(schedule.duration, schedule.baseline_duration);
  EXPECT_EQ(schedule.solver.work, 0);
}

TEST(Solve, TheEmptyGraphHasAnEmptySchedule) {
  const Instance instance(std::make_shared<const Graph>(), {.budget = Bytes(0)});
  const Schedule schedule = solve(instance, test::work_limited(200000));
  EXPECT_EQ(schedule.status, Status::optimal);
  EXPECT_TRUE(schedule.steps.empty());
}

TEST(Solve, AnOpThatDoesNotFitIsNamed) {
  const Instance instance(test::figure_1(), {.budget = Bytes(2)});
  const Schedule schedule = solve(instance, test::work_limited(200000));
  EXPECT_EQ(schedule.status, Status::infeasible);
  ASSERT_TRUE(schedule.certificate.has_value());
  EXPECT_EQ(schedule.certificate->required, Bytes(3));
}

/// Large enough that the search has something to do.
std::shared_ptr<const Graph> chain() {
  return test::training_chain(24);
}

TEST(Solve, SaysWhyItEnded) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 120, .seed = 3}));
  const Instance unlimited(graph, {});
  const Instance tight = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 8 / 10));
  const auto stop = [](const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {}) {
    return solve(instance, options, callbacks).solver.stop;
  };
  SolveOptions options = test::work_limited(200000);
  EXPECT_EQ(stop(unlimited.with_budget(baseline_peak(unlimited)), options), Stop::optimum);
  EXPECT_EQ(stop(unlimited.with_budget(Bytes(1)), options), Stop::infeasible);
  // What never proves anything.
  options.workers = Workers::local;
  options.covering = Covering::off;
  options.time_limit = 0;
  EXPECT_EQ(stop(tight, options), Stop::time);
  options.time_limit = kNoTimeLimit;
  options.work_limit = 50;
  EXPECT_EQ(stop(tight, options), Stop::work);
  options.work_limit = 0;
  EXPECT_EQ(stop(tight, options, {.enough = [](const Progress& now) { return now.work > 100; }}), Stop::callback);
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(stop(tight, options, {.cancel = &cancelled}), Stop::cancelled);
  options.gap = 0.5;
  const Schedule near = solve_verified(tight, options);
  EXPECT_EQ(near.solver.stop, Stop::gap);
  EXPECT_LE(near.gap(), 0.5);
  EXPECT_GT(near.gap(), 0);
  options.gap = 0;
  options.stall = 0.05;
  EXPECT_EQ(solve_verified(tight, options).solver.stop, Stop::stall);
}

Instance tight_chain(int percent) {
  const Instance unlimited(chain(), {});
  return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * percent / 100));
}

TEST(Solve, TheSameSeedAndWorkLimitGiveTheSameScheduleAtAnyThreadCount) {
  SolveOptions options;
  options.work_limit = 15000;
  options.time_limit = kNoTimeLimit;
  options.seed = 7;
  options.threads = 1;
  const Schedule one = solve_verified(tight_chain(50), options);
  ASSERT_TRUE(one.has_steps());
  for (const int threads : {2, 4}) {
    options.threads = threads;
    const Schedule other = solve_verified(tight_chain(50), options);
    EXPECT_EQ(one.steps, other.steps);
    EXPECT_EQ(one.solver.work, other.solver.work);
    EXPECT_EQ(one.lower_bound, other.lower_bound);
  }
}

Instance layered() {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 150, .edges = 480, .seed = 1}));
  const Instance unlimited(graph, {});
  return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 9 / 10));
}

TEST(Solve, OnALayeredGraphTooTheThreadCountChangesNothing) {
  const Instance instance = layered();
  std::vector<Schedule> schedules;
  for (const int threads : {1, 2, 4}) {
    SolveOptions options = test::work_limited(200000);
    options.work_limit = 10000;
    options.threads = threads;
    schedules.push_back(solve_verified(instance, options));
    ASSERT_TRUE(schedules.back().has_steps());
    EXPECT_EQ(schedules.back().steps, schedules.front().steps);
    EXPECT_EQ(schedules.back().solver.work, schedules.front().solver.work);
    EXPECT_EQ(schedules.back().lower_bound, schedules.front().lower_bound);
  }
  std::vector<std::string> sources;
  for (const Incumbent& incumbent : schedules.front().solver.history) sources.push_back(incumbent.source);
  EXPECT_TRUE(std::find(sources.begin(), sources.end(), "ruin") != sources.end());
}

TEST(Solve, TheHeartbeatComesAfterEveryRoundAndItsWorkGrows) {
  std::vector<Progress> rounds;
  SolveCallbacks callbacks;
  callbacks.heartbeat = [&](const Progress& progress) { rounds.push_back(progress); };
  SolveOptions options = test::work_limited(200000);
  options.work_limit = 5000;
  const Schedule schedule = solve_verified(layered(), options, callbacks);
  ASSERT_GT(rounds.size(), 2U);
  for (std::size_t i = 1; i < rounds.size(); ++i) EXPECT_GT(rounds[i].work, rounds[i - 1].work);
  EXPECT_EQ(rounds.back().work, schedule.solver.work);
  EXPECT_EQ(rounds.back().duration, schedule.duration);
}

TEST(Solve, KeepsToItsWorkLimit) {
  const auto half = [](Graph graph) {
    const Instance unlimited(std::make_shared<const Graph>(std::move(graph)), {});
    return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() / 2));
  };
  const Instance transformer = half(test::generate_transformer({.layers = 4}));
  const Instance tight = tight_chain(40);
  for (const std::int64_t limit : {300, 3'000, 20'000}) {
    for (const SolveOptions& own : {SolveOptions{}, SolveOptions{.groups = GroupStart::on},
                                    SolveOptions{.strategy = Strategy::cp}, SolveOptions{.workers = Workers::local}}) {
      for (const Instance* instance : {&transformer, &tight}) {
        SCOPED_TRACE(described(own) + ", " + std::to_string(limit) + ", " + std::to_string(instance->op_count()) +
                     " ops");
        SolveOptions options = test::work_limited(limit, own);
        EXPECT_LE(solve_verified(*instance, options).solver.work, limit + limit / 10);
      }
    }
  }
}

// The nodes of the covering program are not counted, and of GPT-2 with 96 layers took minutes.
TEST(Solve, TheFirstBoundOfALargeGraphIsTheLinearProgramsUnderAWorkLimit) {
  const auto graph = std::make_shared<const Graph>(test::generate_transformer({.layers = 100}));
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() / 2));
  const Deadline deadline(kNoTimeLimit, nullptr);
  const FirstBound found = find_first_bound(instance, test::work_limited(10), deadline);
  ASSERT_GT(found.cover.problem.items.size(), 1500U);
  EXPECT_GT(found.exact_bound, Duration(0));
  EXPECT_EQ(found.lower_bound, found.exact_bound);
}

TEST(Solve, AWorkLimitEndsAWorkerThatHasNothingToDo) {
  const Instance unlimited(chain(), {.max_computes = 1});
  SolveOptions options = test::work_limited(200000);
  options.workers = Workers::anneal;
  options.covering = Covering::off;
  options.work_limit = 10;
  const Schedule schedule = solve(unlimited.with_budget(baseline_peak(unlimited) - Bytes(1)), options);
  EXPECT_EQ(schedule.status, Status::unknown);
}

TEST(Solve, ACancelledSolveReturnsWhatItHas) {
  std::atomic<bool> cancel{false};
  SolveCallbacks callbacks;
  callbacks.cancel = &cancel;
  // Stop at the first schedule within the budget.
  callbacks.progress = [&](const Progress& progress) { cancel = cancel || progress.phase == 2; };
  const Schedule schedule = solve_verified(tight_chain(60), SolveOptions{}, callbacks);
  EXPECT_TRUE(schedule.has_steps());

  cancel = true;
  const Schedule nothing = solve(tight_chain(60), SolveOptions{}, callbacks);
  EXPECT_EQ(nothing.status, Status::unknown);
  EXPECT_EQ(nothing.solver.reached_peak, nothing.baseline_peak_memory);
}

TEST(Solve, AWarmStartIsKeptUnlessSomethingBetterIsFound) {
  const Instance instance = tight_chain(60);
  const Schedule first = solve_verified(instance, test::work_limited(200000));
  std::vector<Compute> sequence = computes_of(first);
  SolveOptions nothing = test::work_limited(200000);
  nothing.time_limit = 0;
  const Schedule again = solve(instance, nothing, {}, sequence);
  EXPECT_EQ(again.steps, first.steps);
  // Of another budget it is where phase 1 begins.
  const Schedule tighter = solve(tight_chain(50), nothing, {}, sequence);
  EXPECT_EQ(tighter.status, Status::unknown);
  EXPECT_EQ(tighter.solver.reached_peak, first.peak_memory);

  std::swap(sequence[0], sequence[1]);
  EXPECT_THROW(solve(instance, nothing, {}, sequence), InputError);
  std::swap(sequence[0], sequence[1]);
  for (const OpId unknown : {OpId::none(), OpId(instance.op_count())}) {
    std::vector<Compute> longer = sequence;
    longer.insert(longer.begin(), {unknown, 0});
    EXPECT_THROW(solve(instance, nothing, {}, longer), InputError);
  }
}

TEST(Solve, IncumbentsImproveAndBoundsRise) {
  std::vector<Progress> seen;
  SolveCallbacks callbacks;
  callbacks.progress = [&](const Progress& progress) { seen.push_back(progress); };
  const Instance instance = tight_chain(60);
  SolveOptions options = test::work_limited(200000);
  // It would settle a chain at once.
  options.period_bound = false;
  const Schedule schedule = solve_verified(instance, options, callbacks);
  ASSERT_GT(seen.size(), 2U);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(seen[i].lower_bound, seen[i - 1].lower_bound);
    EXPECT_GE(seen[i].phase, seen[i - 1].phase);
    const Bytes before = std::max(seen[i - 1].peak, instance.budget());
    const Bytes after = std::max(seen[i].peak, instance.budget());
    EXPECT_LE(after, before);
    if (after == before) {
      EXPECT_LE(seen[i].duration, seen[i - 1].duration);
    }
  }
  EXPECT_EQ(seen.back().duration, schedule.duration);
}

TEST(Solve, EveryIncumbentIsAScheduleBetterThanTheOneBefore) {
  for (const SolveOptions& own :
       {SolveOptions{}, SolveOptions{.groups = GroupStart::on}, SolveOptions{.strategy = Strategy::greedy}}) {
    const SolveOptions options = test::work_limited(200000, own);
    const Instance instance = tight_chain(75);
    std::vector<Schedule> incumbents;
    SolveCallbacks callbacks;
    callbacks.incumbent = [&](const Schedule& schedule) { incumbents.push_back(schedule); };
    const Schedule schedule = solve_verified(instance, options, callbacks);
    ASSERT_FALSE(incumbents.empty()) << described(own);
    for (std::size_t i = 0; i < incumbents.size(); ++i) {
      const Verdict verdict = verify(instance.graph(), incumbents[i]);
      EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
      EXPECT_TRUE(i == 0 || incumbents[i].duration < incumbents[i - 1].duration);
    }
    EXPECT_EQ(incumbents.back().steps, schedule.steps);
  }
}

TEST(Solve, AnExceptionOfACallbackComesOut) {
  SolveCallbacks callbacks;
  callbacks.incumbent = [](const Schedule&) { throw std::runtime_error("enough"); };
  EXPECT_THROW(solve(tight_chain(60), test::work_limited(200000), callbacks), std::runtime_error);
}

TEST(Solve, EveryStrategySolvesTheChainWithAllInferencesAndWithFew) {
  const auto reference = solve_verified(tight_chain(75), test::work_limited(200000));
  ASSERT_TRUE(reference.has_steps());
  for (const SolveOptions& own :
       {SolveOptions{}, SolveOptions{.strategy = Strategy::cp}, SolveOptions{.workers = Workers::complete},
        SolveOptions{.workers = Workers::lns}, SolveOptions{.workers = Workers::local},
        SolveOptions{.workers = Workers::ruin}, SolveOptions{.workers = Workers::anneal}}) {
    for (const bool on : {false, true}) {
      SolveOptions options = test::work_limited(200000, own);
      options.forced_recompute = options.impossible_recompute = options.useless_recompute = on;
      options.costly_recompute = options.later_recompute = options.nogoods = on;
      const Schedule schedule = solve_verified(tight_chain(75), options);
      EXPECT_TRUE(schedule.has_steps()) << described(own) << " " << on;
      EXPECT_GE(schedule.duration, reference.lower_bound);
    }
  }
}
}  // namespace
}  // namespace remora
