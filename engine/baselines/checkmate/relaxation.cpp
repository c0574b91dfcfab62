// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/checkmate/relaxation.hpp"

#ifdef REMORA_HAVE_CBC
#include "engine/baselines/checkmate/solver.hpp"
#endif

namespace remora::checkmate {

#ifndef REMORA_HAVE_CBC

Relaxation solve_relaxation(const Program&, const Deadline&) {
  return {};
}

#else

namespace {

/// The dual simplex: on these programs some twenty times as fast as the primal one or the barrier (docs/strategies.md).
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
