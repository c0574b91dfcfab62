// SPDX-License-Identifier: Apache-2.0
//
// Parts of a report besides its page: figures of memory and of a curve, and the same as tables.
#pragma once

#include <iosfwd>

#include "frontends/report/plot.hpp"
#include "frontends/report/profile.hpp"
#include "model/curve.hpp"

namespace remora::report {

/// Memory over steps, with the time beside them: the input order, the schedule if there is one, the budget. Amounts count above
/// fixed memory, which has a band of its own, as percentages of budgets do. What the input order holds at an op stands over the first compute of that op (see memory_beside). Of more steps than a
/// drawing can show, bundles are drawn at their largest.
Figure memory_figure(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile);

/// Memory of the input order at each step of the schedule; on its own if there is no schedule. In either
/// order: what it holds at the op that the step first computes, at a recompute that of the next first compute, and
/// after the last of these its own.
std::vector<Bytes> memory_beside(const ScheduleProfile& profile);

/// For a schedule over several devices: a lane over time for each device and each link that is used, and below it
/// memory over
/// time on each device, with its budget.
std::vector<Figure> device_figures(const DeviceGraph& graph, const DeviceSchedule& schedule,
                                   const DeviceProfile& profile);

/// A sweep's Pareto curve: overhead in per cent against budget. The shortest known schedule holds from its budget up to
/// the next; the lower bound of a budget holds for all smaller ones, too. Filled are the points proved optimal, named the
/// knee and the smallest budget that a schedule holds; a line stands at the budget below which none does. Budgets count
/// above fixed memory.
Figure curve_figure(const Curve& curve);

/// The curve as comma-separated values, a line a point after one of column names: bytes, durations in the graph's unit,
/// and parts of one, all exact. Empty where there is no value; the mark is "knee", "smallest" (feasible) or both.
///
///     budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark,schedule
void write_curve_csv(std::ostream& out, const Curve& curve);

/// Runs by op and device, then copies by tensor and link, those that take longest first; names quoted by RFC 4180, lines that
/// end in LF:
///
///     kind,name,type,device,to,times,again,bytes,duration,energy       kind: run or copy
void write_device_table(std::ostream& out, const DeviceGraph& graph, const DeviceProfile& profile);

/// The recomputed ops as CSV, costliest first: exact amounts, names quoted by RFC 4180, lines that end in LF; empty
/// fields where there is no overload.
///
///     op,type,recomputes,paid,saved,
///     relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,kept_above        (all in one line)
void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile);

}  // namespace remora::report
