// SPDX-License-Identifier: Apache-2.0
//
// The answer to a sweep: the shortest duration known for each of several budgets, with bounds (remora-curve 1).
//
//     duration |  o                 o  schedule within the budget, the shortest known
//              |  ' o               '  lower bound
//              |    '  o
//              |       '   o . . o
//              +---|-------------------  budget
//                smallest feasible
//
// A schedule within one budget is within every larger one, and no schedule within a budget beats the bound of a larger
// one with as many runs per op: along the points durations do not increase, nor bounds where runs do not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

struct CurvePoint {
  Bytes budget{};
  /// Status of the problem with this budget.
  Status status = Status::unknown;
  /// Duration of the best schedule known within the budget; 0 if there is none.
  Duration duration{};
  Bytes peak_memory{};
  /// No schedule within the budget is shorter.
  Duration lower_bound{};
  /// Wall-clock time spent on this budget alone.
  double seconds = 0;
  /// The budget that was being solved for when the schedule was found: this one, or a neighbour's.
  Bytes found_under{};
  /// Maximum number of runs per op in this point's problem if it is more than the curve's, otherwise 0.
  int max_computes = 0;
  /// The largest number of slices in which the schedule computes an op; 0 without slices. The bound is then one for the
  /// slices that the sweep has tried.
  int slices = 0;
  /// File of the schedule, relative to the curve's; empty if it was not kept.
  std::string schedule_file{};

  [[nodiscard]] bool has_schedule() const { return status == Status::optimal || status == Status::feasible; }

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

struct REMORA_API Curve {
  std::string graph{};
  /// Hash of the graph file's bytes, as lower-case hexadecimal; empty if there was no file.
  std::string graph_sha256{};
  /// As Schedule::reading.
  std::vector<std::string> reading{};
  /// Device whose budgets these are, for a graph over several devices; otherwise empty.
  std::string device{};
  OrderMode order = OrderMode::input;
  int max_computes = 0;
  /// Memory that no schedule can do without: percentages of budgets and the overhead's baseline are above it.
  Bytes fixed_memory{};
  /// Peak of the input order without recomputation.
  Duration baseline_duration{};
  Bytes baseline_peak_memory{};
  /// Proved: no schedule of at most `max_computes` runs per op, or of as many as any point has, stays within a smaller budget.
  Bytes least_budget{};
  /// By budget, ascending; budgets are distinct.
  std::vector<CurvePoint> points{};
  /// Number of the point where the curve bends most (find_knee).
  std::optional<std::size_t> knee{};
  /// Wall-clock time of the whole sweep.
  double seconds = 0;

  /// The point with the smallest budget that has a schedule.
  [[nodiscard]] std::optional<std::size_t> smallest_feasible() const;
  /// duration / baseline_duration - 1 of a point with a schedule; 0 for a baseline of 0.
  [[nodiscard]] double overhead(const CurvePoint& point) const;
  /// The same of its lower bound.
  [[nodiscard]] double least_overhead(const CurvePoint& point) const;
  /// (budget - fixed_memory) / (baseline_peak_memory - fixed_memory), as percentages of the command line count; 1 for a
  /// baseline without memory.
  [[nodiscard]] double part_of_baseline(Bytes budget) const;
};

/// The knee: the point with a schedule that lies furthest below the straight line between the first and the last one,
/// both axes scaled to the ends (Satopaa et al. 2011, "Kneedle", for a curve without noise). None where no point lies
/// below that line.
REMORA_API std::optional<std::size_t> find_knee(const Curve& curve);

}  // namespace remora
