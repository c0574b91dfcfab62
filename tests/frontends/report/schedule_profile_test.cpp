// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <span>

#include <gtest/gtest.h>

#include "frontends/report/profile.hpp"
#include "frontends/report/ranges.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/solved_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"

namespace remora::report {
namespace {

std::vector<Bytes> amounts(std::initializer_list<int> counts) {
  std::vector<Bytes> all;
  for (const int count : counts) all.emplace_back(count);
  return all;
}

TEST(ScheduleProfile, OfFigureOne) {
  const auto graph = test::figure_1();
  const Schedule schedule = test::figure_1_schedule();
  ASSERT_TRUE(verify(*graph, schedule).valid()) << verify(*graph, schedule).errors[0];
  const ScheduleProfile profile = profile_of(graph, schedule);
  EXPECT_EQ(profile.before.memory, amounts({1, 2, 3, 4, 3}));
  EXPECT_EQ(profile.before.peak_step, 3);
  EXPECT_EQ(profile.after.memory, amounts({1, 2, 3, 3, 2, 3}));
  EXPECT_EQ(profile.after.again, (std::vector<bool>{false, false, false, false, true, false}));
  const DeviceId only(0);
  std::vector<TensorStay> stays{{TensorId(0), only, 0, 2},
                                {TensorId(1), only, 1, 3},
                                {TensorId(2), only, 2, 3},
                                {TensorId(3), only, 3, 5},
                                {TensorId(0), only, 4, 5, Begun::recompute},
                                {TensorId(4), only, 5, 5, Begun::first_run, true}};
  for (TensorStay& stay : stays) stay.size = Bytes(1);
  EXPECT_EQ(profile.after.stays, stays);
  EXPECT_EQ(profile.stages, (std::vector<Stage>{Stage(0), Stage(1), Stage(2), Stage(3), Stage(4), Stage(4)}));
  EXPECT_EQ(residents(profile.after, 3), (std::vector<std::size_t>{1, 2, 3}));
}

TEST(ScheduleProfile, SaysWhichOverloadARecomputeRelieves) {
  const ScheduleProfile profile = profile_of(test::figure_1(), test::figure_1_schedule());
  ASSERT_EQ(profile.recomputes.size(), 1U);
  const PaidRecompute& again = profile.recomputes[0];
  EXPECT_EQ(again.step, 4);
  EXPECT_EQ(again.op, OpId(0));
  EXPECT_EQ(again.paid, Duration(1));
  EXPECT_EQ(again.saved, Bytes(1));
  EXPECT_EQ(again.first_away, 3);
  EXPECT_EQ(again.last_away, 3);
  // While D runs, the input order holds 4 of 3 bytes; so would the schedule with a.
  EXPECT_EQ(again.relieved.steps, 1);
  EXPECT_EQ(again.relieved.op, OpId(3));
  EXPECT_EQ(again.relieved.above, Bytes(1));
  EXPECT_EQ(again.if_kept.steps, 1);
  EXPECT_EQ(again.if_kept.op, OpId(3));
  EXPECT_EQ(again.if_kept.above, Bytes(1));
  ASSERT_EQ(profile.recomputed_ops.size(), 1U);
  EXPECT_EQ(profile.recomputed_ops[0].times, 1);
}

TEST(ScheduleProfile, ARecomputeThatFitsRelievesNothing) {
  Schedule schedule = test::figure_1_schedule();
  schedule.budget = Bytes(4);
  const ScheduleProfile profile = profile_of(test::figure_1(), schedule);
  ASSERT_EQ(profile.recomputes.size(), 1U);
  EXPECT_EQ(profile.recomputes[0].relieved.steps, 0);
  EXPECT_EQ(profile.recomputes[0].if_kept.steps, 0);
}

TEST(ScheduleProfile, WithoutStepsThereIsStillTheInputOrder) {
  const ScheduleProfile profile = profile_of(test::figure_1(), {.status = Status::infeasible, .budget = Bytes(2)});
  EXPECT_EQ(profile.before.peak, Bytes(4));
  EXPECT_TRUE(profile.after.memory.empty());
  EXPECT_TRUE(profile.recomputed_ops.empty());
  EXPECT_TRUE(profile.retained.empty());
}

TEST(ScheduleProfile, AgreesWithTheEvaluatorAndTheVerdict) {
  std::size_t recomputes = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const ScheduleProfile profile = profile_of(solved.graph, solved.schedule);
    const Instance instance(solved.graph, {});
    EXPECT_EQ(profile.before.memory, evaluate(instance, input_order(instance)).memory);
    EXPECT_EQ(profile.after.memory, evaluate(instance, profile.after.ops).memory);
    const Verdict verdict = verify(*solved.graph, solved.schedule);
    EXPECT_EQ(profile.after.peak, verdict.peak);
    EXPECT_EQ(profile.after.peak_step, verdict.peak_step);
    EXPECT_EQ(profile.after.duration, verdict.duration);
    EXPECT_EQ(static_cast<int>(profile.recomputes.size()), verdict.recomputes);
    Duration paid;
    for (const RecomputedOp& op : profile.recomputed_ops) paid += op.paid;
    EXPECT_EQ(profile.before.duration + paid, verdict.duration);
    recomputes += profile.recomputes.size();
  }
  EXPECT_GT(recomputes, 100U);
}

/// At every step, base memory, the residents and the workspace are what the memory says.
void expect_residents_add_up(const Graph& graph, const Replay& replay) {
  for (std::size_t step = 0; step < replay.ops.size(); ++step) {
    Bytes sum = replay.base + graph.ops[replay.ops[step]].workspace;
    for (const std::size_t i : residents(replay, static_cast<int>(step))) {
      sum += graph.tensors[replay.stays[i].tensor].size;
    }
    ASSERT_EQ(sum, replay.memory[step]) << "step " << step;
  }
}

TEST(ScheduleProfile, ResidentsAddUpAlsoWhereReleasesAreLate) {
  unsigned seed = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const Schedule late = test::with_late_releases(*solved.graph, solved.schedule, ++seed);
    expect_residents_add_up(*solved.graph, profile_of(solved.graph, solved.schedule).after);
    expect_residents_add_up(*solved.graph, profile_of(solved.graph, late).after);
  }
}

