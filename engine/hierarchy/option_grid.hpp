// SPDX-License-Identifier: Apache-2.0
//
// Solves a group for a grid of two budgets, peak and saved (Rockmate, section 3.3), by the retention model in two
// phases: groups of ops by solve(), groups with child groups by compose(). The options found are thinned to a Pareto
// set and to so many, farthest apart first (HiRemate, schedule selection).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/hierarchy/block_problem.hpp"
#include "engine/hierarchy/group_option.hpp"
#include "engine/options.hpp"

namespace remora {

/// One cell of the grid.
struct GridBudget {
  Bytes peak{};
  Bytes saved{};
};

struct CellLimits {
  /// Units of work for the cell; 0 for none.
  std::int64_t work = 0;
  /// Seconds of wall-clock time for it.
  double seconds = 0;
  std::function<bool()> interrupted{};
};

/// The option that runs every op once and saves what the input order saves.
GroupOption saving_option(const BlockProblem& problem);

/// The grid: `levels` amounts of saved memory from all that `saving` keeps down to nothing, each with no limit on the
/// peak and with two lower ones.
std::vector<GridBudget> make_grid(const BlockProblem& problem, const GroupOption& saving, int levels);

/// The shortest option within the cell's budgets that was found.
std::optional<GroupOption> solve_cell(const BlockProblem& problem, const GridBudget& budget,
                                      const SolveOptions& options, const CellLimits& limits);

/// Of the options those that no other beats in everything, at most `most`, shortest first.
std::vector<GroupOption> select_options(std::vector<GroupOption> options, std::size_t most);

}  // namespace remora
