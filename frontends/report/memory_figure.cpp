// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/memory_figure.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "frontends/report/memory_unit.hpp"

namespace remora::report {
namespace {

constexpr std::size_t kMostPoints = 700;

/// A row of amounts as stairs, from its first step to the end of its last.
std::vector<std::pair<double, double>> stairs(const std::vector<Bytes>& row, const MemoryUnit& unit) {
  std::vector<std::pair<double, double>> points;
  const std::size_t bundle = (row.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < row.size(); i += bundle) {
    const auto end = row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), i + bundle));
    const Bytes most = *std::max_element(row.begin() + static_cast<std::ptrdiff_t>(i), end);
    points.emplace_back(static_cast<double>(i), unit.amount(most));
  }
  if (!points.empty()) points.emplace_back(static_cast<double>(row.size()), points.back().second);
  return points;
}

}  // namespace

std::vector<Bytes> memory_beside(const ScheduleProfile& profile) {
  const Replay& after = profile.after;
  if (after.ops.empty()) return profile.before.memory;
  std::vector<Bytes> beside(after.ops.size());
  std::size_t last = after.ops.size() - 1;
  while (after.again[last]) --last;
  OpId next = after.ops[last];
  for (std::size_t i = after.ops.size(); i-- > 0;) {
    if (!after.again[i]) next = after.ops[i];
    beside[i] = profile.before.memory[next];
  }
  return beside;
}

Figure memory_figure(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile) {
  const MemoryUnit unit = memory_unit_for(std::max({profile.before.peak, profile.after.peak, schedule.budget}));
  const std::vector<Bytes> before = memory_beside(profile);
  const double end = static_cast<double>(std::max(before.size(), profile.after.memory.size()));
  Panel panel;
  panel.x = {.label = "step"};
  panel.y = {.label = std::string("memory (") + unit.name + ")"};
  panel.series.push_back({"schedule", Join::steps, stairs(profile.after.memory, unit)});
  panel.series.push_back({"input order", Join::steps, stairs(before, unit)});
  const double budget = unit.amount(schedule.budget);
  panel.series.push_back({"budget", Join::steps, {{0, budget}, {end, budget}}});
  return {.title = graph.name + ": memory over steps", .panels = {panel}, .columns = 1};
}

}  // namespace remora::report
