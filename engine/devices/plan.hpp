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

#include "engine/devices/problem.hpp"

namespace remora::devices {

using Plan = std::vector<DeviceStep>;

/// Cost of a plan, and by how much it breaks limits: bytes above budgets summed over steps, and duration or energy
/// above their limits.
struct PlanValue {
  Wide violation = 0;
  std::int64_t cost = 0;

  friend auto operator<=>(const PlanValue&, const PlanValue&) = default;
};

/// A plan and what it takes.
struct EvaluatedPlan {
  Plan plan{};
  DeviceEvaluation evaluation{};
};

PlanValue value_of(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan);

/// When the steps of an overlapped plan run. Budgets are waited for only where the plan holds them.
OverlappedTimes times_of(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan,
                         bool holds_budgets);

/// The plan with what is missing copied in just before it is read or at the end, along the cheapest links, and without
/// steps that serve nothing or that nothing supplies; nothing where something cannot be supplied, or the plan is not staged.
std::optional<EvaluatedPlan> mended(const DeviceGraph& graph, const Problem& problem, Plan plan);

/// Every op once, in input order, on these devices.
std::optional<EvaluatedPlan> plan_of(const DeviceGraph& graph, const Problem& problem,
                                     const Table<OpId, DeviceId>& assignment);

/// Cost of steps with their releases, if they are a schedule of the problem. Throws InputError of "start" for steps
/// that the
/// graph does not allow, whatever the budgets.
std::optional<std::int64_t> cost_of_schedule(const DeviceGraph& graph, const Problem& problem,
                                             const std::vector<DeviceStep>& steps);

}  // namespace remora::devices
