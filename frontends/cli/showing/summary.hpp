// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// Peak before and after, extra time, bound and gap; or why there is no schedule.
void print_headline(std::ostream& out, const Graph& graph, const Schedule& schedule);

/// What a person wants to know of a finished solve: the headline, which ops are recomputed most, and how it went.
void print_summary(std::ostream& out, const Graph& graph, const Schedule& schedule);

}  // namespace remora::cli
