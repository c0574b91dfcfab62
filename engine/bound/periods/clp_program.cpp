// SPDX-License-Identifier: Apache-2.0
#ifdef REMORA_HAVE_CBC

#include "engine/bound/periods/clp_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "engine/bound/counted_seconds.hpp"

namespace remora {
namespace {

/// Nanoseconds of Clp, measured on a machine that was busy with other work, too. For each coefficient: to build and
/// presolve a program, or to go on from a basis after a change. Of an iteration for each row and column: presolve
/// leaves a part of a program, whose iterations take less.
constexpr std::int64_t kWholeProgram = 760;
constexpr std::int64_t kNextProgram = 270;
constexpr double kIterationOfPresolved = 1.7;
constexpr double kIterationOfNext = 22;
/// An iteration of the smallest program.
constexpr double kMinIteration = 15'000;

constexpr double kLargestFactor = 100;
/// Solvers leave smaller factors out.
constexpr double kMinFactor = 1e-8;

/// The factor by which a row is multiplied: 1 if its coefficients are 1.
double scale_of(const ProgramRow& row) {
  double largest = 0;
  for (const ProgramTerm& term : row.terms) largest = std::max(largest, std::abs(static_cast<double>(term.factor)));
  if (largest <= kLargestFactor) return 1;
  int exponent = 0;
  std::frexp(largest / kLargestFactor, &exponent);
  return std::ldexp(1, -exponent);
}

}  // namespace

Rows::Rows(std::span<const ProgramRow> rows, double loosening) {
  for (const ProgramRow& row : rows) {
    const double scale = scale_of(row);
    double left_out = 0;
    for (const ProgramTerm& term : row.terms) {
      const double factor = static_cast<double>(term.factor) * scale;
      if (std::abs(factor) < kMinFactor) {
        left_out += std::max(0.0, factor);
        continue;
      }
      columns.push_back(term.column);
      factors.push_back(factor);
    }
    begins.push_back(static_cast<CoinBigIndex>(columns.size()));
    least.push_back(static_cast<double>(row.least) * scale - left_out - (scale < 1 ? loosening : 0));
  }
}

Columns::Columns(const Program& program, std::int64_t unit) : highest(program.costs.size(), 1.0) {
  costs.reserve(program.costs.size());
  for (const std::int64_t cost : program.costs) costs.push_back(whole_units(cost, unit));
  for (std::size_t j = 0; j < highest.size(); ++j) {
    if (program.out[j]) highest[j] = 0;
  }
}

void load(const Program& program, std::int64_t unit, double loosening, OsiClpSolverInterface& solver) {
  prepare(solver);
  const Rows rows(program.rows, loosening);
  const Columns columns(program, unit);
  const CoinPackedMatrix matrix(false, program.columns(), static_cast<int>(program.rows.size()), rows.begins.back(),
                                rows.factors.data(), rows.columns.data(), rows.begins.data(), nullptr);
  const std::vector<double> zeros(columns.costs.size(), 0.0);
  const std::vector<double> no_limit(rows.least.size(), solver.getInfinity());
  solver.loadProblem(matrix, zeros.data(), columns.highest.data(), columns.costs.data(), rows.least.data(),
                     no_limit.data());
}

WatchedSimplex::WatchedSimplex(const Program& program, std::int64_t unit, std::function<bool()> interrupted)
    : stopper_(std::move(interrupted)) {
  load(program, unit, 0, solver_);
  stopper_.watch(solver_);
  simplex().setLogLevel(0);
}

bool WatchedSimplex::begins_whole() const {
  const ClpSimplex& clp = simplex();
  counted_nanoseconds() += kWholeProgram * clp.getNumElements();
  stopper_.count_iterations(kMinIteration + kIterationOfPresolved * (clp.numberRows() + clp.numberColumns()));
  return !stopper_.reached();
}

void WatchedSimplex::count_next() const {
  count_steps(simplex(), stopper_);
}

void count_steps(const ClpSimplex& simplex, const Stopper& stopper) {
  counted_nanoseconds() += kNextProgram * simplex.getNumElements();
  stopper.count_iterations(kMinIteration + kIterationOfNext * (simplex.numberRows() + simplex.numberColumns()));
}

std::vector<double> prices_of(std::span<const double> duals, const Program& program, std::int64_t unit) {
  std::vector<double> prices;
  for (std::size_t r = 0; r < duals.size(); ++r) {
    prices.push_back(duals[r] * scale_of(program.rows[r]) * static_cast<double>(unit));
  }
  return prices;
}

}  // namespace remora

#endif
