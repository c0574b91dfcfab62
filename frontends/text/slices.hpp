// SPDX-License-Identifier: Apache-2.0
//
// Slices in words, the same for the summary of a solve and the page of a report.
#pragma once

#include <string>
#include <vector>

#include "model/schedule.hpp"

namespace remora::text {

/// "mm to dw, 6 ops, in 16 along axis 0 of mm: peak -1.20 GiB, minimum -1.70 GiB, time +2.10 ms" of each region.
std::vector<std::string> region_lines(const ScheduleSlices& slices, const std::string& duration_unit);

/// The answer without slices: "+11.800 %, +11.000 % at least", or that no schedule is. `schedule`: one with slices.
std::string without_slices_text(const Schedule& schedule);

}  // namespace remora::text
