// SPDX-License-Identifier: Apache-2.0
//
// solve() where ops have several modes, against brute force.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/bound/modes/mode_proof.hpp"
#include "engine/search/workers/mode_workers.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

bool verifies(const Instance& instance, const Schedule& schedule) {
  return verify(instance.graph(), schedule).valid();
}

/// Moves the release of something that a step reads to the step before; nothing where no step but the one that makes
/// it could.
std::optional<Schedule> with_an_early_release(std::mt19937& random, const Instance& instance, Schedule schedule) {
  for (std::size_t i = schedule.steps.size() - 1; i > 0; --i) {
    for (const TensorId t : schedule.steps[i].free) {
      if (instance.producer(t) == schedule.steps[i].op || random() % 2 == 0) continue;
      std::erase(schedule.steps[i].free, t);
      schedule.steps[i - 1].free.push_back(t);
      return schedule;
    }
  }
  return std::nullopt;
}

/// A step takes the next mode; nothing where the evaluator finds that to be as good.
std::optional<Schedule> with_another_mode(std::mt19937& random, const Instance& instance, Schedule schedule) {
  Step& step = schedule.steps[random() % schedule.steps.size()];
  step.mode = (step.mode + 1) % (instance.mode_count(step.op) + 1);
  const std::vector<Compute> computes = computes_of(schedule);
  if (!modes_hold(instance, computes)) return schedule;
  const Evaluation evaluation = evaluate(instance, computes);
  if (evaluation.duration == schedule.duration && evaluation.peak == schedule.peak_memory) return std::nullopt;
  // What a mode leaves unread may have been released before, where the evaluator releases it behind its last use.
  return schedule;
}

/// How many schedules with one fault were tried; the verifier rejects each.
int reject_mutants(std::mt19937& random, const Instance& instance, const Schedule& schedule) {
  std::vector<std::optional<Schedule>> mutants(3, schedule);
  mutants[0]->duration += Duration(1);
  mutants[1]->peak_memory += Bytes(1);
  mutants[2]->budget = schedule.peak_memory - Bytes(1);
  if (schedule.peak_memory == instance.base_memory()) mutants[2].reset();
  if (!schedule.steps.empty()) {
    mutants.push_back(with_an_early_release(random, instance, schedule));
    mutants.push_back(with_another_mode(random, instance, schedule));
    mutants.emplace_back(schedule)->steps[random() % schedule.steps.size()].mode = kMaxModes;
    mutants.emplace_back(schedule)->steps.pop_back();
  }
  int tried = 0;
  for (const std::optional<Schedule>& mutant : mutants) {
    if (!mutant) continue;
    ++tried;
    EXPECT_FALSE(verifies(instance, *mutant)) << "mutant " << &mutant - mutants.data();
  }
  return tried;
}

