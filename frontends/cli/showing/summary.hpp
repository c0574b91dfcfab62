// SPDX-License-Identifier: Apache-2.0
//
// What commands tell people of a schedule, as lines of text.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "frontends/report/schedule_profile.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// Columns of a summary where there is no terminal.
inline constexpr int kSummaryWidth = 100;

// `width`: columns that a line may take, from 60 on.

/// Peak before and after, extra time, bound and gap; or why there is no schedule.
void print_headline(std::ostream& out, const Graph& graph, const Schedule& schedule, int width = kSummaryWidth);

/// What a person wants to know of a finished solve: the headline, which ops are recomputed most, and how it went.
void print_summary(std::ostream& out, const Graph& graph, const Schedule& schedule, int width = kSummaryWidth);

// A report for terminals: plain lines of UTF-8, no control codes.

/// Memory over steps in characters: the schedule as blocks, what the input order holds above it as shade, the budget as
/// a line where neither is. A column shows the largest of its steps. Rows count above fixed memory, which is a band.
///
///     7 B    |      ░
///     budget |---████-██
///            |  ███████
///     3 B    |█████████
///     fixed  |▒▒▒▒▒▒▒▒▒
void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget, Bytes fixed,
                        int width = kSummaryWidth);

/// The headline figures, memory over steps as a chart of characters, what is in memory at the peak, and which ops are
/// recomputed and why.
void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile, int width = kSummaryWidth);

/// The name in `width` columns; of a longer one the middle is left out.
std::string fitted(const std::string& name, std::size_t width);

}  // namespace remora::cli
