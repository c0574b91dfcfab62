// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one graph: the curve of memory against time, for little more than a solve or two.
//
//     const Instance instance(graph, {});
//     const SweepResult result = sweep(instance, SolveOptions{}, {.points = 20});
//
// Every budget has a search of its own, which is left and taken up again: first all budgets
// from the largest down, so that each starts from its neighbour's schedule with a little more to save; then up and down again,
// until the time is over or everything is proved. What one learns the others get at once: a schedule serves every
// larger budget, and is a start for the smaller ones; a bound holds for every smaller one. What does not depend on
// the budget is found once: the block schedules of groups.
#pragma once

#include "engine/base/options.hpp"
#include "engine/curve/sweep_types.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"

namespace remora {

/// The time limit and the work limit of the options are of the whole sweep; with the latter the same seed gives the
/// same curve. The instance's own budget does not matter. Strategies that do not search solve each budget for itself.
///
/// Throws InputError for what solve() refuses, for a budget given twice, and for options out of range.
REMORA_API SweepResult sweep(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                             const SweepCallbacks& callbacks = {});

/// As sweep(), with the instance's computes an op for three quarters of the limits; then, by budget from the largest down,
/// with more where there is no schedule, and where the best is proved and one compute more is shorter. Points say with how
/// many; what is proved of a point is of its own number.
REMORA_API SweepResult sweep_with_more_computes(const Instance& instance, const SolveOptions& options,
                                                const SweepOptions& sweep_options,
                                                const SweepCallbacks& callbacks = {});

}  // namespace remora
