// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "frontends/report/schedule_profile.hpp"
#include "model/curve.hpp"

namespace remora::report {

/// The recomputed ops as CSV, costliest first: exact amounts, names quoted by RFC 4180, lines that end in LF; empty
/// fields where there is no overload.
///
///     op,type,recomputes,paid,saved,
///     relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,kept_above        (all in one line)
void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile);

/// A sweep's points as CSV; empty fields where there is no schedule.
///
///     budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,schedule
void write_curve_table(std::ostream& out, const Curve& curve);

}  // namespace remora::report
