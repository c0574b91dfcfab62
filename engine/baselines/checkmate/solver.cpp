// SPDX-License-Identifier: Apache-2.0
#ifdef REMORA_HAVE_CBC

#include "engine/baselines/checkmate/solver.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace remora::checkmate {

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

}  // namespace remora::checkmate

#endif
