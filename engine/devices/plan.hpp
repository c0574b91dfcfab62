// SPDX-License-Identifier: Apache-2.0
//
// What is asked of several devices, and what can be said of it without a search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/devices/device_schedule.hpp"

namespace remora::devices {

struct Problem {
  /// By device; nothing where there is no limit.
  Table<DeviceId, std::optional<Bytes>> budget{};
  Objective objective = Objective::duration;
  /// Where copies overlap, `duration` is the time until the last step has ended.
  CopyMode copies = CopyMode::sequential;
  std::optional<Duration> duration_limit{};
  std::optional<Energy> energy_limit{};
  /// Of an op's runs on all devices together; at least 1.
  int max_computes = 2;
  OrderMode order = OrderMode::input;
};

/// In the objective's unit.
inline std::int64_t price(const Problem& problem, Duration duration, Energy energy) {
  return problem.objective == Objective::duration ? duration.count() : energy.count();
}

/// How often the op may run, on all devices together.
int most_runs(const DeviceGraph& graph, const Problem& problem, OpId op);

bool reads(const Op& op, TensorId tensor);
bool writes(const Op& op, TensorId tensor);

/// What is resident on each device throughout: its fixed memory and the inputs of the graph that are at home there.
Table<DeviceId, Bytes> base_memory(const DeviceGraph& graph);

/// What can be said without a search.
struct Bound {
  /// Of the objective: no schedule costs less.
  std::int64_t least = 0;
  /// Why there is no schedule at all; empty if that is not known.
  std::string infeasible{};
  /// A device for the first run of each op: where the bound has it. Empty if infeasible.
  Table<OpId, DeviceId> assignment{};
};

/// Every op once on its cheapest device that has room for it, or the cheapest assignment to two devices with what crosses
/// from one to the other paid (remaining_cost, device_state.hpp, of the state before all steps), and what memory adds to
/// that (cover_of). Infeasible where an op has room nowhere, whatever gives way; where what is always on a device, with
/// what must be kept there, exceeds its budget; or where something can be brought to no device that reads it.
Bound bound_of(const DeviceGraph& graph, const Problem& problem);

/// In input order, once a schedule is known that costs `below`: an op runs first where a schedule may still cost less, and
/// what certainly runs on a device makes memory count there. No schedule costs less than what is returned, which is
/// `below` at most; 0 where the bound above knows all that already. A cut for each op and device, some rounds of them.
std::int64_t bound_below(const DeviceGraph& graph, const Problem& problem, std::int64_t below,
                         const std::function<bool()>& interrupted);

// A plan over several devices under change: runs and copies without releases, always of the staged form.
//
//     events     b      s      u          t on d: read at b, above its budget at s, read again at u
//     t on d     ##################
//     out, in    ###         ####         copied to e after b, back before u; or back alone where e has it anyway
//     again      ###         ####         its producer runs on d once more before u

using Plan = std::vector<DeviceStep>;

/// What a plan costs, and by how much it breaks limits: bytes above budgets summed over steps, and what duration or energy
/// have above their limits.
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

/// A step to put into a plan, before the step of that number.
struct Insertion {
  int place = 0;
  DeviceStep step{};
};
using Insertions = std::vector<Insertion>;

/// The plan with these steps; not mended yet.
Plan with_steps(const Plan& plan, Insertions insertions);

/// Ways in which a tensor that stays on the device across the step, and is not read at it, makes room. Where copies overlap, one
/// comes back while what runs before its reader takes as long as the copy.
std::vector<Insertions> making_room(const DeviceGraph& graph, const Problem& problem, const Plan& plan,
                                    const DeviceEvaluation& evaluation, int step, DeviceId device);

/// By op: a number that ops share which look alike: what they are, where they run, what they write, and, some edges around, what they read
/// from and are read by. Blocks that repeat have the same numbers but near their ends. O(edges log edges).
Table<OpId, int> alike_ops(const DeviceGraph& graph);

/// All runs of the op on another device, its copies and its inputs' left out; not mended yet.
Plan relocated(const DeviceGraph& graph, const Plan& plan, OpId op, DeviceId device);

/// Copies of an overlapped plan that holds the budgets, at other places: out to where nothing runs as soon as there is something to
/// copy, others so that they end, `ahead` of their time early, when they are read; as far as the budgets leave room. Not mended.
Plan retimed(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan, double ahead);

/// What steps with their releases cost, if they are a schedule of the problem. Throws InputError of "start" for steps that the
/// graph does not allow, whatever the budgets.
std::optional<std::int64_t> cost_of_schedule(const DeviceGraph& graph, const Problem& problem,
                                             const std::vector<DeviceStep>& steps);

}  // namespace remora::devices
