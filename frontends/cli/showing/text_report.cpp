// SPDX-License-Identifier: Apache-2.0
//
// A report for terminals.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/text/text.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

/// The minimum width of a chart.
constexpr int kMinColumns = 40;
constexpr int kMaxColumns = 160;
constexpr int kRows = 12;
constexpr int kEighths = 8;
constexpr int kLabel = 12;

constexpr int kCurveRows = 8;

/// The largest amount above fixed memory in each column, in eighths of a row; `columns` of them over `steps` steps.
std::vector<int> heights(const std::vector<Bytes>& row, Bytes fixed, std::size_t columns, std::size_t steps,
                         double most) {
  std::vector<int> eighths(columns, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A step is as wide as several columns where there are fewer steps.
    const std::size_t first = i * columns / steps;
    const std::size_t end = std::max(first + 1, (i + 1) * columns / steps);
    const auto above = static_cast<double>((row[i] - fixed).count());
    const int height = static_cast<int>(std::lround(above / most * kRows * kEighths));
    for (std::size_t column = first; column < end; ++column) eighths[column] = std::max(eighths[column], height);
  }
  return eighths;
}

std::size_t chart_columns(int width) {
  return static_cast<std::size_t>(std::clamp(width - kLabel - 1, kMinColumns, kMaxColumns));
}

/// Columns of blocks with `label_of(row)` on the left: `solid` (in eighths of a row) in front of `light`. `marked`: a row
/// that is dashed where it is empty, or -1.
template <class LabelOf>
void print_blocks(std::ostream& out, int rows, const std::vector<int>& solid, const std::vector<int>& light, int marked,
                  const LabelOf& label_of) {
  constexpr std::array kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  for (int row = rows - 1; row >= 0; --row) {
    out << std::setw(kLabel) << std::left << label_of(row) << std::right << "|";
    for (std::size_t column = 0; column < solid.size(); ++column) {
      const int filled = std::clamp(solid[column] - row * kEighths, 0, kEighths);
      const bool shade = light[column] - row * kEighths > kEighths / 2;
      out << (filled > 0 ? kBlocks[static_cast<std::size_t>(filled)] : shade ? "░" : row == marked ? "-" : " ");
    }
    out << "\n";
  }
}

}  // namespace

void print_curve_chart(std::ostream& out, const Curve& curve, int width) {
  const auto found = [](const CurvePoint& point) { return point.has_schedule(); };
  const auto first = std::find_if(curve.points.begin(), curve.points.end(), found);
  // A line through two points shows nothing that the table does not.
  if (std::count_if(first, curve.points.end(), found) < 3) return;
  double most = 0;
  for (const CurvePoint& point : curve.points) most = std::max(most, found(point) ? curve.overhead(point) : 0);
  if (most <= 0) return;
  const std::size_t columns = chart_columns(width);
  const Bytes least = curve.points.front().budget;
  const auto range = static_cast<double>((curve.points.back().budget - least).count());
  std::vector<int> eighths(columns, 0);
  for (std::size_t column = 0; column < columns; ++column) {
    const Bytes budget =
        least + Bytes(std::llround(range * static_cast<double>(column + 1) / static_cast<double>(columns)));
    double lowest = -1;
    for (const CurvePoint& point : curve.points) {
      if (!found(point) || point.budget > budget) continue;
      lowest = lowest < 0 ? curve.overhead(point) : std::min(lowest, curve.overhead(point));
    }
    if (lowest >= 0)
      eighths[column] = std::max(1, static_cast<int>(std::lround(lowest / most * kCurveRows * kEighths)));
  }
  print_blocks(out, kCurveRows, eighths, eighths, -1, [&](int row) {
    return row == kCurveRows - 1 ? text::percent_text(most, 3) : std::string(row == 0 ? "overhead" : "");
  });
  const std::string left = text::bytes_text(least);
  const std::string right = text::bytes_text(curve.points.back().budget);
  out << "budget" << std::string(kLabel - 5, ' ') << left << std::string(columns - left.size() - right.size(), ' ')
      << right << "\n";
}

