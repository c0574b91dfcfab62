// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/bound/periods/period_solver.hpp"
#include "model/evaluate.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

struct Bounds {
  int cases = 0;
  int positive = 0;
  int infeasible = 0;
  /// Cases in which CBC's bound is the optimum, of those with an optimum above the baseline.
  int tight = 0;
};

/// What a certificate lists adds up to what it requires, and that exceeds the budget: checked without the bound's code.
void check_certificate(const Instance& instance, const Certificate& certificate) {
  // What an output takes over may have to be counted, too.
  Bytes sum = instance.base_memory() + instance.workspace(certificate.op);
  const Bytes most = sum + instance.workspace(certificate.op, 0) - instance.workspace(certificate.op);
  std::set<int> seen;
  for (const TensorId t : certificate.tensors) {
    ASSERT_TRUE(seen.insert(t).second);
    sum += instance.size(t);
  }
  ASSERT_GE(certificate.required, sum);
  ASSERT_LE(certificate.required - sum, most - instance.base_memory() - instance.workspace(certificate.op));
  ASSERT_GT(certificate.required, instance.budget());
  for (const TensorId t : instance.inputs(certificate.op)) ASSERT_TRUE(seen.contains(t));
  for (const TensorId t : instance.outputs(certificate.op)) ASSERT_TRUE(seen.contains(t));
  // It holds however often ops run that may run again.
  Problem more = instance.problem();
  if (more.max_computes++ != 2) return;
  more.budget = certificate.required - Bytes(1);
  ASSERT_FALSE(test::optimum(Instance(instance.shared_graph(), more)).has_value());
}

void check_ascent(const Instance& instance, const CoverProblem& problem, const std::optional<Duration>& truth) {
  const auto bound = covering_bound(problem);
  if (bound.infeasible) {
    ASSERT_FALSE(truth.has_value());
    if (bound.event.valid() && instance.problem().order == OrderMode::input) {
      check_certificate(instance, cover_certificate(instance, problem, bound.event));
    }
  } else if (truth) {
    ASSERT_LE(instance.baseline_duration() + bound.extra, *truth);
  }
  // Interrupted it says less, and nothing else.
  int left = 2;
  const auto cut = covering_bound(problem, [&left] { return left-- == 0; });
  ASSERT_TRUE(bound.infeasible || !cut.infeasible);
  ASSERT_TRUE(bound.infeasible || cut.extra <= bound.extra);
}

void check_mip(const Instance& instance, const CoverProblem& problem, const std::optional<Duration>& truth,
               Bounds& tally) {
  if (!cover_mip_available()) return;
  const auto mip = solve_cover_mip(problem, {});
  if (mip.infeasible) {
    ++tally.infeasible;
    ASSERT_FALSE(truth.has_value());
    return;
  }
  if (!truth) return;
  ASSERT_LE(instance.baseline_duration() + mip.priced.bound, *truth);
  ASSERT_LE(instance.baseline_duration() + mip.bound, *truth);
  if (mip.bound > Duration(0)) ++tally.positive;
  if (*truth > instance.baseline_duration() && instance.baseline_duration() + mip.bound == *truth) ++tally.tight;
}

void check_footprint(const Instance& instance, const std::optional<Duration>& truth) {
  if (const auto certificate = footprint_certificate(instance)) {
    ASSERT_FALSE(truth.has_value());
    ASSERT_GT(certificate->required, instance.budget());
  }
  if (instance.budget() < least_budget(instance)) {
    ASSERT_FALSE(truth.has_value());
  }
}

Bounds check_bounds(unsigned seed, int rounds, OrderMode order, const test::RandomGraphOptions& kind, int computes) {
  std::mt19937 random(seed);
  Bounds tally;
  for (int round = 0; round < test::fewer(rounds) && !testing::Test::HasFatalFailure(); ++round) {
    const auto graph = test::random_graph(random, kind);
    const int max_computes = 1 + static_cast<int>(random() % static_cast<unsigned>(computes));
    const Instance unlimited(graph, {.max_computes = max_computes, .order = order});
    const Bytes least = std::max(unlimited.base_memory(), least_budget(unlimited) - Bytes(2));
    for (Bytes budget = least; budget <= baseline_peak(unlimited); budget += Bytes(1)) {
      const Instance instance = unlimited.with_budget(budget);
      const auto truth = test::optimum(instance);
      SCOPED_TRACE("round " + std::to_string(round) + ", budget " + std::to_string(budget.count()));
      ++tally.cases;
      const auto problem = covering_relaxation(instance);
      check_ascent(instance, problem, truth);
      check_mip(instance, problem, truth, tally);
      if (order == OrderMode::input && max_computes > 1) {
        Bounds ignored;
        check_mip(instance, covering_relaxation(instance, false), truth, ignored);
      }
      check_footprint(instance, truth);
    }
  }
  return tally;
}

