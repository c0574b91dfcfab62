// SPDX-License-Identifier: Apache-2.0
//
// Schedules of one problem over several devices (docs/design/devices.md).
#pragma once

#include "engine/devices/sliced_search.hpp"

namespace remora::devices {

/// Optimal where the schedule costs no more than the bound; infeasible where the bound says so, with the reason as
/// refusal, and as the schedule's solver.note; unknown where none was found. The graph must be valid, with one budget a device, all not negative, and
/// max_computes at least 1, and a start that the graph allows, else InputError.
Answer solve(const DeviceGraph& graph, const Problem& problem, const Options& options);

/// The answer's fields that say what the problem's schedules would cost without memory limits, of a schedule without steps.
DeviceSchedule baseline(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted);

/// As solve(), for the problem's computes an op or more (as in engine/ask/deepening.cpp): the best schedule there is, of the problem
/// with the fewest computes that has it. `solver.max_computes` says which one, the note why. `optimal` is said where no schedule with any
/// number of computes costs less; where that is proved for a number only, the status is feasible, `solver.optimal_for_max_computes` that
/// number and the bound one for any number. Else the bound is that problem's.
Answer solve_with_more_computes(const DeviceGraph& graph, const Problem& problem, const Options& options);

/// As sweep() of ask.hpp. `listener` is told of each budget once it was searched, and may be empty.
SweepResult sweep(const DeviceGraph& graph, const Problem& problem, DeviceId device, std::vector<Bytes> budgets,
                  const Options& options, const std::function<void(const SweepProgress&)>& listener);

}  // namespace remora::devices
