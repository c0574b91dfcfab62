// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one device: the curve of its memory against time, while the other devices keep the budgets that they have.
//
// Two rounds. The first goes from the largest budget down, so that each search starts from its neighbour's schedule with a little
// more to save, and takes half of the time; the second spends the rest on the budgets that are not settled. What one learns the
// others get: a schedule serves every larger budget, a bound holds for every smaller one, and below a budget that is proved
// infeasible all are.
#pragma once

#include <functional>
#include <vector>

#include "engine/devices/turns.hpp"
#include "model/curve.hpp"

namespace remora::devices {

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
