// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontends/report/plot.hpp"
#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// Memory over steps: the input order, the schedule if there is one, the budget. Where first computes follow the input
/// order, each of its steps stands over the stage that runs the same op. Of more steps than a drawing can show, bundles
/// are drawn at their largest.
Figure memory_figure(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile);

/// What the input order holds beside each step of the schedule; of itself where there is no schedule. In free order
/// step beside step, and nothing beyond its end.
std::vector<Bytes> memory_beside(const ScheduleProfile& profile);

}  // namespace remora::report
