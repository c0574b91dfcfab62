// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// What a person wants to know of a finished solve: peak before and after, extra time, bound and gap, which ops are
/// recomputed most; or why there is no schedule.
void print_summary(std::ostream& out, const Graph& graph, const Schedule& schedule);

}  // namespace remora::cli
