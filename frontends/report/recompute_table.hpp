// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// The recomputed ops as CSV, costliest first: exact amounts, names quoted by RFC 4180, lines that end in LF; empty
/// fields where there is no overload.
///
///     op,type,recomputes,paid,saved,
///     relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,kept_above        (all in one line)
void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile);

}  // namespace remora::report
