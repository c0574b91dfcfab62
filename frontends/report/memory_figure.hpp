// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontends/report/plot.hpp"
#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// Memory over steps: the input order, the schedule if there is one, the budget. What
/// the input order holds at an op stands over the first compute of that op (see memory_beside). Of more steps than a
/// drawing can show, bundles are drawn at their largest.
Figure memory_figure(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile);

/// What the input order holds beside each step of the schedule; of itself where there is no schedule. In either
/// order: what it holds at the op that the step first computes, at a recompute that of the next first compute, and
/// after the last of these its own.
std::vector<Bytes> memory_beside(const ScheduleProfile& profile);

}  // namespace remora::report
