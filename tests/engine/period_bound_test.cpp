// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/base/deadline.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/bound/periods/period_proof.hpp"
#include "engine/search/prover.hpp"
#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

int below(std::mt19937& random, int end) {
  return static_cast<int>(random() % static_cast<unsigned>(end));
}

/// A graph of everything the format can say, under a budget between what some op needs and the peak; nothing where
/// those are the same.
std::optional<Instance> random_instance(std::mt19937& random, int most_ops) {
  const Instance unlimited(test::random_graph(random, {.most_ops = most_ops, .in_place = random() % 2 == 0}),
                           {.max_computes = 1 + below(random, 3)});
  const Bytes least = least_budget(unlimited);
  const Bytes peak = baseline_peak(unlimited);
  if (least >= peak) return std::nullopt;
  return unlimited.with_budget(least + Bytes(below(random, static_cast<int>((peak - least).count()))));
}

/// Any stages as ends of periods, and any recomputes in stages that are periods of their own.
struct Shape {
  std::set<Stage> ends{};
  std::set<RecomputeEvent> events{};
};

Shape random_shape(std::mt19937& random, const Instance& instance) {
  Shape shape;
  const int stages = stages_of(instance);
  const int density = 1 + below(random, 4);
  for (Stage k{0}; k + 1 < stages; ++k) {
    if (below(random, 4) < density) shape.ends.insert(k);
  }
  for (Stage k{1}; k < stages; ++k) {
    for (int v = 0; v < k; ++v) {
      if (below(random, 2) == 0) shape.events.insert({k, OpId(v)});
    }
  }
  return shape;
}

struct PeriodTally {
  int cases = 0;
  int positive = 0;
  int tight = 0;
  int infeasible = 0;
  int rounded = 0;
};

/// Solvers want no column twice in a row.
bool names_columns_once(const Program& program) {
  for (const ProgramRow& row : program.rows) {
    std::set<int> columns;
    for (const ProgramTerm& term : row.terms) {
      if (!columns.insert(term.column).second) return false;
    }
  }
  return true;
}

void check_program(std::mt19937& random, const Instance& instance, const std::optional<Duration>& truth,
                   PeriodTally& tally) {
  const Shape shape = random_shape(random, instance);
  const int stages = stages_of(instance);
  std::set<Stage> finer = shape.ends;
  RuledOut out(instance.op_count());
  const PeriodProgram periods(instance, Periods(stages, shape.ends), shape.events, out);
  Program program = periods.program();
  ASSERT_TRUE(names_columns_once(program));
  const LinearAnswer linear = solve_linear(program, {});
  ++tally.cases;
  if (linear.outcome == LinearAnswer::Outcome::no_solution) {
    ASSERT_FALSE(truth.has_value());
    if (!linear.prices.empty() && proves_no_solution(program, linear.prices)) ++tally.infeasible;
    return;
  }
  if (!truth || linear.outcome != LinearAnswer::Outcome::optimal) return;
  const Duration extra = *truth - instance.baseline_duration();
  tally.rounded += program.rows.size() > periods.program().rows.size() ? 1 : 0;
  const ProgramBound bound = program_bound(program, linear.prices);
  ASSERT_LE(bound.bound, extra);
  if (bound.bound > Duration(0)) ++tally.positive;
  if (bound.bound > Duration(0) && bound.bound == extra) ++tally.tight;
  // Whatever the prices, and with what they rule out.
  std::vector<double> prices = linear.prices;
  for (double& price : prices) price *= 0.5 + static_cast<double>(below(random, 8)) / 8;
  ASSERT_LE(program_bound(program, prices).bound, extra);
  periods.for_each_recompute([&](OpId op, int period, int column) {
    if (bound.bound + bound.penalties[at(column)] <= extra) return;
    out[op].resize(at(stages), false);
    for (Stage k = periods.periods().first(period); k <= periods.periods().last(period); ++k) out[op][at(k)] = true;
  });
  // The same without what is out, in other periods every other time.
  if (random() % 2 == 0) {
    for (Stage k{0}; k + 1 < stages; ++k) {
      if (below(random, 3) == 0) finer.insert(k);
    }
  }
  const PeriodProgram smaller(instance, Periods(stages, finer), shape.events, out);
  Program left = smaller.program();
  // With rounded rows every other time.
  if (random() % 2 == 0) solve_linear(left, {});
  const IntegerAnswer whole = solve_integer(left, {.cutoff = extra + Duration(1), .by_highs = random() % 2 == 0});
  ASSERT_LE(whole.bound, extra);
  ASSERT_FALSE(whole.solution.empty()) << "the optimum was ruled out, or the solver lost it";
}

