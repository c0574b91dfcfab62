// SPDX-License-Identifier: Apache-2.0
//
// Summaries of schedules for people, as lines of text.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "engine/ask/ask.hpp"
#include "frontends/report/profile.hpp"
#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// Columns of a summary where there is no terminal.
inline constexpr int kSummaryWidth = 100;

/// Width of the word that a line begins with.
inline constexpr std::size_t kWordColumns = 12;

/// Width of figures in a file or a pipe, where programs look for lines.
inline constexpr int kNoWidth = 1 << 20;

// `width`: columns that a line may take, from 60 on.

/// Peak before and after, extra time, bound and gap; or why there is no schedule.
void print_headline(std::ostream& out, const Graph& graph, const Schedule& schedule, int width = kSummaryWidth);

/// Summary of a finished solve: the headline, which ops are recomputed most, and how it went.
/// `refusal`: why there is no schedule; where that is not given, what the schedule says itself.
void print_summary(std::ostream& out, const Graph& graph, const Schedule& schedule, int width = kSummaryWidth,
                   const Refusal& refusal = {});

/// For which numbers of computes the bound of the line before is proved; nothing where that is not said.
void print_computes(std::ostream& out, Status status, const SolverReport& solver);

// A report for terminals: plain lines of UTF-8, no control codes.

/// Memory over steps in characters: the schedule as blocks, what the input order holds above it as shade, the budget as
/// a line where neither is. A column shows the largest of its steps. Rows count above fixed memory, which is a band.
///
///     7 B    |      ░
///     budget |---████-██
///            |  ███████
///     3 B    |█████████
///     fixed  |▒▒▒▒▒▒▒▒▒
void print_memory_chart(std::ostream& out, const report::ScheduleProfile& profile, Bytes budget, Bytes fixed,
                        int width = kSummaryWidth);

/// The lowest overhead known within each budget, as a chart of the same kind; empty where no schedule is known. Nothing
/// for fewer than three schedules, or if none takes more time.
void print_curve_chart(std::ostream& out, const Curve& curve, int width = kSummaryWidth);

/// The headline figures, memory over steps as a chart of characters, what is in memory at the peak, and which ops are
/// recomputed and why.
void print_report(std::ostream& out, const Graph& graph, const Schedule& schedule,
                  const report::ScheduleProfile& profile, int width = kSummaryWidth);

/// Why there is no schedule, on one line: "no schedule stays within 2 B (2 bytes): ..."; empty if there is one.
std::string refused_line(const Graph& graph, const Schedule& schedule, const Refusal& refusal);
std::string refused_line(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal);

// The same of a schedule over several devices.

/// Status, duration, energy and bound, how many steps, and the peak on each device; or why there is no schedule.
void print_summary(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                   int width = kSummaryWidth, const Refusal& refusal = {});

/// That, what each device holds over the steps, what each device and link takes, and the longest copies.
void print_report(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                  const report::DeviceProfile& profile, int width = kSummaryWidth);

/// ", 2 tensors of unknown size not counted"; empty where every size is known.
std::string unknown_text(const Graph& graph);

/// The name in `width` columns; of a longer one the middle is left out.
std::string fitted(const std::string& name, std::size_t width);

// Output of a sweep: a line after every session, and the curve at its end.
//
//      seconds        budget           part  status       overhead      bound   settled
//         0.31      9.42 GiB       87.500 %  feasible       1.63 %     0.51 %    3 of 7
//
// In less than 80 columns without the part of the peak, and what is settled or the peak.

class SweepTable {
 public:
  /// `baseline`: what of the curve does not depend on budgets.
  SweepTable(Curve baseline, std::ostream& out, int width = kSummaryWidth);

  void add(const SweepProgress& progress);

 private:
  Curve baseline_;
  std::ostream& out_;
  bool is_narrow_;
  bool header_printed_ = false;
};

/// A line a point, then the knee and the smallest budgets.
void print_curve(std::ostream& out, const Graph& graph, const Curve& curve, int width = kSummaryWidth);

}  // namespace remora::cli