void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget, Bytes fixed,
                        int width) {
  const std::vector<Bytes> beside = report::memory_beside(profile);
  const std::size_t steps = std::max(beside.size(), profile.after.memory.size());
  if (steps == 0) return;
  const Bytes most = std::max({profile.before.peak, profile.after.peak, fixed + Bytes(1)});
  const std::size_t columns = chart_columns(width);
  const auto scale = static_cast<double>((most - fixed).count());
  const std::vector<int> before = heights(beside, fixed, columns, steps, scale);
  const std::vector<int> after = heights(profile.after.memory, fixed, columns, steps, scale);
  const bool shown = budget <= most && budget >= fixed;
  const int budget_row =
      shown ? static_cast<int>(static_cast<double>((budget - fixed).count()) / scale * kRows - 1e-9) : -1;
  print_blocks(out, kRows, after, before, budget_row, [&](int row) {
    return row == budget_row  ? std::string("budget")
           : row == kRows - 1 ? text::bytes_text(most)
           : row == 0         ? text::bytes_text(fixed)
                              : std::string();
  });
  if (fixed > Bytes(0)) {
    out << std::setw(kLabel) << std::left << "fixed" << std::right << "|";
    for (std::size_t column = 0; column < columns; ++column) out << "▒";
    out << "\n";
  }
  out << std::string(kLabel, ' ') << " " << (profile.after.memory.empty() ? "" : "█ schedule   ") << "░ input order   "
      << text::grouped(static_cast<std::int64_t>(steps)) << " steps\n";
}

namespace {

constexpr std::size_t kResidentsShown = 8;
constexpr std::size_t kName = 36;

void print_peak(std::ostream& out, const Graph& graph, const report::Replay& replay) {
  if (replay.peak_step < 0) return;
  const OpId op = replay.ops[static_cast<std::size_t>(replay.peak_step)];
  out << "\nat the peak, step " << text::grouped(replay.peak_step) << " (" << printable(graph.ops[op].name)
      << "): " << text::bytes_text(replay.peak) << "\n";
  const std::vector<std::size_t> found = residents(replay, replay.peak_step);
  const auto print_row = [&](const std::string& what, Bytes bytes) {
    const std::string amount = bytes < Bytes(0) ? "-" + text::bytes_text(Bytes(0) - bytes) : text::bytes_text(bytes);
    out << "  " << fitted(what, kName) << std::setw(12) << amount << "\n";
  };
  Bytes rest;
  const Bytes workspace = replay.workspaces[static_cast<std::size_t>(replay.peak_step)];
  Bytes sum = replay.base + workspace;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor& tensor = graph.tensors[replay.stays[found[i]].tensor];
    const Bytes size = replay.stays[found[i]].size;
    sum += size;
    if (i >= kResidentsShown) {
      rest += size;
    } else {
      print_row(printable(tensor.name), size);
    }
  }
  const auto print_rest = [&](const std::string& what, Bytes bytes) {
    if (bytes != Bytes(0)) print_row(what, bytes);
  };
  if (found.size() > kResidentsShown) {
    print_rest("and " + std::to_string(found.size() - kResidentsShown) + " more tensors", rest);
  }
  print_rest("workspace", workspace);
  print_rest(replay.peak > sum ? "older copies of its outputs" : "taken over in place", replay.peak - sum);
  print_rest("graph inputs", replay.base - graph.fixed_memory);
  print_rest("fixed memory", graph.fixed_memory);
  print_row("sum", replay.peak);
}

/// "690.00 MiB at conv5".
std::string overload_text(const Graph& graph, const report::Overload& overload) {
  return text::bytes_text(overload.above) + " at " + printable(graph.ops[overload.op].name);
}

