// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/period_solver.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#ifdef REMORA_HAVE_CBC
#include <ClpEventHandler.hpp>

#include "engine/bound/highs.hpp"
#include "engine/bound/periods/clp_program.hpp"
// Behind CBC's first header.
#include <CbcCompareObjective.hpp>
#endif

namespace remora {
#ifndef REMORA_HAVE_CBC

LinearAnswer solve_linear(Program&, const Interrupted&) {
  return {};
}

IntegerAnswer solve_integer(const Program&, const IntegerLimits&) {
  return {};
}

std::vector<double> dive(const Program&, std::span<const std::vector<int>>, const Interrupted&) {
  return {};
}

#else

namespace {

constexpr double kLoosening = 1e-6;
/// Costs are whole: a solution below the cutoff costs 1 less.
constexpr double kBelowCutoff = 1e-2;

/// Programs of training graphs have fewer rows for each column that costs than this (some 4; of dense graphs 12 and more), since
/// there are fewer edges an op. Those with very many rows the primal simplex solves in a third of the dual's time (6,346 ops of
/// GPT-2, 81,239 rows: 1.3 s and 4.4 s); smaller ones, and those of dense graphs, the dual in as much or less (two devices, 16,861
/// rows: 0.2 s and 0.9 s; 1,000 ops of a dense graph: a hundredth).
constexpr int kRowsOfDense = 8;
constexpr int kManyRows = 40'000;

/// Rounding goes on where it has raised the optimum by so many units of the costs.
constexpr double kMinRise = 1e-3;
/// A dive takes so much for whole.
constexpr double kWholeInDive = 1e-5;

/// Reads the simplex method's answer; unknown if it was stopped.
LinearAnswer answer_of(const ClpSimplex& simplex, const Program& program, std::int64_t unit, const Stopper& stopper) {
  LinearAnswer answer;
  if (stopper.has_stopped()) return answer;
  std::span<const double> duals;
  std::unique_ptr<double[]> ray;
  if (simplex.isProvenOptimal()) {
    answer.outcome = LinearAnswer::Outcome::optimal;
    answer.solution.assign(simplex.primalColumnSolution(), simplex.primalColumnSolution() + program.columns());
    duals = {simplex.dualRowSolution(), program.rows.size()};
  } else if (simplex.isProvenPrimalInfeasible()) {
    answer.outcome = LinearAnswer::Outcome::no_solution;
    ray.reset(simplex.infeasibilityRay());
    // Clp's rays point the other way.
    if (ray) std::transform(ray.get(), ray.get() + program.rows.size(), ray.get(), std::negate<>());
    if (ray) duals = {ray.get(), program.rows.size()};
  }
  answer.prices = prices_of(duals, program, unit);
  answer.basis.assign(simplex.statusArray(), simplex.statusArray() + program.costs.size() + program.rows.size());
  return answer;
}

/// Drops the rows from `first` on that the answer does not price: they do not bind there.
void drop_unpriced(Program& program, std::size_t first, LinearAnswer& answer) {
  std::size_t kept = first;
  for (std::size_t r = first; r < program.rows.size(); ++r) {
    if (!(answer.prices[r] > 0)) continue;
    std::swap(program.rows[kept], program.rows[r]);
    answer.basis[program.costs.size() + kept] = answer.basis[program.costs.size() + r];
    answer.prices[kept++] = answer.prices[r];
  }
  program.rows.resize(kept);
  answer.prices.resize(std::min(kept, answer.prices.size()));
  answer.basis.resize(std::min(program.costs.size() + kept, answer.basis.size()));
}

/// Which columns go before others.
void prefer(CbcModel& model, const std::vector<int>& first) {
  constexpr int kOthers = 2;
  std::vector<int> ranks(at(model.getNumCols()), kOthers);
  for (const int j : first) ranks[at(j)] = 1;
  model.setLogLevel(0);
  // Every column is an integer one.
  model.findIntegers(false);
  model.passInPriorities(ranks.data(), false);
}

void branch(CbcModel& model, const IntegerLimits& limits, const Stopper& stopper, IntegerAnswer& answer,
            std::int64_t unit) {
  double bound = 0;
  if (limits.first.empty()) {
    add_cut_generators(model);
  } else {
    prefer(model, limits.first);
  }
  CbcCompareObjective by_bound;
  if (limits.by_bound) model.setNodeComparison(by_bound);
  branch_and_bound(model, stopper, kBelowCutoff, bound, limits.first.empty() ? kTrials : 0);
  const bool stopped = stopper.has_stopped();
  answer.complete = !stopped && (model.isProvenOptimal() || model.isProvenInfeasible());
  if (!stopped) bound = std::max(bound, model.getBestPossibleObjValue());
  answer.bound = safe_bound(std::min(bound, 1e15), unit);
  answer.nodes = model.getNodeCount();
}

/// Nothing if HiGHS lost a solution: then another solver is to be asked.
std::optional<IntegerAnswer> solve_by_highs(const Program& program, const IntegerLimits& limits, std::int64_t unit) {
  const Rows rows(program.rows, kLoosening);
  const Columns columns(program, unit);
  const bool has_cutoff = limits.cutoff != Duration::max();
  const double most =
      has_cutoff ? whole_units_up(limits.cutoff.count(), unit) - 1 : std::numeric_limits<double>::infinity();
  HighsAnswer found = run_highs({columns.costs, columns.highest, rows.begins, rows.columns, rows.factors, rows.least},
                                most, limits.interrupted, limits.stopped);
  if (found.is_lost) return {};
  IntegerAnswer answer{.complete = found.complete, .solution = std::move(found.solution), .nodes = found.nodes};
  answer.bound = safe_bound(std::min(found.bound, 1e15), unit);
  if (answer.complete && answer.solution.empty() && has_cutoff) answer.bound = limits.cutoff;
  return answer;
}

}  // namespace

LinearAnswer solve_linear(Program& program, const Interrupted& interrupted) {
  if (program.costs.empty()) return {};
  const std::int64_t unit = common_unit(program.costs);
  const WatchedSimplex watched(program, unit, interrupted);
  const Stopper& stopper = watched.stopper();
  ClpSimplex& simplex = watched.simplex();
  ClpSolve options;
  leave_signals_alone(options);
  const int rows = simplex.numberRows();
  const auto costly = std::count_if(program.costs.begin(), program.costs.end(), [](std::int64_t c) { return c > 0; });
  const bool is_sparse = rows < kRowsOfDense * costly;
  options.setSolveType(is_sparse && rows > kManyRows ? ClpSolve::usePrimal : ClpSolve::useDual);
  if (!watched.begins_whole()) return {};
  simplex.initialSolve(options);
  LinearAnswer answer = answer_of(simplex, program, unit, stopper);
  const std::size_t own = program.rows.size();
  const int most_steps = 2 * simplex.numberIterations();
  double reached = -1;
  for (int steps = simplex.numberIterations(); answer.outcome == LinearAnswer::Outcome::optimal;) {
    if (simplex.objectiveValue() < reached + kMinRise || steps > most_steps) break;
    reached = simplex.objectiveValue();
    std::vector<ProgramRow> found = rounded_rows(program, own, answer.solution);
    for (ProgramRow& row : violated_rows(program, answer.solution)) found.push_back(std::move(row));
    if (found.empty()) break;
    const Rows more(found, 0);
    simplex.addRows(static_cast<int>(found.size()), more.least.data(), nullptr, more.begins.data(), more.columns.data(),
                    more.factors.data());
    program.rows.insert(program.rows.end(), found.begin(), found.end());
    watched.count_next();
    simplex.dual();
    steps += simplex.numberIterations();
    LinearAnswer next = answer_of(simplex, program, unit, stopper);
    if (next.prices.empty()) {
      // The result without these rows stands.
      program.rows.resize(program.rows.size() - found.size());
      break;
    }
    answer = std::move(next);
  }
  drop_unpriced(program, own, answer);
  return answer;
}

std::vector<double> dive(const Program& program, std::span<const std::vector<int>> groups,
                         const Interrupted& interrupted) {
  if (program.costs.empty()) return {};
  const WatchedSimplex watched(program, common_unit(program.costs), interrupted);
  const Stopper& stopper = watched.stopper();
  ClpSimplex& simplex = watched.simplex();
  ClpSolve options;
  leave_signals_alone(options);
  options.setSolveType(ClpSolve::useDual);
  if (!watched.begins_whole()) return {};
  simplex.initialSolve(options);
  const auto solved = [&] { return !stopper.has_stopped() && simplex.isProvenOptimal(); };
  if (!solved()) return {};
  for (const std::vector<int>& group : groups) {
    for (;;) {
      int largest = -1;
      for (const int j : group) {
        const double value = simplex.primalColumnSolution()[j];
        if (simplex.columnLower()[j] > 0 || value < kWholeInDive) continue;
        if (value > 1 - kWholeInDive) {
          simplex.setColumnLower(j, 1);
        } else if (largest < 0 || value > simplex.primalColumnSolution()[largest]) {
          largest = j;
        }
      }
      if (largest < 0) break;
      simplex.setColumnLower(largest, 1);
      watched.count_next();
      simplex.dual();
      if (solved()) continue;
      if (stopper.has_stopped()) return {};
      simplex.setColumnLower(largest, 0);
      simplex.setColumnUpper(largest, 0);
      watched.count_next();
      simplex.dual();
      if (!solved()) return {};
    }
  }
  return {simplex.primalColumnSolution(), simplex.primalColumnSolution() + program.columns()};
}

IntegerAnswer solve_integer(const Program& program, const IntegerLimits& limits) {
  IntegerAnswer answer;
  if (program.costs.empty() || program.rows.empty()) return answer;
  const std::int64_t unit = common_unit(program.costs);
  if (limits.by_highs && !find_highs().name.empty()) {
    if (std::optional<IntegerAnswer> found = solve_by_highs(program, limits, unit)) return *std::move(found);
  }
  OsiClpSolverInterface solver;
  load(program, unit, kLoosening, solver);
  // Also columns that follow from others: CBC's cuts need it.
  for (int j = 0; j < program.columns(); ++j) solver.setInteger(j);
  const Stopper stopper(limits.interrupted);
  const bool has_cutoff = limits.cutoff != Duration::max();
  const double cutoff = has_cutoff ? whole_units_up(limits.cutoff.count(), unit) : 0;
  // A linear program that ends at the cutoff has said enough.
  stopper.watch(solver);
  count_steps(*solver.getModelPtr(), stopper);
  solver.initialSolve();
  if (stopper.reached()) return answer;
  const ClpEventHandler none;
  solver.getModelPtr()->passInEventHandler(&none);
  // Without CglPreProcess: of 24,000 random programs it lost the optimum of two, or gave what violates rows.
  CbcModel model(solver);
  if (has_cutoff) model.setCutoff(cutoff - kBelowCutoff);
  model.setMaximumNodes(static_cast<int>(std::min<std::int64_t>(limits.nodes, 1 << 30)));
  branch(model, limits, stopper, answer, unit);
  if (model.bestSolution() != nullptr) {
    answer.solution.assign(model.bestSolution(), model.bestSolution() + model.getNumCols());
  }
  if (answer.complete && answer.solution.empty() && has_cutoff) answer.bound = limits.cutoff;
  return answer;
}

#endif

}  // namespace remora
