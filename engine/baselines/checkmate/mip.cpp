// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/checkmate/mip.hpp"

#include <algorithm>
#include <cmath>

#ifdef REMORA_HAVE_CBC
#include <CbcHeuristic.hpp>
#include <CbcHeuristicDiveCoefficient.hpp>
#include <CbcHeuristicFPump.hpp>
#include <CbcHeuristicRINS.hpp>

#include "engine/baselines/checkmate/solver.hpp"
#endif

namespace remora::checkmate {

#ifndef REMORA_HAVE_CBC

MipSolution solve_mip(const Program&, const MipLimits&) {
  return {};
}

#else

namespace {

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

  /// What CBC says in the end, where none of its linear programs was cut short.
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

}  // namespace

MipSolution solve_mip(const Program& program, const MipLimits& limits) {
  return Mip(program, limits).run();
}

#endif

}  // namespace remora::checkmate
