// SPDX-License-Identifier: Apache-2.0
//
// A report for terminals: plain lines of UTF-8, no control codes.
#pragma once

#include <iosfwd>

#include "frontends/report/schedule_profile.hpp"

namespace remora::cli {

/// The headline figures, memory over steps as a chart of characters, what is in memory at the peak, and which ops are
/// recomputed and why.
void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile);

}  // namespace remora::cli
