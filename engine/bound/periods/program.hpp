// SPDX-License-Identifier: Apache-2.0
//
// A linear program in whole numbers over columns between 0 and 1, and what prices prove about it in exact arithmetic.
//
//     minimise  sum of cost(j) x(j)   subject to, for each row r,   sum of factor(r, j) x(j) >= least(r)
//
// An integer solution has a 0 or a 1 in every column. Any price y(r) >= 0 a row proves that no solution costs less than
//
//     L(y) = sum of y(r) least(r)  +  for each column the least of  (cost(j) - sum of y(r) factor(r, j)) x  over its x
//
// (weak duality). An LP solver's dual values make that a good bound, and their rounding errors do no harm: they become
// whole multiples of a power of two here, and everything is summed in 128 bits. The same sums say what a solution with
// x(j) = 1 costs more at least: the reduced costs.
//
// That all columns are 0 or 1 says more than the rows do: rows of large factors, the memory's, are rounded (mixed-integer
// rounding; Marchand and Wolsey 2001), again in whole numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/types.hpp"

namespace remora {

struct ProgramTerm {
  int column = 0;
  std::int64_t factor = 0;
};

struct ProgramRow {
  std::vector<ProgramTerm> terms{};
  std::int64_t least = 0;
};

struct Program {
  /// By column.
  std::vector<std::int64_t> costs{};
  /// True if the column is 0 in every solution that is looked for.
  std::vector<bool> out{};
  std::vector<ProgramRow> rows{};
  /// Rows that follow from those where columns are 0 or 1: they are worth their place only where a solution violates them.
  std::vector<ProgramRow> more{};

  [[nodiscard]] int columns() const { return static_cast<int>(costs.size()); }
  int add_column(std::int64_t cost) {
    costs.push_back(cost);
    out.push_back(false);
    return columns() - 1;
  }
};

struct ProgramBound {
  /// No solution costs less.
  Duration bound{};
  /// By column: what a solution with 1 there costs more than `bound` at least.
  std::vector<Duration> penalties{};
};

/// `prices`: by row, in cost a unit of the row; negative ones count as 0. O(entries).
ProgramBound program_bound(const Program& program, std::span<const double> prices);

/// True if the prices prove that the program has no solution at all (Farkas): costs do not matter.
bool proves_no_solution(const Program& program, std::span<const double> prices);

/// Rows that follow from single ones among the first `rows`, where columns are 0 or 1, and that the solution violates.
/// O(entries times distinct factors of columns that are neither).
std::vector<ProgramRow> rounded_rows(const Program& program, std::size_t rows, std::span<const double> solution);

/// Rows of `more` that the solution violates.
std::vector<ProgramRow> violated_rows(const Program& program, std::span<const double> solution);

/// A program in which most columns have a value already.
struct RestrictedProgram {
  Program program{};
  /// By column there: the column here.
  std::vector<int> columns{};
  /// Cost of the others.
  std::int64_t cost = 0;
};

/// The program of the `open` columns, where the others have their values of the whole solution. O(entries).
RestrictedProgram restricted(const Program& program, const std::vector<bool>& open, std::span<const double> solution);

/// True if the whole solution holds every row. O(entries).
bool holds(const Program& program, std::span<const double> solution);

/// Cost of a complete solution.
std::int64_t cost_of(const Program& program, std::span<const double> solution);

}  // namespace remora
