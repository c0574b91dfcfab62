// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/progress_bar.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string>

#include "frontends/cli/showing/progress_figures.hpp"
#include "frontends/text/amounts.hpp"

namespace remora::cli {
namespace {

constexpr double kSecondsBetween = 0.2;
constexpr std::size_t kWidth = 20;
/// Back to the line's begin and wipe it.
constexpr const char* kWipe = "\r\033[K";

}  // namespace

ProgressBar::~ProgressBar() {
  if (last_ >= 0) out_ << kWipe << std::flush;
}

double ProgressBar::part_used(const Progress& progress) const {
  double part = 0;
  if (options_.time_limit < kNoTimeLimit) part = progress.seconds / std::max(options_.time_limit, 1e-9);
  if (options_.work_limit > 0) {
    part = std::max(part, static_cast<double>(progress.work) / static_cast<double>(options_.work_limit));
  }
  return std::clamp(part, 0.0, 1.0);
}

void ProgressBar::show(const Progress& progress) {
  if (last_ >= 0 && progress.seconds < last_ + kSecondsBetween) return;
  last_ = progress.seconds;
  const double part = part_used(progress);
  std::string bar(static_cast<std::size_t>(part * kWidth), '=');
  if (bar.size() < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const ProgressFigures figures = progress_figures(instance_, progress);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%s[%s] %3.0f %%  %7.1f s  phase %d  ", kWipe, bar.c_str(), 100 * part,
                progress.seconds, progress.phase);
  out_ << line.data();
  if (figures.feasible) {
    out_ << "overhead " << text::percent_text(figures.overhead, 3) << "  gap " << text::percent_text(figures.gap, 3);
  } else {
    out_ << "peak " << text::percent_text(figures.filled, 1) << " of the budget";
  }
  out_ << std::flush;
}

}  // namespace remora::cli
