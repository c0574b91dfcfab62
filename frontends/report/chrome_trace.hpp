// SPDX-License-Identifier: Apache-2.0
//
// A schedule in the Trace Event Format of Chrome's about:tracing, which Perfetto reads too: one complete event ("X") a
// step, of category "first" or "recompute", and counters ("C") of memory, all on a clock that the durations make.
#pragma once

#include <iosfwd>
#include <string>

#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// Writes the trace as JSON. The format counts microseconds: durations in "ns", "us", "ms" or "s" are converted, one of
/// any other unit is taken for a microsecond (otherData says so). Throws InputError for names that are not UTF-8; then
/// nothing has been written.
void write_trace(std::ostream& out, const Graph& graph, const Replay& replay, Bytes budget,
                 const std::string& duration_unit);

}  // namespace remora::report
