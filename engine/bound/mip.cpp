// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/mip.hpp"

#include <algorithm>
#include <numeric>

#ifdef REMORA_HAVE_CBC
#include <CglPreProcess.hpp>

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
  CoinPackedMatrix rows(false, 0, 0);
  rows.setDimensions(0, static_cast<int>(program.costs.size()));
  for (const MipRow& row : program.rows) {
    rows.appendRow(static_cast<int>(row.columns.size()), row.columns.data(), row.factors.data());
  }
  std::vector<double> costs;
  for (const std::int64_t cost : program.costs) costs.push_back(whole_units(cost, unit));
  std::vector<double> least;
  for (const MipRow& row : program.rows) least.push_back(row.least);
  const std::vector<double> zeros(costs.size(), 0.0);
  const std::vector<double> ones(costs.size(), 1.0);
  const std::vector<double> no_limit(least.size(), solver.getInfinity());
  solver.loadProblem(rows, zeros.data(), ones.data(), costs.data(), least.data(), no_limit.data());
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
  // Its linear programs are left to end: CglPreProcess does not stand one that was stopped.
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
