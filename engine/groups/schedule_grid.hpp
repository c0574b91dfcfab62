// SPDX-License-Identifier: Apache-2.0
//
// Solves a group for a grid of two budgets, peak and saved (Rockmate, section 3.3), by the retention model in two
// phases: groups of ops by solve(), groups with child groups by compose().
//
// The grid has a row for each limit on the peak, and one in which the group's inputs and outputs cost nothing, as where
// the neighbours hold them anyway. In a row the limits on what is saved are chosen one after the other,
// where the schedules so far leave most open: between two neighbours a shorter schedule that saves less than the one, or
// one that saves less at no more time than the other, can only lie in the rectangle that they span.
//
//     time  |  B                          next limit: the middle of A and B; what it finds is a new corner, or
//           |  +----------+               shows that half of the rectangle is empty
//           |  |     .    |
//           |  +----------A
//           |                   +----C
//           +------------------------- saved
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/groups/block.hpp"
#include "engine/groups/block_schedule.hpp"

namespace remora {

struct RowLimits {
  /// Budgets to solve for at most.
  int solves = 0;
  /// For each solve.
  Work work = Work::max();
  /// Seconds of wall-clock time for the row.
  double seconds = 0;
  /// True when the row should end at once. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

/// Units of work for one solve of a group at least; with less, groups are solved only where they are asked for.
inline constexpr Work kMinWorkOfSolve{100};

/// Share of each of so many rows: every class of one height gets the same, and the hierarchy has so many heights.
RowLimits row_limits(const SolveOptions& options, const Deadline& deadline, int levels, std::size_t rows);

struct RowResult {
  std::vector<BlockSchedule> schedules{};
  Work work{};
};

/// The schedule that runs every op once and saves what the input order saves. `unlimited`: the problem without_budgets().
BlockSchedule saving_schedule(const BlockProblem& problem, const Instance& unlimited);

struct GridRow {
  /// No limit where it is at least what all tensors need.
  Bytes peak{};
  Interface interface = Interface::counted;
};

/// Rows without a limit on the peak, the interface counted and free, and with two lower limits.
std::vector<GridRow> grid_rows(const BlockProblem& problem, const Instance& unlimited, const BlockSchedule& saving);

/// The schedules found in the row.
RowResult solve_row(const BlockProblem& problem, const GridRow& row, const BlockSchedule& saving,
                    const SolveOptions& options, const RowLimits& limits);

/// Selects the schedules that no other dominates; where they are more than `most`, the shortest, then those
/// that a price per byte would choose, then the others, each time whatever saves most differently from those chosen
/// (HiRemate, schedule selection: farthest apart first). Shortest first. `most` >= 1.
std::vector<BlockSchedule> select_schedules(std::vector<BlockSchedule> schedules, std::size_t most);

}  // namespace remora
