// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/checkmate/mip.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#ifdef REMORA_HAVE_CBC
#include <CbcHeuristic.hpp>
#include <CbcHeuristicDiveCoefficient.hpp>
#include <CbcHeuristicFPump.hpp>
#include <CbcHeuristicRINS.hpp>

#include "engine/bound/cbc.hpp"
#endif

namespace remora::checkmate {

#ifndef REMORA_HAVE_CBC

MipSolution solve_mip(const Program&, const MipLimits&) {
  return {};
}

Relaxation solve_relaxation(const Program&, const Deadline&) {
  return {};
}

#else

namespace {

/// Fills the solver, silent and without a hand on signals. Costs are in multiples of `unit`.
void load(const Program& program, std::int64_t unit, OsiClpSolverInterface& solver) {
  prepare(solver);
  const Rows& rows = program.rows;
  const std::vector<CoinBigIndex> begins(rows.begins.begin(), rows.begins.end());
  const CoinPackedMatrix matrix(false, static_cast<int>(program.costs.size()), static_cast<int>(rows.least.size()),
                                begins.back(), rows.factors.data(), rows.columns.data(), begins.data(), nullptr);
  const std::vector<double> zeros(program.costs.size(), 0.0);
  std::vector<double> costs(program.costs.size());
  std::transform(program.costs.begin(), program.costs.end(), costs.begin(),
                 [&](std::int64_t cost) { return whole_units(cost, unit); });
  solver.loadProblem(matrix, zeros.data(), program.most.data(), costs.data(), rows.least.data(), rows.most.data());
  solver.setInteger(program.integers.data(), static_cast<int>(program.integers.size()));
}

/// The bound that the prices of a program's rows prove: no solution of the linear program costs less, in multiples of
/// `unit`. For each price, sum over rows of price * side + sum over columns of the minimum of reduced cost * value
/// (weak duality), so that it holds whatever the tolerances of the solver, up to rounding.
double priced_bound(const Program& program, std::int64_t unit, std::span<const double> prices) {
  const Rows& rows = program.rows;
  std::vector<long double> reduced(program.costs.size());
  for (std::size_t j = 0; j < reduced.size(); ++j) reduced[j] = whole_units(program.costs[j], unit);
  long double bound = 0;
  for (std::size_t row = 0; row < rows.least.size(); ++row) {
    const double side = prices[row] > 0 ? rows.least[row] : rows.most[row];
    // A price of the wrong sign is the solver's rounding.
    if (prices[row] == 0 || !std::isfinite(side)) continue;
    bound += static_cast<long double>(prices[row]) * side;
    for (int k = rows.begins[row]; k < rows.begins[row + 1]; ++k) {
      const auto entry = static_cast<std::size_t>(k);
      reduced[static_cast<std::size_t>(rows.columns[entry])] -=
          static_cast<long double>(prices[row]) * rows.factors[entry];
    }
  }
  for (std::size_t j = 0; j < reduced.size(); ++j) {
    if (reduced[j] < 0) bound += reduced[j] * program.most[j];
  }
  return static_cast<double>(bound);
}

constexpr int kFeasibilityPumpPasses = 20;
/// Costs are whole: a better solution is better by 1.
constexpr double kCutoffIncrement = 1.0 - 1e-3;

void add_heuristics(CbcModel& model) {
  CbcRounding rounding(model);
  CbcHeuristicFPump pump(model);
  pump.setMaximumPasses(kFeasibilityPumpPasses);
  CbcHeuristicDiveCoefficient dive(model);
  CbcHeuristicRINS neighbourhood(model);
  model.addHeuristic(&rounding, "rounding");
  model.addHeuristic(&pump, "feasibility pump");
  model.addHeuristic(&dive, "diving");
  model.addHeuristic(&neighbourhood, "RINS");
}

class Mip {
 public:
  Mip(const Program& program, const MipLimits& limits)
      : program_(program),
        limits_(limits),
        stopper_([&limits] { return limits.deadline.reached(); }),
        unit_(common_unit(program.costs)) {}

