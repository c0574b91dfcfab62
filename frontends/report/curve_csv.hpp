// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "model/curve.hpp"

namespace remora::report {

/// The curve as comma-separated values, a line a point after one of column names: bytes, durations in the graph's unit,
/// and parts of one, all exact. Empty where there is no value; the mark is "knee", "smallest" (feasible) or both.
///
///     budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark,schedule
void write_curve_csv(std::ostream& out, const Curve& curve);

}  // namespace remora::report