std::string reason(const Graph& graph, const report::RecomputedOp& row) {
  if (row.relieved.steps > 0) return overload_text(graph, row.relieved);
  if (row.if_kept.steps > 0) return "if kept: " + overload_text(graph, row.if_kept);
  return row.saved > Bytes(0) ? "no overload: it would have fitted" : "nothing: its outputs were still in memory";
}

void print_reasons(std::ostream& out, const Graph& graph, const report::ScheduleProfile& profile, int width) {
  if (profile.recomputed_ops.empty()) return;
  const std::string unit = text::duration_unit_of(graph);
  constexpr std::size_t kMinPaid = 14;
  std::size_t paid = kMinPaid;
  for (const report::RecomputedOp& row : profile.recomputed_ops) {
    paid = std::max(paid, text::duration_text(row.paid, unit).size() + 2);
  }
  constexpr int kBeside = 100;
  const bool is_narrow = width < kBeside;
  const auto columns = static_cast<std::size_t>(width);
  constexpr std::size_t kMinName = 8;
  const std::size_t name = std::clamp(columns - std::min(columns, paid + 27), kMinName, kName);
  const std::string begin = is_narrow ? "\n    relieves " : "  ";
  out << "\n"
      << fitted("recomputed", name) << std::setw(6) << "times" << std::setw(static_cast<int>(paid)) << "paid"
      << std::setw(14) << "saved" << std::setw(7) << "steps" << (is_narrow ? "" : "  relieves") << "\n";
  std::string before;
  for (const report::RecomputedOp& row : profile.recomputed_ops) {
    const std::string why = reason(graph, row);
    out << fitted(printable(graph.ops[row.op].name), name) << std::setw(6) << row.times
        << std::setw(static_cast<int>(paid)) << text::duration_text(row.paid, unit) << std::setw(14)
        << text::bytes_text(row.saved) << std::setw(7)
        << text::grouped(row.relieved.steps > 0 ? row.relieved.steps : row.if_kept.steps) << begin
        << (why == before ? "the same" : why) << "\n";
    before = why;
  }
  out << text::wrapped(
             "relieves: by how much the input order exceeds the budget at its worst while the outputs are away, and at "
             "how many steps; if kept: by how much this schedule would",
             0, 0, columns)
      << "\n";
}

/// "mode 0 is 4 faster, but 5 B above the budget at L".
std::string reason(const Graph& graph, const report::SlowerMode& row) {
  const std::string faster = "mode " + std::to_string(row.faster) + " is " +
                             text::duration_text(row.saved, text::duration_unit_of(graph)) + " faster, ";
  const report::Overload& over = row.if_faster;
  if (over.steps == 0) return faster + "and would fit";
  return faster + "but " + text::bytes_text(over.above) + " above the budget at " + printable(graph.ops[over.op].name);
}

void print_slower_modes(std::ostream& out, const Graph& graph, const report::ScheduleProfile& profile, int width) {
  if (!has_modes(graph) || profile.after.ops.empty()) return;
  if (profile.slower_modes.empty()) {
    out << "\nevery run is by its fastest mode\n";
    return;
  }
  constexpr std::size_t kModeName = 20;
  out << "\n"
      << fitted("by a slower mode", kModeName) << std::setw(6) << "mode"
      << "  why\n";
  for (const report::SlowerMode& row : profile.slower_modes) {
    out << fitted(printable(graph.ops[row.op].name), kModeName) << std::setw(6) << row.mode << "  "
        << text::wrapped(reason(graph, row), kModeName + 8, kModeName + 8, static_cast<std::size_t>(width)) << "\n";
  }
}

}  // namespace

void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile, int width) {
  print_headline(out, graph, schedule, width);
  out << "\n";
  print_memory_chart(out, profile, schedule.budget, graph.fixed_memory, width);
  print_peak(out, graph, schedule.has_steps() ? profile.after : profile.before);
  print_reasons(out, graph, profile, width);
  print_slower_modes(out, graph, profile, width);
}