/// The schedule is what it says, by the evaluator and by the verifier.
void expect_sound_modes(const Instance& instance, const Schedule& schedule) {
  const std::vector<Compute> computes = computes_of(schedule);
  const std::vector<OpId> ops = ops_of(computes);
  const Evaluation evaluation = evaluate(instance, computes);
  EXPECT_TRUE(modes_hold(instance, computes));
  EXPECT_TRUE(is_free_sequence(instance, ops));
  EXPECT_TRUE(instance.problem().order == OrderMode::free || is_staged(instance, ops));
  EXPECT_LE(evaluation.peak, instance.budget());
  EXPECT_EQ(schedule.peak_memory, evaluation.peak);
  EXPECT_EQ(schedule.duration, evaluation.duration);
  EXPECT_EQ(schedule.steps, steps_of(instance, computes));
  EXPECT_LE(schedule.lower_bound, schedule.duration);
  const Verdict verdict = verify(instance.graph(), schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_EQ(verdict.peak_step, evaluation.peak_step);
}

Instance random_modes_instance(std::mt19937& random, OrderMode order) {
  const int most_ops = order == OrderMode::free ? 4 : 6;
  auto graph = random() % 2 == 0 ? test::random_graph(random, {.least_ops = 2, .most_ops = most_ops})
                                 : test::random_training_graph(random, order == OrderMode::free ? 2 : 3);
  graph = test::with_random_modes(random, *graph);
  const Instance unlimited(graph, {.max_computes = 1 + static_cast<int>(random() % 2), .order = order});
  const std::int64_t most = evaluate(unlimited, computes_of(input_order(unlimited))).peak.count();
  return unlimited.with_budget(Bytes(most - static_cast<std::int64_t>(random() % static_cast<unsigned>(most / 2 + 1))));
}

struct ModesTally {
  int optimal = 0;
  int infeasible = 0;
  int undecided = 0;
  /// Feasible, and mode 0 of every op does not do.
  int by_choice = 0;
};

ModesTally solve_many_modes(unsigned seed, int rounds, OrderMode order) {
  std::mt19937 random(seed);
  ModesTally tally;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, order);
    const Schedule schedule = solve(instance, test::work_limited(20'000, 1));
    const auto optimum = test::optimum(instance);
    if (schedule.has_schedule()) expect_sound_modes(instance, schedule);
    tally.optimal += schedule.status == Status::optimal ? 1 : 0;
    tally.infeasible += schedule.status == Status::infeasible ? 1 : 0;
    tally.undecided += schedule.status == Status::feasible || schedule.status == Status::unknown ? 1 : 0;
    if (!optimum) {
      EXPECT_FALSE(schedule.has_schedule());
      continue;
    }
    EXPECT_NE(schedule.status, Status::infeasible);
    EXPECT_LE(schedule.lower_bound, *optimum);
    EXPECT_TRUE(!schedule.has_schedule() || schedule.duration >= *optimum);
    EXPECT_TRUE(schedule.status != Status::optimal || schedule.duration == *optimum);
    const auto computes = computes_of(schedule);
    tally.by_choice += std::any_of(computes.begin(), computes.end(), [](const Compute& c) { return c.mode > 0; });
  }
  return tally;
}

TEST(SolveModes, AgreesWithBruteForceInTheInputOrder) {
  const ModesTally tally = solve_many_modes(20261901, 600, OrderMode::input);
  EXPECT_GT(tally.optimal, 200);
  EXPECT_GT(tally.infeasible, 50);
  EXPECT_GT(tally.by_choice, 100);
  EXPECT_LE(tally.undecided, 6);
}

TEST(SolveModes, AgreesWithBruteForceInFreeOrder) {
  const ModesTally tally = solve_many_modes(20261902, 300, OrderMode::free);
  EXPECT_GT(tally.optimal, 100);
  EXPECT_GT(tally.infeasible, 20);
  EXPECT_GT(tally.by_choice, 50);
  EXPECT_LE(tally.undecided, 6);
}

TEST(VerifyModes, RejectsMutants) {
  std::mt19937 random(81);
  int tried = 0;
  for (int round = 0; round < 150; ++round) {
    const Instance instance = random_modes_instance(random, round % 2 == 0 ? OrderMode::input : OrderMode::free);
    const Schedule schedule = solve(instance, test::work_limited(2000));
    if (schedule.has_schedule()) tried += reject_mutants(random, instance, schedule);
  }
  EXPECT_GE(tried, 300);
}

TEST(SolveModes, SaysTheSameAtAnyNumberOfThreads) {
  std::mt19937 random(20261903);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    SolveOptions options = test::work_limited(3'000, 1);
    const Schedule once = solve(instance, options);
    options.threads = 3;
    const Schedule again = solve(instance, options);
    EXPECT_EQ(once.status, again.status);
    EXPECT_EQ(once.steps, again.steps);
    EXPECT_EQ(once.lower_bound, again.lower_bound);
  }
}

TEST(SolveModes, MoreRunsBeginWithAScheduleInWhateverModesItIs) {
  std::mt19937 random(20261906);
  int in_others = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto order = round % 3 == 0 ? OrderMode::free : OrderMode::input;
    const Instance instance = random_modes_instance(random, order);
    const Schedule schedule = solve_with_more_computes(instance, test::work_limited(1'000, 1));
    if (!schedule.has_schedule()) continue;
    expect_sound_modes(with_computes(instance, std::max(1, schedule.solver.max_computes)), schedule);
    in_others += modes_hold(instance, computes_of(ops_of(schedule))) ? 0 : 1;
  }
  EXPECT_GE(in_others, 3);
}

TEST(SolveModes, TheLeastBudgetIsBracketed) {
  std::mt19937 random(20261905);
  int bracketed = 0;
  int below_one_mode = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    if (!modes_hold(instance, computes_of(input_order(instance)))) {
      EXPECT_THROW(least_budget(test::asked(instance, test::work_limited(2'000, 1))), InputError);
      continue;
    }
    SolveOptions options = test::work_limited(2'000, 1);
    options.time_limit = 100;
    const BudgetBracket bracket = least_budget(test::asked(instance, options));
    EXPECT_TRUE(test::optimum(instance.with_budget(bracket.reached)));
    EXPECT_FALSE(bracket.proved > Bytes(0) && test::optimum(instance.with_budget(bracket.proved - Bytes(1))));
    ++bracketed;
    auto plain = std::make_shared<Graph>(instance.graph());
    for (Op& op : plain->ops) op.modes.reset();
    below_one_mode += bracket.reached < least_budget(test::asked({plain, instance.problem()}, options)).reached;
  }
  EXPECT_GT(bracketed, 20);
  EXPECT_GT(below_one_mode, 5);
}

TEST(SolveModes, ACancelledBracketIsWhatIsKnownByThen) {
  std::mt19937 random(20261906);
  const Instance instance(test::random_graph(random, {.least_ops = 5, .most_ops = 6}), {});
  const std::atomic<bool> cancel{true};
  const BudgetBracket bracket = least_budget(test::asked(instance, test::work_limited(0, 1)), &cancel);
  EXPECT_LE(bracket.proved, bracket.reached);
  EXPECT_EQ(bracket.reached, baseline_peak(instance));
}

/// All steps of the proof, by CBC; the schedules that it comes upon are the instance's, whatever memory they need.
ProofUpdate prove(const Instance& instance) {
  ModeProof proof(instance);
  ProofUpdate last;
  for (int step = 0; step < 50 && !last.finished; ++step) {
    last = proof.step({.mip = IntegerSolver::cbc});
    for (const std::vector<Compute>& sequence : last.sequences) {
      EXPECT_TRUE(modes_hold(instance, sequence));
      EXPECT_TRUE(is_staged(instance, ops_of(sequence)));
    }
  }
  EXPECT_TRUE(last.finished);
  EXPECT_LE(last.exact_bound, last.bound);
  return last;
}

TEST(ModeProof, BoundsNoOptimumFromAbove) {
  std::mt19937 random(20261907);
  int raised = 0;
  int tight = 0;
  int infeasible = 0;
  for (int round = 0; round < 1500 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    if (!ModeProof::applies(instance)) continue;
    const auto optimum = test::optimum(instance);
    const ProofUpdate update = prove(instance);
    infeasible += update.infeasible ? 1 : 0;
    if (!optimum) continue;
    EXPECT_FALSE(update.infeasible);
    EXPECT_LE(instance.baseline_duration() + update.bound, *optimum);
    raised += update.bound > Duration(0) ? 1 : 0;
    tight += update.bound > Duration(0) && instance.baseline_duration() + update.bound == *optimum ? 1 : 0;
  }
  EXPECT_GT(raised, 200);
  EXPECT_GT(tight, 100);
  EXPECT_GT(infeasible, 50);
}

/// Units whose forward half may save less for its backward half, which then takes longer and more workspace.
Instance random_units(std::mt19937& random, int units, int modes) {
  auto graph = std::make_shared<Graph>();
  std::vector<OpId> forward;
  const auto amount = [&](unsigned most) { return static_cast<std::int64_t>(random() % most); };
  const auto add = [&](Op op, std::int64_t size, std::vector<OpId> reads) {
    op.name = "op" + std::to_string(graph->ops.size());
    for (const OpId read : reads) op.inputs.push_back((*graph)[read].outputs.front());
    op.outputs = {TensorId(graph->tensors.size())};
    graph->tensors.push_back({.name = "t" + std::to_string(graph->tensors.size()), .size = Bytes(size)});
    graph->ops.push_back(std::move(op));
    return OpId(graph->ops.size() - 1);
  };
  for (int unit = 0; unit < units; ++unit) {
    forward.push_back(add({.duration = Duration(1 + amount(9))}, 5 + amount(20), {}));
    OpModes own;
    for (int mode = 1; mode < modes; ++mode)
      own.further.push_back(Mode{.duration = (*graph)[forward.back()].duration, .output_sizes = {Bytes(amount(20))}});
    (*graph)[forward.back()].modes = std::move(own);
  }
  for (int unit = units; unit-- > 0;) {
    const OpId op = add({.duration = Duration(1 + amount(9)), .workspace = Bytes(amount(9))}, 0, {forward[at(unit)]});
    OpModes own{.follows = forward[at(unit)]};
    for (int mode = 1; mode < modes; ++mode)
      own.further.push_back(Mode{.duration = (*graph)[op].duration + Duration(amount(9)),
                                 .workspace = Bytes(amount(20)),
                                 .output_sizes = {Bytes(0)}});
    (*graph)[op].modes = std::move(own);
  }
  const Instance unlimited(graph, {.max_computes = 1});
  const std::int64_t most = baseline_peak(unlimited).count();
  return unlimited.with_budget(Bytes(most - amount(static_cast<unsigned>(most / 2 + 1))));
}

/// The extra time of the best choice of modes without recomputes.
std::optional<Duration> best_modes(const Instance& instance, int units, int modes) {
  std::optional<Duration> best;
  std::vector<Compute> computes = computes_of(input_order(instance));
  for (int choice = 0; choice < static_cast<int>(std::pow(modes, units)); ++choice) {
    for (int unit = 0, left = choice; unit < units; ++unit, left /= modes)
      computes[at(unit)].mode = computes[at(2 * units - 1 - unit)].mode = left % modes;
    const Evaluation evaluation = evaluate(instance, computes);
    if (evaluation.peak > instance.budget()) continue;
    const Duration extra = evaluation.duration - instance.baseline_duration();
    best = std::min(best.value_or(extra), extra);
  }
  return best;
}

TEST(ModeProof, IsExactWhereNothingIsRecomputed) {
  std::mt19937 random(20261908);
  int feasible = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int units = 2 + static_cast<int>(random() % 5);
    const int modes = 2 + static_cast<int>(random() % 2);
    const Instance instance = random_units(random, units, modes);
    const auto best = best_modes(instance, units, modes);
    const ProofUpdate update = prove(instance);
    EXPECT_EQ(update.infeasible, !best.has_value());
    EXPECT_TRUE(!best || update.bound == *best);
    const Schedule schedule = solve(instance, test::work_limited(20'000, 1));
    EXPECT_EQ(schedule.status, best ? Status::optimal : Status::infeasible);
    EXPECT_TRUE(!best || schedule.duration - instance.baseline_duration() == *best);
    feasible += best ? 1 : 0;
  }
  EXPECT_GT(feasible, 150);
}

/// Units of a few kinds, with bytes and nanoseconds as of networks: choices by the dozen are almost equally long.
Instance units_of_few_kinds(std::mt19937& random, int units) {
  const Instance small = random_units(random, units, 3);
  const auto kinds = 1 + random() % 3;
  auto graph = std::make_shared<Graph>(small.graph());
  const auto larger = [&](auto& amount, std::int64_t unit) {
    amount = std::decay_t<decltype(amount)>(amount.count() * unit + static_cast<std::int64_t>(random() % 20'000'000));
  };
  for (const bool is_forward : {true, false}) {
    for (int unit = 0; unit < units; ++unit) {
      const int op = is_forward ? unit : 2 * units - 1 - unit;
      const auto like = static_cast<int>(static_cast<unsigned>(unit) % kinds);
      const int other = is_forward ? like : 2 * units - 1 - like;
      Op& here = graph->ops[at(op)];
      if (other != op) {
        here.duration = graph->ops[at(other)].duration;
        here.workspace = graph->ops[at(other)].workspace;
        graph->tensors[at(op)].size = graph->tensors[at(other)].size;
        here.modes->further = graph->ops[at(other)].modes->further;
        continue;
      }
      larger(here.duration, 100'000'000);
      larger(here.workspace, 50'000'000);
      if (is_forward) larger(graph->tensors[at(op)].size, 50'000'000);
      for (std::optional<Mode>& mode : graph->ops[at(op)].modes->further) {
        larger(mode->duration, 100'000'000);
        larger(mode->workspace, 50'000'000);
        if (is_forward) larger(mode->output_sizes.front(), 40'000'000);
      }
    }
  }
  for (int op = 0; op < 2 * units; ++op) {
    const auto noise = [&](Duration& duration) { duration += Duration(static_cast<std::int64_t>(random() % 12)); };
    noise(graph->ops[at(op)].duration);
    for (std::optional<Mode>& mode : graph->ops[at(op)].modes->further) {
      if (op < units) mode->duration = graph->ops[at(op)].duration;
      if (op >= units) noise(mode->duration);
    }
  }
  const Instance unlimited(graph, {.max_computes = 1});
  const std::int64_t most = baseline_peak(unlimited).count();
  return unlimited.with_budget(Bytes(most - static_cast<std::int64_t>(random() % 1000) * most / 1500));
}

TEST(ModeProof, MissesNoSolutionThatIsBetterByAHundredMillionth) {
  // Of 6,000 seeds, those at which CBC does with its usual tolerances.
  int feasible = 0;
  for (const unsigned seed : {505U,  1706U, 1949U, 1988U, 2190U, 2447U, 2607U, 2672U, 2951U, 3063U, 3106U, 3126U,
                              3460U, 3628U, 3706U, 4014U, 4054U, 4178U, 4512U, 4519U, 4559U, 4608U, 4772U, 5849U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int units = 2 + static_cast<int>(random() % 6);
    const Instance instance = units_of_few_kinds(random, units);
    const auto best = best_modes(instance, units, 3);
    const ProofUpdate update = prove(instance);
    EXPECT_EQ(update.infeasible, !best.has_value());
    EXPECT_TRUE(!best || update.bound <= *best) << (update.bound - *best).count() << " of " << best->count();
    feasible += best ? 1 : 0;
  }
  EXPECT_EQ(feasible, 24);
}

TEST(SolveModes, ProvesChainsOfManyUnits) {
  std::mt19937 random(20261909);
  for (const int units : {24, 24, 48, 48, 96}) {
    SCOPED_TRACE(std::to_string(units) + " units");
    const Instance instance = random_units(random, units, 3);
    const Schedule schedule = solve(instance, test::work_limited(20'000, 1));
    if (schedule.has_schedule()) expect_sound_modes(instance, schedule);
    EXPECT_TRUE(schedule.status == Status::optimal || schedule.status == Status::infeasible)
        << schedule.duration.count() << " " << schedule.lower_bound.count() << " " << schedule.solver.work;
  }
}

TEST(SolveModes, EveryWorkerIsRight) {
  std::mt19937 random(20261910);
  for (int round = 0; round < test::fewer(300) && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, round % 3 == 0 ? OrderMode::free : OrderMode::input);
    const auto optimum = test::optimum(instance);
    for (const Workers workers : {Workers::complete, Workers::lns, Workers::local}) {
      SolveOptions options = test::work_limited(300, 1);
      options.workers = workers;
      const Schedule schedule = solve(instance, options);
      if (schedule.has_schedule()) expect_sound_modes(instance, schedule);
      EXPECT_TRUE(optimum || !schedule.has_schedule());
      EXPECT_TRUE(!optimum || schedule.status != Status::infeasible);
      EXPECT_TRUE(!optimum || schedule.lower_bound <= *optimum);
      EXPECT_TRUE(!optimum || !schedule.has_schedule() || schedule.duration >= *optimum);
    }
  }
}

TEST(SolveModes, SweepsAgreeWithBruteForce) {
  std::mt19937 random(20261911);
  int optimal = 0;
  for (int round = 0; round < test::fewer(300) && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    const Bytes most = instance.budget();
    SweepOptions budgets;
    for (const int part : {5, 4, 3}) budgets.budgets.push_back(Bytes(most.count() * part / 4));
    std::ranges::sort(budgets.budgets);
    const auto same = std::ranges::unique(budgets.budgets);
    budgets.budgets.erase(same.begin(), same.end());
    const SweepResult found = sweep(test::asked(instance, test::work_limited(6'000, 1)), budgets);
    ASSERT_EQ(found.schedules.size(), budgets.budgets.size());
    for (const Schedule& schedule : found.schedules) {
      const Instance own = instance.with_budget(schedule.budget);
      const auto optimum = test::optimum(own);
      if (schedule.has_schedule()) expect_sound_modes(own, schedule);
      EXPECT_TRUE(optimum || !schedule.has_schedule());
      EXPECT_TRUE(!optimum || schedule.status != Status::infeasible);
      EXPECT_TRUE(!optimum || schedule.lower_bound <= *optimum);
      EXPECT_TRUE(schedule.status != Status::optimal || (optimum && schedule.duration == *optimum));
      optimal += schedule.status == Status::optimal ? 1 : 0;
    }
  }
  EXPECT_GT(optimal, test::fewer(200));
}

/// Limits of runs may leave no mode that an op and all its followers have: what to begin with is then searched for.
TEST(SolveModes, BeginWhateverModesAreAllowedOrSayThatNoneWereFound) {
  std::mt19937 random(31);
  int found = 0;
  int without = 0;
  for (int i = 0; i < 24; ++i) {
    const auto graph = test::with_random_modes(random, generate::generate_layered({.ops = 60, .edges = 140}));
    const OrderMode order = i % 2 == 0 ? OrderMode::input : OrderMode::free;
    const Instance whole(graph, {.order = order});
    const Bytes budget(baseline_peak(whole).count() * 2);
    Request request = test::asked(whole.with_budget(budget), test::work_limited(200));
    const Answer answer = solve(request);
    if (answer.schedule.has_schedule()) {
      ++found;
      expect_sound_modes(whole.with_budget(budget), answer.schedule);
      continue;
    }
    if (answer.schedule.status == Status::unknown) {
      ++without;
      EXPECT_NE(answer.schedule.solver.note.find("no choice of modes was found"), std::string::npos);
    } else {
      EXPECT_EQ(answer.schedule.status, Status::infeasible);
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_GT(without, 0);
}

TEST(SolveModes, BeginFromAScheduleInItsModes) {
  std::mt19937 random(20261912);
  int begun = 0;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, round % 2 == 0 ? OrderMode::free : OrderMode::input);
    const Schedule first = solve(instance, test::work_limited(300, 1));
    if (!first.has_schedule()) continue;
    SolveOptions nothing = test::work_limited(1, 1);
    nothing.workers = Workers::complete;
    const Schedule again = solve(instance, nothing, {}, computes_of(first));
    ASSERT_TRUE(again.has_schedule());
    EXPECT_LE(again.duration, first.duration);
    auto wrong = computes_of(first);
    wrong.front().mode = kMaxModes;
    EXPECT_THROW(solve(instance, nothing, {}, wrong), InputError);
    ++begun;
  }
  EXPECT_GT(begun, 25);
}

TEST(FixedModes, NeedWhatTheirRunsNeed) {
  std::mt19937 random(20261913);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::input);
    std::vector<ModeNumber> modes;
    for (const OpId op : instance.ops()) {
      const OpId leader = instance.leader(op);
      const auto any = static_cast<ModeNumber>(random() % static_cast<unsigned>(instance.mode_count(op)));
      modes.push_back(leader.valid() ? modes[leader.index()] : instance.offers(op, any) ? any : 0);
    }
    Sequence ops = input_order(instance);
    ops.push_back(OpId(random() % ops.size()));
    std::vector<Compute> runs = computes_of(ops);
    for (Compute& run : runs) run.mode = modes[run.op.index()];
    if (!modes_hold(instance, runs)) continue;
    const std::optional<Instance> plain = with_fixed_modes(instance, modes);
    if (!plain) continue;
    EXPECT_FALSE(plain->has_modes());
    const Evaluation fixed = evaluate(*plain, ops);
    const Evaluation own = evaluate(instance, runs);
    EXPECT_EQ(fixed.memory, own.memory);
    EXPECT_EQ(fixed.duration, own.duration);
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST(SolveModes, AnOrderIsChosenByTheLeastAmounts) {
  std::mt19937 random(20261915);
  int free = 0;
  int input = 0;
  for (int round = 0; round < 200 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, OrderMode::free);
    Request request = test::asked(instance, test::work_limited(2'000, 1));
    request.order = OrderRequest::automatic;
    const Schedule schedule = solve(request).schedule;
    (schedule.order == OrderMode::free ? free : input) += 1;
    const Instance own = with_order(instance, schedule.order);
    const auto optimum = test::optimum(own);
    if (schedule.has_schedule()) expect_sound_modes(own, schedule);
    EXPECT_TRUE(optimum || !schedule.has_schedule());
    EXPECT_TRUE(!optimum || schedule.lower_bound <= *optimum);
    EXPECT_TRUE(schedule.status != Status::optimal || schedule.duration == *optimum);
  }
  EXPECT_GT(free, 5);
  EXPECT_GT(input, 50);
}

TEST(SolveModes, BoundsAreProvedWithoutASearch) {
  std::mt19937 random(20261914);
  int raised = 0;
  int infeasible = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Instance instance = random_modes_instance(random, round % 2 == 0 ? OrderMode::input : OrderMode::free);
    SolveOptions options = test::work_limited(0, 1);
    options.strategy = Strategy::none;
    const Schedule schedule = solve(instance, options);
    const auto optimum = test::optimum(instance);
    if (schedule.has_schedule()) expect_sound_modes(instance, schedule);
    EXPECT_FALSE(optimum && schedule.status == Status::infeasible);
    EXPECT_TRUE(!optimum || schedule.lower_bound <= *optimum);
    raised += optimum && schedule.lower_bound > instance.baseline_duration() ? 1 : 0;
    infeasible += schedule.status == Status::infeasible ? 1 : 0;
  }
  EXPECT_GT(raised, 0);
  EXPECT_GT(infeasible, 10);
}

TEST(SolveModes, RefusesWhatTakesOneModePerOp) {
  std::mt19937 random(20261904);
  const Instance instance = random_modes_instance(random, OrderMode::input);
  SolveOptions options = test::work_limited(100, 1);
  options.strategy = Strategy::greedy;
  EXPECT_THROW(solve(instance, options), InputError);
  Request request = test::asked(instance, test::work_limited(100, 1));
  EXPECT_THROW(find_order(request), InputError);
  request.slices.is_allowed = true;
  EXPECT_THROW(solve(request), InputError);
}

}  // namespace
}  // namespace remora
