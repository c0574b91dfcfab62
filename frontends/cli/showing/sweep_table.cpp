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

void print_mark(std::ostream& out, const char* word, const Curve& curve, const CurvePoint& point) {
  out << word << text::bytes_text(point.budget) << " (" << text::percent_text(curve.part_of_baseline(point.budget), 1)
      << "): " << text::percent_text(curve.overhead(point), 3) << " overhead\n";
}

}  // namespace

SweepTable::SweepTable(const Instance& instance, std::ostream& out) : out_(out) {
  baseline_.fixed_memory = instance.graph().fixed_memory;
  baseline_.baseline_duration = instance.baseline_duration();
  baseline_.baseline_peak_memory = baseline_peak(instance);
}

void SweepTable::add(const SweepProgress& progress) {
  if (!header_printed_) {
    out_ << "  seconds        budget      part  status        overhead       bound  settled\n";
    header_printed_ = true;
  }
  const CurvePoint point{.budget = progress.budget,
                         .status = progress.status,
                         .duration = progress.duration,
                         .lower_bound = progress.lower_bound};
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %12s  %8s  %-10s  %10s  %10s  %d of %d\n", progress.seconds,
                text::bytes_text(point.budget).c_str(),
                text::percent_text(baseline_.part_of_baseline(point.budget), 1).c_str(),
                json::status_word(point.status).c_str(), overhead_text(baseline_, point).c_str(),
                text::percent_text(baseline_.least_overhead(point), 3).c_str(), progress.settled, progress.points);
  out_ << line.data() << std::flush;
}

void print_curve(std::ostream& out, const Graph& graph, const Curve& curve) {
  out << "graph       " << printable(graph.name) << ": " << graph.ops.size() << " ops, peak "
      << text::bytes_text(curve.baseline_peak_memory) << " without recompute\n"
      << "      budget      part    overhead       bound          peak  status\n";
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    // A byte below the least budget nothing fits: one row says both.
    const bool is_least = point.has_schedule() && point.budget == curve.least_budget;
    const bool is_a_byte_below = i + 1 < curve.points.size() && !point.has_schedule() &&
                                 curve.points[i + 1].has_schedule() &&
                                 point.budget + Bytes(1) == curve.points[i + 1].budget;
    if (is_a_byte_below) continue;
    std::array<char, 160> line{};
    const std::string bound =
        point.status == Status::infeasible ? "-" : text::percent_text(curve.least_overhead(point), 3);
    const std::string peak = point.has_schedule() ? text::bytes_text(point.peak_memory) : "-";
    std::snprintf(
        line.data(), line.size(), "%12s  %8s  %10s  %10s  %12s  %s%s\n", text::bytes_text(point.budget).c_str(),
        text::percent_text(curve.part_of_baseline(point.budget), 1).c_str(), overhead_text(curve, point).c_str(),
        bound.c_str(), peak.c_str(), json::status_word(point.status).c_str(), is_least ? ", the least budget" : "");
    out << line.data();
  }
  if (curve.knee) print_mark(out, "knee        ", curve, curve.points[*curve.knee]);
  if (const auto smallest = curve.smallest_feasible()) {
    print_mark(out, "smallest    ", curve, curve.points[*smallest]);
  }
  out << "proved      no schedule holds less than " << text::bytes_text(curve.least_budget) << " ("
      << curve.least_budget.count() << " bytes)\n";
}

}  // namespace remora::cli