TEST(CoveringBound, IsNeverAboveTheOptimumOfTheStagedForm) {
  const auto tally = check_bounds(31, 3600, OrderMode::input, {}, 3);
  EXPECT_GT(tally.cases, test::fewer(15'000));
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(2000));
  EXPECT_GT(tally.infeasible, test::fewer(50));
  EXPECT_GT(tally.tight, test::fewer(1000));
}

TEST(CoveringBound, IsNeverAboveTheOptimumOfTheFreeOrder) {
  const auto tally = check_bounds(32, 1200, OrderMode::free, {.least_ops = 3, .most_ops = 5}, 2);
  EXPECT_GT(tally.cases, test::fewer(5000));
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(20));
}

TEST(CoveringBound, IsNeverAboveTheOptimumWhereStorageIsTakenOver) {
  const auto tally = check_bounds(34, 1600, OrderMode::input, {.in_place = true}, 3);
  EXPECT_GT(tally.cases, test::fewer(5000));
  check_bounds(35, 600, OrderMode::free, {.least_ops = 3, .most_ops = 5, .in_place = true}, 2);
  if (!cover_mip_available()) return;
  EXPECT_GT(tally.positive, test::fewer(400));
}

/// Limits that end the work at the k-th question.
CoverMipLimits limits_of(int k, int& asked) {
  CoverMipLimits limits;
  limits.interrupted = [k, &asked] { return ++asked >= k; };
  return limits;
}

TEST(CoveringBound, OfAProgramThatIsInterruptedAnywhereIsNeverAboveTheOptimum) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(33);
  for (int round = 0; round < test::fewer(150); ++round) {
    const Instance unlimited(test::random_graph(random, {}), {});
    const Bytes budget((least_budget(unlimited).count() + baseline_peak(unlimited).count()) / 2);
    const Instance instance = unlimited.with_budget(budget);
    const auto truth = test::optimum(instance);
    const auto problem = covering_relaxation(instance);
    for (const int k : {1, 2, 5, 12, 30, 70, 150}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", question " + std::to_string(k));
      int asked = 0;
      const auto mip = solve_cover_mip(problem, limits_of(k, asked));
      ASSERT_FALSE(mip.infeasible && truth);
      if (!truth) continue;
      ASSERT_LE(instance.baseline_duration() + mip.bound, *truth);
    }
  }
}

TEST(CoveringBound, WithoutNodesIsTheLinearProgramAloneAndRefutesAsMuch) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  std::mt19937 random(36);
  int proved_infeasible = 0;
  for (int round = 0; round < test::fewer(600); ++round) {
    const Instance unlimited(test::random_graph(random, {}), {});
    const Bytes least = std::max(unlimited.base_memory(), least_budget(unlimited));
    for (const int more : {0, 1, 2, 4}) {
      const auto problem = covering_relaxation(unlimited.with_budget(least + Bytes(more)));
      const auto relaxed = solve_cover_mip(problem, {.nodes = 0});
      const auto whole = solve_cover_mip(problem, {});
      ASSERT_EQ(relaxed.infeasible, whole.infeasible) << "round " << round << ", " << more;
      ASSERT_EQ(relaxed.priced.bound, whole.priced.bound) << "round " << round << ", " << more;
      ASSERT_FALSE(relaxed.complete);
      ASSERT_LE(relaxed.bound, whole.bound);
      if (relaxed.infeasible) ++proved_infeasible;
    }
  }
  EXPECT_GT(proved_infeasible, 0);
}

TEST(CoveringBound, IsAskedToEndWithinTheFirstLinearProgram) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const Instance unlimited(test::training_chain(20), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 6 / 10));
  const auto problem = covering_relaxation(instance);
  int asked = 0;
  solve_cover_mip(problem, limits_of(2, asked));
  EXPECT_GE(asked, 2);
}

TEST(CoveringBound, IsPositiveOnATrainingChainThatMustRecompute) {
  const auto graph = test::training_chain(4);
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(baseline_peak(unlimited) - Bytes(1));
  const auto truth = test::optimum(instance);
  ASSERT_TRUE(truth.has_value());
  const auto bound = covering_bound(covering_relaxation(instance));
  // The fractional knapsack takes a quarter of one recompute, rounded up.
  EXPECT_GT(bound.extra, Duration(0));
  EXPECT_LE(instance.baseline_duration() + bound.extra, *truth);
}

TEST(FootprintCertificate, NamesTheOpItsTensorsAndTheBytes) {
  const Instance instance(test::figure_1(), {.budget = Bytes(2)});
  const auto certificate = footprint_certificate(instance);
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->op, OpId(3));
  EXPECT_EQ(certificate->required, Bytes(3));
  EXPECT_EQ(certificate->tensors.size(), 3U);
  EXPECT_FALSE(footprint_certificate(instance.with_budget(Bytes(3))).has_value());
}

