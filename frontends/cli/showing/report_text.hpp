// SPDX-License-Identifier: Apache-2.0
//
// A report for terminals: plain lines of UTF-8, no control codes.
#pragma once

#include <iosfwd>

#include "frontends/report/schedule_profile.hpp"

namespace remora::cli {

/// Memory over steps in characters: the schedule as blocks, what the input order holds above it as shade, the budget as
/// a line where neither is. A column shows the largest of its steps.
///
///     4 B    |      ░
///     budget |---████-██
///            |  ███████
///     0 B    |█████████
void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget);

/// The headline figures, memory over steps as a chart of characters, what is in memory at the peak, and which ops are
/// recomputed and why.
void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile);

}  // namespace remora::cli
