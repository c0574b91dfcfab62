// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/mip.hpp"

#include <algorithm>
#include <numeric>

#ifdef REMORA_HAVE_CBC
#include <CglPreProcess.hpp>
#include <ClpEventHandler.hpp>

#include "engine/bound/cbc.hpp"
#endif

namespace remora {

#ifndef REMORA_HAVE_CBC

MipBound solve_mip(const MipProgram&, const CoverMipLimits&) {
  return {};
}

#else

namespace {

constexpr int kPreprocessingPasses = 5;

void load(const MipProgram& program, std::int64_t unit, OsiClpSolverInterface& solver) {
  prepare(solver);
  // At once: a matrix that grows row by row is copied for each.
  std::vector<CoinBigIndex> begins{0};
  std::vector<int> columns;
  std::vector<double> factors;
  for (const MipRow& row : program.rows) {
    columns.insert(columns.end(), row.columns.begin(), row.columns.end());
    factors.insert(factors.end(), row.factors.begin(), row.factors.end());
    begins.push_back(static_cast<CoinBigIndex>(columns.size()));
  }
  const CoinPackedMatrix rows(false, static_cast<int>(program.costs.size()), static_cast<int>(program.rows.size()),
                              begins.back(), factors.data(), columns.data(), begins.data(), nullptr);
  std::vector<double> costs;
  for (const std::int64_t cost : program.costs) costs.push_back(whole_units(cost, unit));
  std::vector<double> least;
  for (const MipRow& row : program.rows) least.push_back(row.least);
  const std::vector<double> zeros(costs.size(), 0.0);
  const std::vector<double> ones(costs.size(), 1.0);
  const std::vector<double> no_limit(least.size(), solver.getInfinity());
  solver.loadProblem(rows, zeros.data(), ones.data(), costs.data(), least.data(), no_limit.data());
}

/// Whether the linear program, which CglPreProcess begins with, was solved to its end. That one itself does not stand to
/// be stopped; from here on it has little left to do.
bool solve_relaxation(OsiClpSolverInterface& solver, const CoverMipLimits& limits) {
  const Stopper stopper(limits.interrupted);
  stopper.watch(solver);
  solver.initialSolve();
  const ClpEventHandler none;
  solver.getModelPtr()->passInEventHandler(&none);
  return !stopper.has_stopped() && solver.isProvenOptimal();
}

}  // namespace

MipBound solve_mip(const MipProgram& program, const CoverMipLimits& limits) {
  const std::int64_t unit = common_unit(program.costs);
  OsiClpSolverInterface solver;
  load(program, unit, solver);
  // Probing and the like shrink the program before the search; the objective keeps its meaning.
  std::vector<int> columns(program.costs.size());
  std::iota(columns.begin(), columns.end(), 0);
  solver.setInteger(columns.data(), static_cast<int>(columns.size()));
  // Of an empty program CglPreProcess reads what is not there.
  const bool empty = program.costs.empty() || program.rows.empty();
  if (empty || (limits.interrupted && limits.interrupted())) return {};
  if (!solve_relaxation(solver, limits)) return {};
  CglPreProcess process;
  process.messageHandler()->setLogLevel(0);
  const OsiSolverInterface* smaller = process.preProcess(solver, false, kPreprocessingPasses);
  if (smaller == nullptr || (limits.interrupted && limits.interrupted())) return {};
  CbcModel model(*smaller);
  // Rounded up: a choice just below the ceiling must not be cut off.
  if (limits.ceiling != Duration::max()) model.setCutoff(whole_units_up(limits.ceiling.count(), unit));
  const CbcAnswer answer = run_cbc(model, limits, limits.seconds);
  // Infeasible by CBC's word is no proof in exact arithmetic: nothing is concluded.
  if (!answer.bound) return {};
  return {std::min(limits.ceiling, safe_bound(*answer.bound, unit)), answer.complete};
}

#endif

}  // namespace remora