/// A chain at half of its peak.
Instance half_of_chain(int layers) {
  const Instance whole(test::training_chain(layers), {});
  return whole.with_budget(Bytes(baseline_peak(whole).count() / 2));
}

TEST(FirstBound, OnceTheLimitIsOverOnlyOfSmallGraphs) {
  SolveOptions options;
  options.covering = Covering::lp;
  options.time_limit = 0;
  const Deadline over(0, nullptr);
  EXPECT_GT(find_first_bound(half_of_chain(50), options, over).lower_bound, Duration(0));
  EXPECT_EQ(find_first_bound(half_of_chain(2'000), options, over).lower_bound, Duration(0));
  options.time_limit = kNoTimeLimit;
  const Deadline none(kNoTimeLimit, nullptr);
  EXPECT_GT(find_first_bound(half_of_chain(2'000), options, none).lower_bound, Duration(0));
}

TEST(PeriodProof, IsOfProgramsThatCanBeReadWithinTheTimeLimit) {
  const Instance instance = half_of_chain(2'000);
  EXPECT_TRUE(PeriodProof::is_within_reach(instance, kNoTimeLimit));
  EXPECT_FALSE(PeriodProof::is_within_reach(instance, 0.001));
}

TEST(PeriodBound, IsNeverAboveTheOptimumWhateverThePeriodsAndEvents) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(61);
  PeriodTally tally;
  for (int round = 0; round < test::fewer(24'000) && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto instance = random_instance(random, 6);
    if (!instance) continue;
    check_program(random, *instance, test::optimum(*instance), tally);
  }
  EXPECT_GT(tally.cases, test::fewer(8000));
  EXPECT_GT(tally.positive, test::fewer(2000));
  EXPECT_GT(tally.tight, test::fewer(500));
  EXPECT_GT(tally.infeasible, test::fewer(20));
  EXPECT_GT(tally.rounded, test::fewer(100));
}

std::int64_t sum_of(const ProgramRow& row, unsigned choice) {
  std::int64_t sum = 0;
  for (const ProgramTerm& term : row.terms) sum += (choice >> static_cast<unsigned>(term.column)) % 2 * term.factor;
  return sum;
}

TEST(RoundedRows, HoldForEveryChoiceThatTheRowAllowsAndForbidThePointGiven) {
  std::mt19937 random(64);
  int found = 0;
  for (int round = 0; round < test::fewer(20'000); ++round) {
    Program program;
    const int columns = 2 + below(random, 7);
    ProgramRow row;
    std::vector<double> point;
    const int largest = 3 + below(random, 60);
    for (int j = 0; j < columns; ++j) {
      program.add_column(1);
      row.terms.push_back({j, 1 + below(random, largest) - (below(random, 3) == 0 ? largest : 0)});
      point.push_back(below(random, 2) == 0 ? below(random, 2) : below(random, 1000) / 999.0);
    }
    // A column may stand in a row twice.
    if (below(random, 4) == 0) row.terms.push_back({below(random, columns), 1 + below(random, largest)});
    row.least = below(random, 3 * largest) - largest;
    program.rows.push_back(row);
    for (const ProgramRow& rounded : rounded_rows(program, 1, point)) {
      ++found;
      double here = 0;
      for (const ProgramTerm& term : rounded.terms) here += static_cast<double>(term.factor) * point[at(term.column)];
      ASSERT_LT(here, static_cast<double>(rounded.least));
      for (unsigned choice = 0; choice < 1U << static_cast<unsigned>(columns); ++choice) {
        if (sum_of(row, choice) < row.least) continue;
        ASSERT_GE(sum_of(rounded, choice), rounded.least) << "round " << round << ", choice " << choice;
      }
    }
  }
  EXPECT_GT(found, test::fewer(5000));
}

bool is_one_of(int column, unsigned choice) {
  return (choice >> static_cast<unsigned>(column)) % 2 != 0;
}

/// Of all choices that hold the program and cost less than the cutoff, the columns that are 1 in one of them.
unsigned used_below(const Program& program, Duration cutoff) {
  unsigned used = 0;
  for (unsigned choice = 0; choice < 1U << static_cast<unsigned>(program.columns()); ++choice) {
    Duration cost(0);
    for (int j = 0; j < program.columns(); ++j) {
      if (is_one_of(j, choice)) cost += Duration(program.costs[at(j)]);
    }
    const bool holds = std::all_of(program.rows.begin(), program.rows.end(),
                                   [&](const ProgramRow& row) { return sum_of(row, choice) >= row.least; });
    if (holds && cost < cutoff) used |= choice;
  }
  return used;
}

TEST(Probing, RulesOutOnlyWhatNoSolutionBelowTheCeilingHas) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(65);
  int ruled_out = 0;
  int beyond_reduced_costs = 0;
  for (int round = 0; round < test::fewer(8'000); ++round) {
    Program program;
    for (int columns = 2 + below(random, 9); columns > 0; --columns) program.add_column(1 + below(random, 20));
    for (int rows = 1 + below(random, 6); rows > 0; --rows) {
      ProgramRow row{.least = 1 + below(random, 12)};
      for (int j = 0; j < program.columns(); ++j) {
        const int factor = below(random, 12) - 3;
        if (factor != 0 && below(random, 3) > 0) row.terms.push_back({j, factor});
      }
      program.rows.push_back(row);
    }
    const LinearAnswer linear = solve_linear(program, {});
    if (linear.outcome != LinearAnswer::Outcome::optimal) continue;
    const ProgramBound bound = program_bound(program, linear.prices);
    const Duration cutoff = bound.bound + Duration(1 + below(random, 20));
    std::vector<std::vector<int>> groups(1);
    for (int j = 0; j < program.columns(); ++j) {
      if (below(random, 2) == 0) groups.emplace_back();
      groups.back().push_back(j);
    }
    if (groups.front().empty()) groups.erase(groups.begin());
    const unsigned used = used_below(program, cutoff);
    const std::vector<bool> out = probe(program, linear, groups, cutoff, 100, {});
    for (int j = 0; j < program.columns(); ++j) {
      if (!out[at(j)]) continue;
      ASSERT_FALSE(is_one_of(j, used)) << "round " << round << ", column " << j;
      ++ruled_out;
      beyond_reduced_costs += bound.bound + bound.penalties[at(j)] < cutoff ? 1 : 0;
    }
  }
  EXPECT_GT(ruled_out, test::fewer(2'000));
  EXPECT_GT(beyond_reduced_costs, test::fewer(400));
}

/// Schedules at random that cost less than the cutoff do nothing that is banned.
void check_bans(std::mt19937& random, const Instance& instance, const ProofUpdate& update) {
  constexpr int kPlans = 60;
  for (int attempt = 0; attempt < kPlans; ++attempt) {
    RecomputePlan plan;
    for (Stage k{1}; k < stages_of(instance); ++k) {
      for (int v = 0; v < k; ++v) {
        if (below(random, 4) == 0) plan.push_back({k, OpId(v)});
      }
    }
    const Solution solution = make_solution(instance, within_limits(instance, plan));
    if (solution.peak > instance.budget() || solution.extra >= update.bans_below) continue;
    for (const Recompute& recompute : solution.plan()) {
      for (const cp::StageBan& ban : update.bans) {
        ASSERT_FALSE(ban.op == recompute.op && ban.first <= recompute.stage && recompute.stage <= ban.last);
      }
    }
  }
}

void check_proof(std::mt19937& random, const Instance& instance, const std::optional<Duration>& truth) {
  PeriodProof proof(instance);
  const Duration optimum = truth ? *truth - instance.baseline_duration() : Duration(0);
  // Without a cutoff, with one that leaves room, and with one that leaves none.
  Duration cutoff = Duration::max();
  if (truth && below(random, 3) > 0) cutoff = optimum + Duration(below(random, 6));
  // Now and then integer programs outlive their limits at once.
  const double seconds = below(random, 4) == 0 ? 1e-6 : 1e9;
  // Cheaper schedules first, however few choices there are.
  const int few_choices = below(random, 2) == 0 ? 0 : 1'000;
  std::optional<Duration> found;
  constexpr int kMaxSteps = 200;
  for (int step = 0; step < kMaxSteps; ++step) {
    const ProofUpdate update = proof.step({.cutoff = cutoff, .seconds = seconds, .few_choices = few_choices});
    ASSERT_FALSE(update.infeasible && truth);
    if (update.infeasible) return;
    if (truth) {
      ASSERT_LE(update.exact_bound, optimum);
      ASSERT_LE(update.bound, optimum);
      check_bans(random, instance, update);
    }
    if (update.plan) {
      const Solution solution = make_solution(instance, within_limits(instance, *update.plan));
      if (solution.peak <= instance.budget() && solution.extra < cutoff) {
        ASSERT_TRUE(truth.has_value());
        ASSERT_GE(solution.extra, optimum);
        found = cutoff = solution.extra;
      }
    }
    if (!update.finished) continue;
    if (!truth) return;
    ASSERT_EQ(update.bound, optimum);
    ASSERT_TRUE(found == optimum || cutoff == optimum);
    return;
  }
  FAIL() << "not finished";
}

TEST(PeriodProof, EndsWithTheOptimumOfRandomGraphs) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(62);
  for (int round = 0; round < test::fewer(24'000) && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto instance = random_instance(random, 6);
    if (instance) check_proof(random, *instance, test::optimum(*instance));
  }
}

TEST(PeriodProof, GivesAPlanOfTheIntegerProgramThatBreaksToBeRepaired) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(64);
  int broken = 0;
  for (int round = 0; round < 200; ++round) {
    const auto instance = random_instance(random, 7);
    if (!instance) continue;
    PeriodProof proof(*instance);
    constexpr int kSteps = 20;
    bool finished = false;
    for (int step = 0; step < kSteps && !finished; ++step) {
      const ProofUpdate update = proof.step({});
      finished = update.finished;
      if (!update.plan || make_solution(*instance, *update.plan).peak <= instance->budget()) continue;
      ++broken;
      ASSERT_TRUE(update.rounded.has_value());
      EXPECT_EQ(update.rounded->plans.front(), *update.plan);
    }
  }
  EXPECT_GT(broken, 10);
}

TEST(PeriodProof, ThatIsInterruptedAnywhereClaimsNothingWrong) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(63);
  for (int round = 0; round < test::fewer(400); ++round) {
    const auto instance = random_instance(random, 6);
    if (!instance) continue;
    const auto truth = test::optimum(*instance);
    for (const int k : {1, 2, 5, 12, 30, 70, 150}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", question " + std::to_string(k));
      PeriodProof proof(*instance);
      int asked = 0;
      ProofUpdate update;
      while (!update.finished && asked < k) {
        update = proof.step({.interrupted = [&] { return ++asked >= k; }});
        ASSERT_FALSE(update.infeasible && truth);
        if (truth) {
          ASSERT_LE(instance->baseline_duration() + update.bound, *truth);
        }
      }
    }
  }
}

TEST(Prover, MayBeToldTwiceToBegin) {
  // ThreadSanitizer sees whether the second time touches what is the thread's.
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const auto instance = random_instance(random, 8);
    if (!instance) continue;
    const auto best = test::optimum(*instance);
    const Deadline deadline(5, nullptr);
    PeriodProof proof(*instance);
    Prover prover([&proof](const ProofLimits& limits) { return proof.step(limits); });
    prover.start(deadline);
    prover.start(deadline);
    prover.stop();
    for (const ProofUpdate& update : prover.take()) {
      if (!best) continue;
      EXPECT_LE(instance->baseline_duration() + update.bound, *best);
      EXPECT_FALSE(update.infeasible);
    }
  }
}

TEST(PeriodBound, SaysMoreThanTheCoveringRelaxationOfATrainingChain) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const Instance unlimited(test::training_chain(20), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 6 / 10));
  PeriodProof proof(instance);
  // The linear program, and the integer one.
  EXPECT_GT(proof.step({}).exact_bound, Duration(0));
  const ProofUpdate update = proof.step({});
  EXPECT_GE(update.bound, solve_cover_mip(covering_relaxation(instance), {}).bound);
}

}  // namespace
}  // namespace remora
