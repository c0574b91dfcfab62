// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/progress_table.hpp"

#include <array>
#include <cstdio>
#include <ostream>

#include "frontends/cli/amounts.hpp"

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

  const auto baseline = static_cast<double>(instance_.baseline_duration().count());
  const auto over = [&](Duration duration) {
    const auto extra = static_cast<double>((duration - instance_.baseline_duration()).count());
    return baseline > 0 ? extra / baseline : 0.0;
  };
  const double filled = static_cast<double>(progress.peak.count()) /
                        static_cast<double>(std::max<std::int64_t>(1, instance_.budget().count()));
  // Above the budget there is no schedule yet whose distance from the bound would mean anything.
  const bool feasible = progress.peak <= instance_.budget();
  const double gap = static_cast<double>((progress.duration - progress.lower_bound).count()) /
                     static_cast<double>(std::max<std::int64_t>(1, progress.duration.count()));
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %5d  %-12s  %12s  %11s  %9s  %9s\n", progress.seconds, progress.phase,
                progress.source.c_str(), percent_text(over(progress.duration), 3).c_str(),
                percent_text(filled, 1).c_str(), percent_text(over(progress.lower_bound), 3).c_str(),
                feasible ? percent_text(gap, 3).c_str() : "-");
  out_ << line.data() << std::flush;
}

}  // namespace remora::cli
