// SPDX-License-Identifier: Apache-2.0
//
// The data inside a page as compact JSON: arrays of numbers instead of an object per interval. What reads it is
// frontends/report/assets/data.js.
#pragma once

#include <string>

#include "frontends/report/page.hpp"
#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// The graph, its input order without recompute, and the curve if there is one.
///
///     {"name", "unit", "base", "first": number of the schedule shown first or -1,
///      "ops": {"name", "types": distinct ones, "type": index into them, "duration", "workspace"},
///      "tensors": {"name", "size", "producer": op or -1}, "before": replay, "curve"?}
///
/// A replay is {"memory", "peak", "peak_step", "stays": flat [tensor, first step less that of the stay before, steps
/// after the first, …]}.
std::string graph_data(const Page& page);

/// One schedule: the keys of remora-schedule, steps as op numbers, its replay's keys, "retained" flat as [op, first
/// stage, last stage, …], and "recomputed" flat, ten numbers an op (RecomputedOp, -1 for no op).
std::string schedule_data(const Schedule& schedule, const ScheduleProfile& profile);

}  // namespace remora::report