  MipSolution run() {
    OsiClpSolverInterface solver;
    load(program_, unit_, solver);
    stopper_.watch(solver);
    if (solve_relaxation(solver)) branch_and_cut(solver);
    return std::move(result_);
  }

 private:
  bool solve_relaxation(OsiClpSolverInterface& solver) {
    solver.initialSolve();
    if (stopper_.has_stopped()) return false;
    result_.infeasible = solver.isProvenPrimalInfeasible();
    if (!solver.isProvenOptimal()) return false;
    const std::span<const double> prices(solver.getRowPrice(), static_cast<std::size_t>(solver.getNumRows()));
    result_.bound = safe_bound(priced_bound(program_, unit_, prices), unit_);
    return true;
  }

  void branch_and_cut(const OsiClpSolverInterface& solver) {
    CbcModel model(solver);
    model.setLogLevel(0);
    model.solver()->messageHandler()->setLogLevel(0);
    model.setUseElapsedTime(true);
    model.setMaximumSeconds(limits_.seconds);
    model.setMaximumNodes(static_cast<int>(std::min<std::int64_t>(limits_.nodes, 1 << 30)));
    model.setCutoffIncrement(kCutoffIncrement);
    model.setAllowableGap(0);
    model.setAllowableFractionGap(limits_.gap);
    add_cut_generators(model);
    add_heuristics(model);
    double units = 0;
    Watcher watcher(model, stopper_, units);
    model.passInEventHandler(&watcher);
    model.initialSolve();
    model.branchAndBound();
    // CBC's own limit ends it no earlier than the deadline; what it says then is as little worth.
    if (!stopper_.reached()) read_end(model, units);
    result_.bound = std::max(result_.bound, safe_bound(units, unit_));
    result_.nodes = model.getNodeCount();
    if (const double* best = model.bestSolution()) result_.values.assign(best, best + model.getNumCols());
  }

  /// CBC's final result, if none of its linear programs was cut short.
  void read_end(const CbcModel& model, double& units) {
    result_.infeasible = model.isProvenInfeasible();
    const double value = model.getBestPossibleObjValue();
    if (says_something(model, value)) units = std::max(units, value);
  }

  const Program& program_;
  const MipLimits& limits_;
  Stopper stopper_;
  std::int64_t unit_;
  MipSolution result_;
};

/// The dual simplex: on these programs some twenty times as fast as the primal one or the barrier.
ClpSolve dual_simplex() {
  constexpr int kInterruptHandling = 2;
  constexpr int kOff = 1;
  ClpSolve options;
  options.setSpecialOption(kInterruptHandling, kOff);
  options.setSolveType(ClpSolve::useDual);
  // CoinUtils leaks memory in this step of its presolve.
  options.setDoImpliedFree(false);
  return options;
}

}  // namespace

MipSolution solve_mip(const Program& program, const MipLimits& limits) {
  return Mip(program, limits).run();
}

Relaxation solve_relaxation(const Program& program, const Deadline& deadline) {
  const std::int64_t unit = common_unit(program.costs);
  OsiClpSolverInterface solver;
  load(program, unit, solver);
  const Stopper stopper([&deadline] { return deadline.reached(); });
  stopper.watch(solver);
  ClpSimplex& simplex = *solver.getModelPtr();
  simplex.setLogLevel(0);
  ClpSolve options = dual_simplex();
  simplex.initialSolve(options);
  Relaxation result;
  result.iterations = simplex.numberIterations();
  if (stopper.has_stopped()) return result;
  result.infeasible = simplex.isProvenPrimalInfeasible();
  if (!simplex.isProvenOptimal()) return result;
  result.values.assign(simplex.primalColumnSolution(), simplex.primalColumnSolution() + simplex.numberColumns());
  const std::span<const double> prices(simplex.dualRowSolution(), static_cast<std::size_t>(simplex.numberRows()));
  result.bound = safe_bound(priced_bound(program, unit, prices), unit);
  return result;
}

#endif

}  // namespace remora::checkmate