TEST(FootprintCertificate, TensorsThatMustBeKeptTogetherAreNamed) {
  Graph graph;
  for (int i = 0; i < 4; ++i) {
    const TensorId t = graph.add_tensor("t" + std::to_string(i), Bytes(1), true);
    graph.add_op({.name = "op" + std::to_string(i), .duration = Duration(1), .outputs = {t}});
  }
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(3)});
  const auto certificate = footprint_certificate(instance);
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->required, Bytes(4));
  EXPECT_EQ(certificate->tensors.size(), 4U);
  EXPECT_EQ(least_budget(instance), Bytes(4));
}

TEST(SafeBound, RoundsUpToWholeUnitsButForWhatArithmeticMayHaveAdded) {
  EXPECT_EQ(safe_bound(2.5, 1), Duration(3));
  EXPECT_EQ(safe_bound(3 + 1e-4, 1), Duration(3));
  EXPECT_EQ(safe_bound(3.01, 1), Duration(4));
  EXPECT_EQ(safe_bound(-1e300, 5), Duration(0));
  std::mt19937 random(31);
  std::uniform_real_distribution<double> error(-1, 1);
  for (int round = 0; round < 100'000; ++round) {
    // The optimum is whole; what a solver says of it is off by a part in 10^9 or a thousandth at most.
    const auto optimum = static_cast<std::int64_t>(random() | std::uint64_t{random()} << 32U) >> (1U + random() % 63);
    if (optimum < 0) continue;
    const auto unit = static_cast<std::int64_t>(1 + random() % 1000);
    const auto exact = static_cast<double>(optimum);
    const double said = exact + error(random) * std::max(9e-4, exact * 9e-10);
    const Duration most(saturating_product(std::min(optimum, kSaturated), unit));
    ASSERT_LE(safe_bound(said, unit), most) << optimum << " said as " << said << ", unit " << unit;
    ASSERT_TRUE(exact > 1e5 || safe_bound(said, unit) == most) << optimum << " said as " << said << ", unit " << unit;
  }
}

TEST(SafeBound, OfWhatNoDurationCanBeIsNone) {
  const Duration most{kSaturated};
  EXPECT_EQ(safe_bound(1e18, 1'000'000), most);
  EXPECT_EQ(safe_bound(std::numeric_limits<double>::infinity(), 1), most);
  EXPECT_EQ(safe_bound(-std::numeric_limits<double>::infinity(), 1), Duration(0));
  EXPECT_EQ(safe_bound(std::numeric_limits<double>::quiet_NaN(), 1), Duration(0));
  EXPECT_EQ(safe_bound(1, INT64_MAX), most);
}

/// A linear program small enough to be solved in fractions.
class SmallProgram {
 public:
  explicit SmallProgram(std::mt19937& random) {
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
    const int columns = 1 + below(4);
    for (int j = 0; j < columns; ++j) program.add_column(below(12));
    for (int rows = 1 + below(4); rows > 0; --rows) {
      ProgramRow row;
      for (int j = 0; j < columns; ++j) {
        if (const int factor = below(13) - 4; factor != 0) row.terms.push_back({j, factor});
      }
      row.least = below(12) - 2;
      program.rows.push_back(row);
    }
    for (const ProgramRow& row : program.rows) {
      std::vector<Wide> factors(program.costs.size());
      for (const ProgramTerm& term : row.terms) factors[at(term.column)] = term.factor;
      limits_.push_back({factors, row.least});
    }
    for (std::size_t j = 0; j < program.costs.size(); ++j) {
      std::vector<Wide> unit(program.costs.size());
      unit[j] = 1;
      limits_.push_back({unit, 0});
      unit[j] = -1;
      limits_.push_back({unit, -1});
    }
  }

  /// The least cost in fractions, rounded up, by looking at every vertex; nothing if there is no solution.
  [[nodiscard]] std::optional<std::int64_t> least_cost() const {
    std::optional<std::int64_t> least;
    for (unsigned chosen = 0; chosen < 1U << limits_.size(); ++chosen) {
      if (std::popcount(chosen) != static_cast<int>(program.costs.size())) continue;
      if (const auto cost = cost_of_vertex(chosen)) least = std::min(least.value_or(*cost), *cost);
    }
    return least;
  }

