// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/progress_table.hpp"

#include <array>
#include <cstdio>
#include <ostream>

#include "frontends/cli/showing/progress_figures.hpp"
#include "frontends/text/amounts.hpp"

namespace remora::cli {
namespace {

constexpr double kSecondsBetweenBounds = 0.5;

}  // namespace

void ProgressTable::print_header() {
  out_ << "  seconds  phase  worker            overhead  peak/budget      bound        gap\n";
  header_printed_ = true;
}

void ProgressTable::add(const Progress& progress) {
  const bool only_bound = header_printed_ && progress.phase == last_.phase && progress.duration == last_.duration &&
                          progress.peak == last_.peak;
  const bool closed = progress.duration <= progress.lower_bound;
  if (only_bound && !closed && progress.seconds < last_bound_line_ + kSecondsBetweenBounds) return;
  if (only_bound) last_bound_line_ = progress.seconds;
  if (!header_printed_) print_header();
  last_ = progress;

  const ProgressFigures figures = progress_figures(instance_, progress);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %5d  %-12s  %12s  %11s  %9s  %9s\n", progress.seconds, progress.phase,
                news_name(progress), text::percent_text(figures.overhead, 3).c_str(),
                text::percent_text(figures.filled, 1).c_str(), text::percent_text(figures.bound, 3).c_str(),
                figures.feasible ? text::percent_text(figures.gap, 3).c_str() : "-");
  out_ << line.data() << std::flush;
}

}  // namespace remora::cli
