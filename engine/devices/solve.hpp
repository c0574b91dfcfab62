// SPDX-License-Identifier: Apache-2.0
//
// Schedules over several devices: a start without memory limits, then local search (docs/devices.md).
//
// The start has every op once, on the devices of the bound's assignment. While it breaks a budget, at the worst step a tensor
// makes room: of all ways one is taken that mends most for its price. Then, as long as the limits allow: some copies and
// recomputes are taken out, or ops put on other devices, and what that breaks is mended again; what is no worse is kept. All
// schedules are of the staged form, which `free` order allows as well.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/devices/plan.hpp"
#include "model/curve.hpp"

namespace remora::devices {

struct Options {
  /// Seconds.
  double time_limit = 60;
  /// Plans evaluated; 0 for no limit. With it, and without a time limit, the same seed gives the same schedule.
  std::int64_t work_limit = 0;
  std::uint64_t seed = 1;
  /// Unless it is 1, and without a work limit, the relaxation's programs are solved beside the search.
  int threads = 2;
  /// Set to end the search with what it has. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// Steps of a schedule of this graph to begin from, under whatever budgets; empty for none. The local search begins from its runs
  /// and copies where they are of the staged form; if it is a schedule of the problem, the answer costs no more.
  std::vector<DeviceStep> start{};
};

/// The limits, the seed and the threads that are shared with solves of one device.
Options shared_options(const SolveOptions& options);

/// Optimal where the schedule costs no more than the bound; infeasible where the bound says so, with the reason as
/// solver.note; unknown where none was found. The graph must be valid, with one budget a device, all not negative, and
/// max_computes at least 1, and a start that the graph allows, else InputError.
DeviceSchedule solve(const DeviceGraph& graph, const Problem& problem, const Options& options);

/// As solve(), for the problem's computes an op or more (as in computes_choice.hpp): the best schedule there is, of the problem
/// with the fewest computes that has it, with that problem's status and bound. `solver.max_computes` says which one, the note why.
DeviceSchedule solve_with_more_computes(const DeviceGraph& graph, const Problem& problem, const Options& options);

// Many budgets of one device: the curve of its memory against time, while the other devices keep the budgets that they have.
//
// Two rounds. The first goes from the largest budget down, so that each search starts from its neighbour's schedule with a little
// more to save, and takes half of the time; the second spends the rest on the budgets that are not settled. What one learns the
// others get: a schedule serves every larger budget, a bound holds for every smaller one, and below a budget that is proved
// infeasible all are.

struct SweepResult {
  /// Of the device that was swept: its budgets, peaks and fixed memory.
  Curve curve{};
  /// By point; without steps where none is known.
  std::vector<DeviceSchedule> schedules{};
};

/// Told of each budget once it was searched, and for how many budgets nothing is left to search.
using SweepListener = std::function<void(const CurvePoint& point, double seconds, int settled)>;

/// The limits of the options are of the whole sweep; with a work limit, and without a time limit, the same seed gives the same curve.
/// The problem's objective is the duration, and what it says of the device's budget does not matter. A start serves the largest
/// budget. Throws InputError for budgets that are negative, given twice, or none.
SweepResult sweep(const DeviceGraph& graph, const Problem& problem, DeviceId device, std::vector<Bytes> budgets,
                  const Options& options, const SweepListener& listener = {});

}  // namespace remora::devices
