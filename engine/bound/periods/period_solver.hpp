// SPDX-License-Identifier: Apache-2.0
//
// Clp and CBC on a Program (program.hpp): the linear program with its prices, and the integer one below a cost.
//
// Rows are brought to like magnitudes, and memory rows ask for a hair less in the integer program, since the solvers'
// tolerances are absolute. What a linear program proves is added up by program_bound(); what the integer one says rests
// on floating point.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/bound/counted_seconds.hpp"
#include "engine/bound/cpu_seconds.hpp"
#include "engine/bound/periods/program.hpp"

namespace remora {

/// Asked now and then; true ends the work. May be empty.
using Interrupted = std::function<bool()>;

struct LinearAnswer {
  enum class Outcome { optimal, no_solution, unknown };
  Outcome outcome = Outcome::unknown;
  /// By column, where optimal.
  std::vector<double> solution{};
  /// By row, those added included: dual values, or where there is no solution a ray of them.
  std::vector<double> prices{};
  /// Where the simplex method ended: Clp's status of each column and row, those added included.
  std::vector<unsigned char> basis{};
};

/// Rows that its solution violates (rounded_rows()) are added to the program as long as that raises the optimum, and that
/// takes no more steps of the simplex method than the program itself.
LinearAnswer solve_linear(Program& program, const Interrupted& interrupted);

/// By column: whether it is out, as in the program, or is found to be 0 in every solution below the cutoff. Of each group in turn
/// at least one column is to be 1, and the simplex method goes on from the answer's basis (probing, in constraint programming
/// shaving): its prices rule out, in whole numbers, what they can of all groups. Groups likely to be ruled out come first: it
/// ends after many in a row that are not, and with more than `most` columns found.
std::vector<bool> probe(const Program& program, const LinearAnswer& answer, std::span<const std::vector<int>> groups,
                        Duration cutoff, int most, const Interrupted& interrupted);

/// A solution, or nothing where the way there ends: the linear program's columns of each group in turn are put to 1, those
/// that are nearly there together and else the largest, and it is solved again (a dive; 0 where 1 leads nowhere). The groups'
/// other columns follow from them.
std::vector<double> dive(const Program& program, std::span<const std::vector<int>> groups,
                         const Interrupted& interrupted);

struct IntegerAnswer {
  /// Every solution was looked at: the one given is the cheapest below the cutoff, or there is none.
  bool complete = false;
  /// No solution below the cutoff costs less.
  Duration bound{};
  /// By column; empty if none was found.
  std::vector<double> solution{};
  std::int64_t nodes = 0;
};

struct IntegerLimits {
  /// Only solutions that cost less are looked for.
  Duration cutoff = Duration::max();
  std::int64_t nodes = 1'000'000;
  Interrupted interrupted{};
  /// As run_highs() takes it.
  Interrupted stopped{};
  /// By HiGHS, where the machine has it: it looks at no other limit than the cutoff and these two.
  bool by_highs = false;
  /// Columns to branch on before others. Where there are some, nodes are many and cheap: without cuts, and without trials.
  std::vector<int> first{};
  /// The node of the least bound comes next, so that the bound rises; else solutions are looked for first.
  bool by_bound = false;
};

IntegerAnswer solve_integer(const Program& program, const IntegerLimits& limits);

}  // namespace remora
