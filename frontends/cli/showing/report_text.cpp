// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/report_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "frontends/cli/showing/summary.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/text/amounts.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

constexpr std::size_t kColumns = 72;
constexpr int kRows = 12;
constexpr int kEighths = 8;
constexpr int kLabel = 12;

/// The largest amount of each column, in eighths of a row; `columns` of them over `steps` steps.
std::vector<int> heights(const std::vector<Bytes>& row, std::size_t columns, std::size_t steps, double most) {
  std::vector<int> eighths(columns, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A step is as wide as several columns where there are fewer steps.
    const std::size_t first = i * columns / steps;
    const std::size_t end = std::max(first + 1, (i + 1) * columns / steps);
    const int height = static_cast<int>(std::lround(static_cast<double>(row[i].count()) / most * kRows * kEighths));
    for (std::size_t column = first; column < end; ++column) eighths[column] = std::max(eighths[column], height);
  }
  return eighths;
}

}  // namespace

void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget) {
  constexpr std::array kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<Bytes> beside = report::memory_beside(profile);
  const std::size_t steps = std::max(beside.size(), profile.after.memory.size());
  if (steps == 0) return;
  const Bytes most = std::max({profile.before.peak, profile.after.peak, Bytes(1)});
  const auto scale = static_cast<double>(most.count());
  const std::vector<int> before = heights(beside, kColumns, steps, scale);
  const std::vector<int> after = heights(profile.after.memory, kColumns, steps, scale);
  const bool shown = budget <= most;
  const int budget_row = shown ? static_cast<int>(static_cast<double>(budget.count()) / scale * kRows - 1e-9) : -1;
  for (int row = kRows - 1; row >= 0; --row) {
    const std::string label = row == budget_row  ? "budget"
                              : row == kRows - 1 ? text::bytes_text(most)
                              : row == 0         ? "0 B"
                                                 : "";
    out << std::setw(kLabel) << std::left << label << std::right << "|";
    for (std::size_t column = 0; column < kColumns; ++column) {
      const int filled = std::clamp(after[column] - row * kEighths, 0, kEighths);
      const bool shade = before[column] - row * kEighths > kEighths / 2;
      out << (filled > 0 ? kBlocks[static_cast<std::size_t>(filled)] : shade ? "░" : row == budget_row ? "-" : " ");
    }
    out << "\n";
  }
  out << std::string(kLabel, ' ') << " " << (profile.after.memory.empty() ? "" : "█ schedule   ")
      << "░ input order without recompute   " << text::grouped(static_cast<std::int64_t>(steps)) << " steps\n";
}

namespace {

constexpr std::size_t kResidentsShown = 8;
constexpr int kName = 36;

void print_peak(std::ostream& out, const Graph& graph, const report::Replay& replay) {
  if (replay.peak_step < 0) return;
  const OpId op = replay.ops[static_cast<std::size_t>(replay.peak_step)];
  out << "\nat the peak, step " << text::grouped(replay.peak_step) << " (" << printable(graph.ops[op].name)
      << "): " << text::bytes_text(replay.peak) << "\n";
  const std::vector<std::size_t> found = residents(graph, replay, replay.peak_step);
  Bytes rest;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor& tensor = graph.tensors[replay.residences[found[i]].tensor];
    if (i >= kResidentsShown) {
      rest += tensor.size;
    } else {
      out << "  " << std::left << std::setw(kName) << printable(tensor.name) << std::right << std::setw(12)
          << text::bytes_text(tensor.size) << "\n";
    }
  }
  const auto print_rest = [&](const std::string& what, Bytes bytes) {
    if (bytes == Bytes(0)) return;
    out << "  " << std::left << std::setw(kName) << what << std::right << std::setw(12) << text::bytes_text(bytes)
        << "\n";
  };
  if (found.size() > kResidentsShown) {
    print_rest("and " + std::to_string(found.size() - kResidentsShown) + " more tensors", rest);
  }
  print_rest("workspace", graph.ops[op].workspace);
  print_rest("fixed memory and graph inputs", replay.base);
}

std::string overload_text(const Graph& graph, const report::Overload& overload) {
  return text::bytes_text(overload.above) + " too much at " + printable(graph.ops[overload.op].name) + ", " +
         text::grouped(overload.steps) + (overload.steps == 1 ? " step" : " steps");
}

std::string reason(const Graph& graph, const report::RecomputedOp& row) {
  if (row.relieved.steps > 0) return overload_text(graph, row.relieved) + " of the input order above the budget";
  if (row.if_kept.steps > 0) return "if kept, " + overload_text(graph, row.if_kept) + " above the budget";
  return row.saved > Bytes(0) ? "no overload: it would have fitted" : "nothing: its outputs were still in memory";
}

void print_reasons(std::ostream& out, const Graph& graph, const report::ScheduleProfile& profile) {
  if (profile.recomputed_ops.empty()) return;
  const std::string unit = text::duration_unit_of(graph);
  out << "\n"
      << std::left << std::setw(kName) << "recomputed" << std::right << std::setw(6) << "times" << std::setw(14)
      << "paid" << std::setw(14) << "saved"
      << "  relieves\n";
  for (const report::RecomputedOp& row : profile.recomputed_ops) {
    out << std::left << std::setw(kName) << printable(graph.ops[row.op].name) << std::right << std::setw(6) << row.times
        << std::setw(14) << text::duration_text(row.paid, unit) << std::setw(14) << text::bytes_text(row.saved) << "  "
        << reason(graph, row) << "\n";
  }
}

}  // namespace

void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile) {
  print_headline(out, graph, schedule);
  out << "\n";
  print_memory_chart(out, profile, schedule.budget);
  print_peak(out, graph, schedule.has_steps() ? profile.after : profile.before);
  print_reasons(out, graph, profile);
}

}  // namespace remora::cli
