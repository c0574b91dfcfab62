// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/solve.hpp"
#include "model/instance.hpp"

namespace remora::cli {

/// A moment of a solve as parts of one.
struct ProgressFigures {
  bool feasible = false;
  /// Of the schedule and of the lower bound, beyond every op once.
  double overhead = 0;
  double bound = 0;
  /// Peak by budget.
  double filled = 0;
  /// Means nothing above the budget.
  double gap = 0;
};

ProgressFigures progress_figures(const Instance& instance, const Progress& progress);

}  // namespace remora::cli