TEST(ScheduleProfile, OfOpsInSeveralModesAgreesWithTheVerifier) {
  std::mt19937 random(81);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto plain = test::random_graph(random, {.least_ops = 2, .most_ops = 8});
    const Instance instance(test::with_random_modes(random, *plain), {});
    std::vector<Compute> runs = computes_of(input_order(instance));
    runs.push_back({OpId(static_cast<int>(random() % plain->ops.size())), 0});
    for (Compute& run : runs) run.mode = static_cast<ModeNumber>(random()) % instance.mode_count(run.op);
    for (Compute& run : runs) run.mode = std::max(run.mode, 0);
    if (!modes_hold(instance, runs)) continue;
    Schedule schedule = schedule_of(instance, std::span<const Compute>(runs));
    schedule.order = OrderMode::free;
    const Verdict verdict = verify(instance.graph(), schedule);
    ASSERT_EQ(verdict.peak, schedule.peak_memory);
    const Replay found = replay(instance.graph(), schedule.steps);
    EXPECT_EQ(found.peak, verdict.peak);
    EXPECT_EQ(found.peak_step, verdict.peak_step);
    EXPECT_EQ(found.duration, verdict.duration);
    EXPECT_EQ(found.memory, evaluate(instance, std::span<const Compute>(runs)).memory);
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

/// The schedule with another mode in the first run of the row's op by the row's mode, and in the runs that take it.
std::vector<Compute> with_faster_mode(const Instance& instance, std::vector<Compute> runs, const SlowerMode& row) {
  runs[at(row.step)].mode = row.faster;
  std::vector<ModeNumber> latest(static_cast<std::size_t>(instance.op_count()), 0);
  for (Compute& run : runs) {
    const OpId leader = instance.leader(run.op);
    if (leader.valid()) run.mode = latest[leader.index()];
    latest[run.op.index()] = run.mode;
  }
  return runs;
}

TEST(ScheduleProfile, SaysWhyAnOpIsNotRunByItsFastestMode) {
  std::mt19937 random(82);
  int above = 0;
  int fits = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto graph = test::with_random_modes(random, *test::random_graph(random, {.least_ops = 2, .most_ops = 8}));
    const Instance instance(graph, {});
    std::vector<Compute> runs = computes_of(input_order(instance));
    for (Compute& run : runs)
      run.mode = std::max(0, static_cast<ModeNumber>(random() % 4) % instance.mode_count(run.op));
    if (!modes_hold(instance, runs)) continue;
    Schedule schedule = schedule_of(instance, std::span<const Compute>(runs));
    schedule.budget += Bytes(static_cast<std::int64_t>(random() % 3));
    for (const SlowerMode& row : slower_modes(graph, schedule)) {
      EXPECT_EQ(runs[at(row.step)], (Compute{row.op, row.mode}));
      const std::vector<Compute> other = with_faster_mode(instance, runs, row);
      ASSERT_TRUE(modes_hold(instance, other));
      const Evaluation evaluation = evaluate(instance, other);
      EXPECT_EQ(schedule.duration - evaluation.duration, row.saved);
      EXPECT_GT(row.saved, Duration(0));
      const Bytes over = std::max(Bytes(0), evaluation.peak - schedule.budget);
      EXPECT_EQ(row.if_faster.above, over);
      EXPECT_EQ(row.if_faster.steps,
                std::ranges::count_if(evaluation.memory, [&](Bytes here) { return here > schedule.budget; }));
      EXPECT_TRUE(over == Bytes(0) || row.if_faster.op == other[at(evaluation.peak_step)].op);
      (over > Bytes(0) ? above : fits) += 1;
    }
  }
  EXPECT_GT(above, 20);
  EXPECT_GT(fits, 20);
}

