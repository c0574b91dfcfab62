// SPDX-License-Identifier: Apache-2.0
//
// A Program (program.hpp) as Clp, CBC and HiGHS take it. Only for builds with CBC, and only for this folder's .cpp files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/bound/cbc.hpp"
#include "engine/bound/periods/program.hpp"

namespace remora {

/// Rows as the solvers take them; what they would leave out is as if its columns were 1 where that helps.
struct Rows {
  std::vector<CoinBigIndex> begins{0};
  std::vector<int> columns{};
  std::vector<double> factors{};
  std::vector<double> least{};

  /// `loosening`: what rows that are scaled ask less.
  Rows(std::span<const ProgramRow> rows, double loosening);
};

/// Costs in units and the highest values of all columns, as the solvers take them.
struct Columns {
  std::vector<double> costs{};
  std::vector<double> highest{};

  Columns(const Program& program, std::int64_t unit);
};

void load(const Program& program, std::int64_t unit, double loosening, OsiClpSolverInterface& solver);

/// A program's linear relaxation in Clp, in silence, which ends when the caller asks for it. What it does is counted
/// (counted_seconds.hpp).
class WatchedSimplex {
 public:
  WatchedSimplex(const Program& program, std::int64_t unit, std::function<bool()> interrupted);

  /// The program comes next, from the beginning, unless this says false: the caller has ended it.
  [[nodiscard]] bool begins_whole() const;
  /// The dual simplex method comes next from a basis, after some change.
  void count_next() const;
  /// Clp itself: what Osi does beside takes twice as long.
  [[nodiscard]] ClpSimplex& simplex() const { return *solver_.getModelPtr(); }
  [[nodiscard]] const Stopper& stopper() const { return stopper_; }

 private:
  OsiClpSolverInterface solver_;
  Stopper stopper_;
};

/// The dual simplex method comes next, from a basis, once or often: its iterations count (counted_seconds.hpp).
void count_steps(const ClpSimplex& simplex, const Stopper& stopper);

/// Conversion of Clp's duals of the scaled rows to cost per unit of the rows.
std::vector<double> prices_of(std::span<const double> duals, const Program& program, std::int64_t unit);

}  // namespace remora
