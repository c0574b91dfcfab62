// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/progress_figures.hpp"

#include <algorithm>

namespace remora::cli {
namespace {

/// 0 where there is nothing to divide by.
double part(std::int64_t amount, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(amount) / static_cast<double>(whole) : 0.0;
}

}  // namespace

ProgressFigures progress_figures(const Instance& instance, const Progress& progress) {
  const Duration baseline = instance.baseline_duration();
  ProgressFigures figures;
  figures.feasible = progress.peak <= instance.budget();
  figures.overhead = part((progress.duration - baseline).count(), baseline.count());
  figures.bound = part((progress.lower_bound - baseline).count(), baseline.count());
  figures.filled = part(progress.peak.count(), std::max<std::int64_t>(1, instance.budget().count()));
  figures.gap = part((progress.duration - progress.lower_bound).count(), progress.duration.count());
  return figures;
}

}  // namespace remora::cli
