// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/sweep_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string>

#include "frontends/formats/keys.hpp"
#include "frontends/text/text.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

std::string overhead_text(const Curve& curve, const CurvePoint& point) {
  return point.has_schedule() ? text::percent_text(curve.overhead(point), 3) : "-";
}

constexpr int kWide = 80;

/// `text` at the right of `width` columns, behind two blanks.
std::string cell(const std::string& text, std::size_t width) {
  return (text.size() < width ? std::string(width - text.size(), ' ') : "") + text + "  ";
}

void print_mark(std::ostream& out, const char* word, const Curve& curve, const CurvePoint& point) {
  out << word << text::bytes_text(point.budget) << " (" << text::percent_text(curve.part_of_baseline(point.budget), 1)
      << "): " << text::percent_text(curve.overhead(point), 3) << " overhead\n";
}

}  // namespace

SweepTable::SweepTable(const Instance& instance, std::ostream& out, int width) : out_(out), is_narrow_(width < kWide) {
  baseline_.fixed_memory = instance.graph().fixed_memory;
  baseline_.baseline_duration = instance.baseline_duration();
  baseline_.baseline_peak_memory = baseline_peak(instance);
}

void SweepTable::add(const SweepProgress& progress) {
  if (!header_printed_) {
    out_ << cell("seconds", 9) << cell("budget", 12) << (is_narrow_ ? "" : cell("part", 8)) << "status    "
         << cell("overhead", 10) << "     bound" << (is_narrow_ ? "" : "  settled") << "\n";
    header_printed_ = true;
  }
  const CurvePoint point{.budget = progress.budget,
                         .status = progress.status,
                         .duration = progress.duration,
                         .lower_bound = progress.lower_bound};
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", progress.seconds);
  std::string status = json::status_word(point.status);
  status.resize(10, ' ');
  out_ << cell(seconds.data(), 9) << cell(text::bytes_text(point.budget), 12)
       << (is_narrow_ ? "" : cell(text::percent_text(baseline_.part_of_baseline(point.budget), 1), 8)) << status
       << cell(overhead_text(baseline_, point), 10) << cell(text::percent_text(baseline_.least_overhead(point), 3), 10);
  if (!is_narrow_) out_ << progress.settled << " of " << progress.points;
  out_ << "\n" << std::flush;
}

void print_curve(std::ostream& out, const Graph& graph, const Curve& curve, int width) {
  const bool is_narrow = width < kWide;
  const std::size_t part = is_narrow ? 7 : 8;
  const std::size_t figure = is_narrow ? 9 : 10;
  out << "graph       " << (graph.name.empty() ? "without a name" : printable(graph.name)) << ": " << graph.ops.size()
      << " ops, peak " << text::bytes_text(curve.baseline_peak_memory) << " without recompute\n"
      << cell("budget", 12) << cell("part", part) << cell("overhead", figure) << cell("bound", figure)
      << (is_narrow ? "" : cell("peak", 12)) << "status\n";
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    // A byte below the least budget nothing fits: one row says both.
    const bool is_least = point.has_schedule() && point.budget == curve.least_budget;
    const bool is_a_byte_below = i + 1 < curve.points.size() && !point.has_schedule() &&
                                 curve.points[i + 1].has_schedule() &&
                                 point.budget + Bytes(1) == curve.points[i + 1].budget;
    if (is_a_byte_below) continue;
    const std::string bound =
        point.status == Status::infeasible ? "-" : text::percent_text(curve.least_overhead(point), 3);
    const std::string peak = point.has_schedule() ? text::bytes_text(point.peak_memory) : "-";
    out << cell(text::bytes_text(point.budget), 12)
        << cell(text::percent_text(curve.part_of_baseline(point.budget), 1), part)
        << cell(overhead_text(curve, point), figure) << cell(bound, figure) << (is_narrow ? "" : cell(peak, 12))
        << json::status_word(point.status)
        << (!is_least   ? ""
            : is_narrow ? ", least"
                        : ", the least budget")
        << "\n";
  }
  if (curve.knee) print_mark(out, "knee        ", curve, curve.points[*curve.knee]);
  if (const auto smallest = curve.smallest_feasible()) {
    print_mark(out, "smallest    ", curve, curve.points[*smallest]);
  }
  const std::string proved = "no schedule holds less than " + text::bytes_text(curve.least_budget) + " (" +
                             std::to_string(curve.least_budget.count()) + " bytes)";
  out << "proved      " << text::wrapped(proved, 12, 12, static_cast<std::size_t>(width)) << "\n";
}

}  // namespace remora::cli
