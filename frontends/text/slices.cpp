// SPDX-License-Identifier: Apache-2.0
#include "frontends/text/slices.hpp"

#include <cstddef>

#include "frontends/text/text.hpp"
#include "model/quote.hpp"

namespace remora::text {
namespace {

std::string lowered_text(Bytes bytes) {
  return bytes > Bytes() ? "-" + bytes_text(bytes) : "+" + bytes_text(Bytes() - bytes);
}

std::string raised_text(Duration duration, const std::string& unit) {
  return duration < Duration() ? "-" + duration_text(Duration() - duration, unit) : "+" + duration_text(duration, unit);
}

/// "mm to dw, 6 ops".
std::string ops_text(const NamedRegion& region) {
  std::size_t ops = 0;
  for (const auto& part : region.parts) ops += part.size();
  std::string first = printable(region.parts.front().front().op);
  if (ops == 1) return first;
  return first + " to " + printable(region.parts.back().back().op) + ", " + std::to_string(ops) + " ops";
}

}  // namespace

std::vector<std::string> region_lines(const ScheduleSlices& slices, const std::string& duration_unit) {
  std::vector<std::string> lines;
  for (const NamedRegion& region : slices.regions) {
    const NamedRegion::Member& first = region.parts.front().front();
    lines.push_back(ops_text(region) + ", in " + std::to_string(region.slices) + " along axis " +
                    std::to_string(first.axis) + " of " + printable(first.op) + ": peak " +
                    lowered_text(region.saved_peak) + ", minimum " + lowered_text(region.saved_minimum) + ", time " +
                    raised_text(region.cost, duration_unit));
  }
  return lines;
}

std::string without_slices_text(const Schedule& schedule) {
  const ScheduleSlices& slices = *schedule.slices;
  const auto overhead = [&](Duration duration) {
    const Duration baseline = schedule.baseline_duration;
    const double part = baseline > Duration()
                            ? static_cast<double>((duration - baseline).count()) / static_cast<double>(baseline.count())
                            : 0.0;
    return (part >= 0 ? "+" : "") + percent_text(part, 3);
  };
  if (slices.whole_status == Status::infeasible) return "no schedule stays within the budget";
  const std::string bound = overhead(slices.whole_lower_bound) + " at least";
  if (slices.whole_status == Status::unknown) return "no schedule was found, " + bound;
  return overhead(slices.whole_duration) + ", " + bound;
}

}  // namespace remora::text