namespace {

constexpr std::size_t kTransfersShown = 8;
constexpr std::size_t kLaneName = 20;

/// A device's memory over the steps, in one line of characters of which the highest is `most`.
std::string memory_line(const std::vector<Bytes>& memory, Bytes fixed, Bytes most, std::size_t columns) {
  constexpr std::array kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto scale = static_cast<double>(std::max((most - fixed).count(), std::int64_t{1})) * kRows;
  std::string line;
  for (const int height : heights(memory, fixed, columns, memory.size(), scale)) {
    line += kBlocks[static_cast<std::size_t>(std::clamp(height, 0, kEighths))];
  }
  return line;
}

void print_spent(std::ostream& out, const report::Spent& spent, const DeviceSchedule& schedule,
                 const std::string& unit) {
  const double all = static_cast<double>(std::max(schedule.duration.count(), std::int64_t{1}));
  out << std::setw(14) << text::duration_text(spent.duration, unit) << std::setw(10)
      << text::percent_text(static_cast<double>(spent.duration.count()) / all, 1);
  if (schedule.energy > Energy(0)) out << std::setw(16) << text::grouped(spent.energy.count());
  out << "\n";
}

void print_lanes(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                 const report::DeviceProfile& profile) {
  const std::string unit = text::duration_unit_of(graph.graph);
  const auto begin = [&](const std::string& name, int times, int again, const std::string& bytes) {
    out << fitted(printable(name), kLaneName) << std::setw(8) << text::grouped(times) << std::setw(8)
        << (bytes.empty() ? text::grouped(again) : "") << std::setw(14) << bytes;
  };
  out << "\n"
      << fitted("lane or link", kLaneName) << std::setw(8) << "steps" << std::setw(8) << "again" << std::setw(14)
      << "copied" << std::setw(14) << "time" << std::setw(10) << "of all"
      << (schedule.energy > Energy(0) ? "          energy" : "") << "\n";
  const std::vector<std::string> names = report::stream_names(graph, profile);
  std::size_t stream = 0;
  for (const report::LaneUse& lane : profile.lanes) {
    begin(names[stream++], lane.times, lane.again, "");
    print_spent(out, lane, schedule, unit);
  }
  for (const report::LinkUse& link : profile.links) {
    begin(names[stream++], link.times, 0, text::bytes_text(link.bytes));
    print_spent(out, link, schedule, unit);
  }
  if (profile.transfers.empty()) return;
  out << "\ncopies that take longest\n";
  for (std::size_t i = 0; i < std::min(kTransfersShown, profile.transfers.size()); ++i) {
    const report::Transfer& copies = profile.transfers[i];
    out << "  " << fitted(printable(graph.graph[copies.tensor].name), kName) << "  "
        << fitted(printable(report::link_name(graph, copies.from, copies.to)), kLaneName) << std::setw(6)
        << copies.times << "x" << std::setw(14) << text::bytes_text(copies.bytes) << std::setw(14)
        << text::duration_text(copies.duration, unit) << "\n";
  }
  if (profile.transfers.size() > kTransfersShown) {
    out << "  and " << profile.transfers.size() - kTransfersShown << " more\n";
  }
}

}  // namespace

void print_report(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                  const report::DeviceProfile& profile, int width) {
  print_summary(out, graph, schedule, width);
  if (!schedule.has_schedule()) return;
  out << "\nmemory over steps, the highest at the budget or the peak\n";
  const auto columns =
      static_cast<std::size_t>(std::clamp(width - static_cast<int>(kLaneName) - 2, kMinColumns, kMaxColumns));
  for (const DeviceId d : graph.devices.ids()) {
    const Bytes most = std::max(profile.peak[d], schedule.budget[d].value_or(Bytes(0)));
    out << fitted(printable(graph.devices[d].name), kLaneName) << "|"
        << memory_line(profile.memory[d], graph.devices[d].fixed_memory, most, columns) << "|\n";
  }
  print_lanes(out, graph, schedule, profile);
}

}  // namespace remora::cli