using Matrix = std::vector<std::vector<bool>>;

/// The matrix that the pieces stand for.
Matrix dense(const std::vector<RetainedStages>& pieces, std::size_t ops) {
  Matrix matrix(ops + 1, std::vector<bool>(ops, false));
  for (const RetainedStages& piece : pieces) {
    for (Stage t = piece.first; t <= piece.last; ++t) {
      EXPECT_FALSE(matrix[static_cast<std::size_t>(t)][piece.op]) << "pieces overlap";
      matrix[static_cast<std::size_t>(t)][piece.op] = true;
    }
  }
  return matrix;
}

/// Checkmate's matrix S (Jain et al. 2020), step by step: the ops of which an output is resident when a stage begins.
Matrix retained_by_hand(const Graph& graph, const Schedule& schedule) {
  std::vector<bool> resident(graph.tensors.size(), false);
  Matrix matrix(1, std::vector<bool>(graph.ops.size(), false));
  for (const Step& step : schedule.steps) {
    for (const TensorId t : graph.ops[step.op].outputs) resident[t] = true;
    for (const TensorId t : step.free) resident[t] = false;
    if (step.op.index() + 1 != matrix.size()) continue;
    std::vector<bool>& row = matrix.emplace_back();
    for (const Op& op : graph.ops) {
      row.push_back(std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) { return bool{resident[t]}; }));
    }
  }
  return matrix;
}

TEST(ScheduleProfile, HoldsCheckmatesMatrices) {
  unsigned seed = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    for (const Schedule& schedule :
         {solved.schedule, test::with_late_releases(*solved.graph, solved.schedule, ++seed)}) {
      const ScheduleProfile profile = profile_of(solved.graph, schedule);
      EXPECT_EQ(dense(profile.retained, solved.graph->ops.size()), retained_by_hand(*solved.graph, schedule));
      Stage stage{0};
      for (std::size_t i = 0; i < profile.stages.size(); ++i) {
        EXPECT_EQ(profile.stages[i], stage);
        if (profile.after.ops[i] == OpId(static_cast<std::size_t>(stage))) ++stage;
      }
    }
  }
}

