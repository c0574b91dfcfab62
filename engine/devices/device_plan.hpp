// SPDX-License-Identifier: Apache-2.0
//
// A plan over several devices under change: runs and copies without releases, always of the staged form.
//
//     events     b      s      u          t on d: read at b, above its budget at s, read again at u
//     t on d     ##################
//     out, in    ###         ####         copied to e after b, back before u; or back alone where e has it anyway
//     again      ###         ####         its producer runs on d once more before u
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/devices/device_problem.hpp"
#include "model/devices/device_evaluate.hpp"

namespace remora {

using DevicePlan = std::vector<DeviceStep>;

/// What a plan costs, and by how much it breaks limits: bytes above budgets summed over steps, and what duration or energy
/// have above their limits.
struct PlanValue {
  Wide violation = 0;
  std::int64_t cost = 0;

  friend auto operator<=>(const PlanValue&, const PlanValue&) = default;
};

PlanValue value_of(const DeviceGraph& graph, const DeviceProblem& problem, const DeviceEvaluation& evaluation);

/// A plan and what it takes.
struct EvaluatedPlan {
  DevicePlan plan{};
  DeviceEvaluation evaluation{};
};

/// The plan with what is missing copied in just before it is read or at the end, along the cheapest links, and without
/// steps that serve nothing or that nothing supplies; nothing where something cannot be supplied, or the plan is not staged.
std::optional<EvaluatedPlan> mended(const DeviceGraph& graph, const DeviceProblem& problem, DevicePlan plan);

/// Every op once, in input order, on these devices.
std::optional<EvaluatedPlan> plan_of(const DeviceGraph& graph, const DeviceProblem& problem,
                                     const Table<OpId, DeviceId>& assignment);

/// Steps to put into a plan: the first one before the step of that number, a second one before an earlier step.
struct Insertion {
  int place = 0;
  DeviceStep step{};
};
using Insertions = std::vector<Insertion>;

/// The plan with these steps; not mended yet.
DevicePlan with_steps(const DevicePlan& plan, const Insertions& insertions);

/// Ways in which a tensor that stays on the device across the step, and is not read at it, makes room.
std::vector<Insertions> making_room(const DeviceGraph& graph, const DeviceProblem& problem, const DevicePlan& plan,
                                    const DeviceEvaluation& evaluation, int step, DeviceId device);

/// All runs of the op on another device, its copies and its inputs' left out; not mended yet.
DevicePlan relocated(const DeviceGraph& graph, const DevicePlan& plan, OpId op, DeviceId device);

}  // namespace remora