  /// The least cost of whole columns.
  [[nodiscard]] std::optional<std::int64_t> least_whole_cost() const {
    std::optional<std::int64_t> least;
    for (unsigned ones = 0; ones < 1U << program.costs.size(); ++ones) {
      std::vector<Wide> point(program.costs.size());
      for (std::size_t j = 0; j < point.size(); ++j) point[j] = ones >> j & 1U;
      if (!holds(point, 1)) continue;
      const auto cost = static_cast<std::int64_t>(cost_of(point));
      least = std::min(least.value_or(cost), cost);
    }
    return least;
  }

  Program program;

 private:
  struct Limit {
    std::vector<Wide> factors;
    Wide least;
  };

  [[nodiscard]] Wide cost_of(const std::vector<Wide>& point) const {
    Wide cost = 0;
    for (std::size_t j = 0; j < point.size(); ++j) cost += point[j] * program.costs[j];
    return cost;
  }

  /// The point is in parts of `whole`, above 0.
  [[nodiscard]] bool holds(const std::vector<Wide>& point, Wide whole) const {
    return std::all_of(limits_.begin(), limits_.end(), [&](const Limit& limit) {
      Wide sum = 0;
      for (std::size_t j = 0; j < point.size(); ++j) sum += limit.factors[j] * point[j];
      return sum >= limit.least * whole;
    });
  }

  /// Where the chosen limits are met, by Cramer's rule; its cost, rounded up.
  [[nodiscard]] std::optional<std::int64_t> cost_of_vertex(unsigned chosen) const {
    std::vector<Limit> rows;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      if ((chosen >> i & 1U) != 0) rows.push_back(limits_[i]);
    }
    std::vector<std::vector<Wide>> matrix;
    for (const Limit& row : rows) matrix.push_back(row.factors);
    Wide whole = determinant(matrix);
    if (whole == 0) return std::nullopt;
    std::vector<Wide> point;
    for (std::size_t j = 0; j < rows.size(); ++j) {
      std::vector<std::vector<Wide>> replaced = matrix;
      for (std::size_t i = 0; i < rows.size(); ++i) replaced[i][j] = rows[i].least;
      point.push_back(whole < 0 ? -determinant(replaced) : determinant(replaced));
    }
    whole = whole < 0 ? -whole : whole;
    if (!holds(point, whole)) return std::nullopt;
    return static_cast<std::int64_t>((cost_of(point) + whole - 1) / whole);
  }

  [[nodiscard]] static Wide determinant(const std::vector<std::vector<Wide>>& matrix) {
    if (matrix.size() == 1) return matrix[0][0];
    Wide sum = 0;
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      std::vector<std::vector<Wide>> minor;
      for (std::size_t i = 1; i < matrix.size(); ++i) {
        minor.push_back(matrix[i]);
        minor.back().erase(minor.back().begin() + static_cast<std::ptrdiff_t>(j));
      }
      sum += (j % 2 == 0 ? 1 : -1) * matrix[0][j] * determinant(minor);
    }
    return sum;
  }

  std::vector<Limit> limits_;
};

TEST(SafeBound, OfALinearProgramIsBetweenItsOptimumInFractionsAndThatInWholeNumbers) {
  if (!cover_mip_available()) GTEST_SKIP() << "built without CBC";
  std::mt19937 random(32);
  int solved = 0;
  int reached = 0;
  for (int round = 0; round < test::fewer(1200); ++round) {
    SCOPED_TRACE("seed 32, round " + std::to_string(round));
    SmallProgram small(random);
    const std::optional<std::int64_t> fractional = small.least_cost();
    const std::optional<std::int64_t> whole = small.least_whole_cost();
    ASSERT_TRUE(fractional || !whole);
    Program program = small.program;
    const LinearAnswer answer = solve_linear(program, {});
    if (answer.outcome == LinearAnswer::Outcome::no_solution) {
      ASSERT_FALSE(whole);
      continue;
    }
    ASSERT_EQ(answer.outcome, LinearAnswer::Outcome::optimal);
    double value = 0;
    for (std::size_t j = 0; j < answer.solution.size(); ++j) {
      value += answer.solution[j] * static_cast<double>(program.costs[j]);
    }
    ++solved;
    ASSERT_TRUE(fractional);
    // An optimum that is less than the tolerance above a whole number is taken for that.
    ASSERT_GE(safe_bound(value, 1).count(), *fractional - 1);
    if (safe_bound(value, 1).count() >= *fractional) ++reached;
    ASSERT_LE(program_bound(program, answer.prices).bound.count(), whole.value_or(INT64_MAX));
    if (!whole) continue;
    ASSERT_LE(safe_bound(value, 1).count(), *whole);
    const IntegerAnswer integer = solve_integer(program, {});
    ASSERT_TRUE(integer.complete);
    ASSERT_EQ(integer.bound.count(), *whole);
  }
  EXPECT_GT(solved, test::fewer(1200) / 4);
  EXPECT_GT(reached, solved * 9 / 10);
}

}  // namespace
}  // namespace remora