/// The same question, answered step by step: what was away, and what would exceed the budget.
PaidRecompute by_hand(const Graph& graph, const ScheduleProfile& profile, Bytes budget, int step) {
  const auto resident = [&](TensorId t, int at) {
    return std::any_of(profile.after.stays.begin(), profile.after.stays.end(), [&](const TensorStay& stay) {
      return stay.tensor == t && stay.first_step <= at && at <= stay.last_step;
    });
  };
  PaidRecompute found{.step = step, .op = profile.after.ops[static_cast<std::size_t>(step)]};
  std::vector<bool> away_now(graph.tensors.size(), false);
  for (const TensorId t : graph.ops[found.op].outputs) {
    const bool begins =
        std::any_of(profile.after.stays.begin(), profile.after.stays.end(),
                    [&](const TensorStay& stay) { return stay.tensor == t && stay.first_step == step; });
    away_now[t] = begins;
    if (begins) found.saved += graph.tensors[t].size;
  }
  for (int at = step - 1; at >= 0; --at) {
    Bytes away;
    bool any = false;
    for (const TensorId t : graph.ops[found.op].outputs) {
      away_now[t] = away_now[t] && !resident(t, at);
      any = any || away_now[t];
      if (away_now[t]) away += graph.tensors[t].size;
    }
    if (!any) break;
    const auto i = static_cast<std::size_t>(at);
    const OpId op = profile.after.ops[i];
    if (!profile.after.again[i] && profile.before.memory[op] > budget) {
      ++found.relieved.steps;
      found.relieved.above = std::max(found.relieved.above, profile.before.memory[op] - budget);
    }
    if (profile.after.memory[i] + away > budget) {
      ++found.if_kept.steps;
      found.if_kept.above = std::max(found.if_kept.above, profile.after.memory[i] + away - budget);
    }
  }
  return found;
}

TEST(ScheduleProfile, ReasonsAgreeWithALookAtEveryStep) {
  int relieving = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const ScheduleProfile profile = profile_of(solved.graph, solved.schedule);
    for (const PaidRecompute& recompute : profile.recomputes) {
      const PaidRecompute truth = by_hand(*solved.graph, profile, solved.schedule.budget, recompute.step);
      EXPECT_EQ(recompute.saved, truth.saved);
      EXPECT_EQ(recompute.relieved.steps, truth.relieved.steps);
      EXPECT_EQ(recompute.relieved.above, truth.relieved.above);
      EXPECT_EQ(recompute.if_kept.steps, truth.if_kept.steps);
      EXPECT_EQ(recompute.if_kept.above, truth.if_kept.above);
      if (recompute.relieved.steps == 0) continue;
      ++relieving;
      EXPECT_EQ(profile.before.memory[recompute.relieved.op] - solved.schedule.budget, recompute.relieved.above);
    }
  }
  EXPECT_GT(relieving, 100);
}

TEST(CountAbove, AgreesWithALookAtEveryAmount) {
  std::mt19937 random(7);
  for (const int count : {0, 1, 2, 3, 17, 40}) {
    std::vector<Bytes> row;
    for (int i = 0; i < count; ++i) row.emplace_back(static_cast<std::int64_t>(random() % 9));
    std::vector<CountQuery> queries;
    std::vector<std::ptrdiff_t> truth;
    for (int first = 0; first < count; ++first) {
      for (int last = first - 1; last < count; ++last) {
        const Bytes most(static_cast<std::int64_t>(random() % 10) - 1);
        queries.push_back({first, last, most});
        truth.push_back(
            std::count_if(row.begin() + first, row.begin() + last + 1, [&](Bytes amount) { return amount > most; }));
      }
    }
    const std::vector<int> found = count_above(row, queries);
    EXPECT_EQ(std::vector<std::ptrdiff_t>(found.begin(), found.end()), truth);
  }
}

TEST(RangeMaximum, AgreesWithALinearSearch) {
  std::mt19937 random(5);
  for (const int count : {1, 2, 3, 17, 64}) {
    std::vector<Bytes> row;
    for (int i = 0; i < count; ++i) row.emplace_back(static_cast<std::int64_t>(random() % 9));
    const RangeMaximum maximum(row);
    for (int first = 0; first < count; ++first) {
      for (int last = first; last < count; ++last) {
        const auto largest = std::max_element(row.begin() + first, row.begin() + last + 1);
        EXPECT_EQ(maximum.at(first, last), largest - row.begin());
      }
    }
  }
}

}  // namespace
}  // namespace remora::report
