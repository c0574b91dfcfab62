// SPDX-License-Identifier: Apache-2.0
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

}  // namespace remora::cli
