// SPDX-License-Identifier: Apache-2.0
//
// Changes of a plan over several devices. What comes out is not mended yet.
#pragma once

#include <vector>

#include "engine/devices/plan.hpp"

namespace remora::devices {

/// A step to put into a plan, before the step of that number.
struct Insertion {
  int place = 0;
  DeviceStep step{};
};
using Insertions = std::vector<Insertion>;

/// The plan with these steps.
Plan with_steps(const Plan& plan, Insertions insertions);

/// Ways in which a tensor that stays on the device across the step, and is not read at it, makes room. Where copies overlap, one
/// comes back while what runs before its reader takes as long as the copy.
std::vector<Insertions> making_room(const DeviceGraph& graph, const Problem& problem, const Plan& plan,
                                    const DeviceEvaluation& evaluation, int step, DeviceId device);

/// All runs of the op on another device, its copies and its inputs' left out.
Plan relocated(const DeviceGraph& graph, const Plan& plan, OpId op, DeviceId device);

/// Copies of an overlapped plan that holds the budgets, at other places: out to where nothing runs as soon as there is something to
/// copy, others so that they end, `ahead` of their time early, when they are read; as far as the budgets leave room.
Plan retimed(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan, double ahead);

}  // namespace remora::devices
