// SPDX-License-Identifier: Apache-2.0
//
// The door to several devices: a request in, an answer out, as engine/ask/ask.hpp for one device.
//
//     remora::devices::Request request{.graph = graph};
//     request.budget.assign(graph->devices.size(), std::nullopt);    // no limits
//     request.budget[gpu] = remora::Bytes(6);
//     request.options.time_limit = 10;
//     const remora::devices::Answer answer = remora::devices::solve(request);
//     if (answer.schedule.has_schedule()) run(answer.schedule);
//
// The calls keep no state, print nothing, and may run in several threads at once. They throw InputError for what cannot be asked.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/curve.hpp"
#include "model/devices/schedule.hpp"

namespace remora::devices {

/// A question to the engine, which chooses whatever is left out.
struct Request {
  /// Valid (validate()).
  std::shared_ptr<const DeviceGraph> graph{};
  /// By device, not negative; nothing where there is no limit. Of no device: no limits.
  Table<DeviceId, std::optional<Bytes>> budget{};
  Objective objective = Objective::duration;
  /// Where copies overlap, lanes do, too, and `duration` is the time until the last step has ended. None: see copies_asked().
  std::optional<CopyMode> copies{};
  /// Upper limits, whatever is minimised.
  std::optional<Duration> duration_limit{};
  std::optional<Energy> energy_limit{};
  /// Maximum runs of an op on all devices together, from 1 to 64. None: two, or as many more as the budgets need or as
  /// lower the cost; the schedule has the number. Two for a sweep.
  std::optional<int> max_computes{};
  OrderMode order = OrderMode::input;
  /// Steps of a schedule of the graph to begin from, made for whatever budgets. If it is a schedule of the problem, the answer
  /// costs no more.
  std::vector<DeviceStep> warm_start{};
  /// Only time_limit, work_limit, seed and threads count: unless threads is 1, and without a work limit, linear
  /// and integer programs are solved concurrently with the search. A unit of work is a plan evaluated, or a node of the
  /// tree search; with a work limit, and without a time limit, the same seed gives the same schedule.
  SolveOptions options{};
};

/// The given value, or `overlap` if the graph has lanes, otherwise `sequential`.
REMORA_API CopyMode copies_asked(const Request& request);

/// Callbacks as for one device. Of Progress, duration and bound are amounts of the objective; in phase 1 no schedule is known, and the duration is Duration::max(); the
/// peak is 0, since each device has its own. The order is never left to the engine, and no groups are shared.
using Callbacks = CallbacksWith<DeviceSchedule>;

/// An answer whose refusal has budgets by device: `shortages`, in place of lower_bound and enough. Its order is the request's.
using Answer = AnswerWith<DeviceSchedule>;

/// Optimal where the schedule costs no more than the bound; infeasible where that is proved, with the reason as refusal, and in
/// solver.note; unknown where none was found. Where the number of computes is left out, `optimal` holds for any number; of a feasible schedule
/// `solver.optimal_for_max_computes` says for which number it is proved. Replayed by verify().
REMORA_API Answer solve(const Request& request, const Callbacks& callbacks = {});

/// The fields that the curve of a device begins with, without a search: its fixed memory, and of the best schedule known without any memory limit
/// the duration and the peak there, of which percentages are. Both are also in the curve of a sweep.
REMORA_API Curve baseline(const Request& request, DeviceId device);

/// The curve of the device that was swept: its budgets, peaks and fixed memory.
using SweepResult = SweepResultWith<DeviceSchedule>;

/// The curve of one device's memory against time, while the other devices keep the budgets that they have. The limits are of the
/// whole sweep; with a work limit, and without a time limit, the same seed gives the same curve. What the request says of the
/// device's own budget does not matter; a start serves the largest budget. Every schedule is replayed. Throws InputError also for
/// budgets that are negative, given twice, or none, and for another objective than the duration.
REMORA_API SweepResult sweep(const Request& request, DeviceId device, std::vector<Bytes> budgets,
                             const SweepCallbacks& callbacks = {});

}  // namespace remora::devices
