// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "model/instance.hpp"

namespace remora {

/// No schedule of the staged form holds a smaller budget: by the footprints and the covering relaxation, in exact
/// arithmetic. By bisection, down to this part of the budgets in question; what the deadline leaves open is not
/// refuted. The instance's own budget does not matter.
Bytes proved_least_budget(const Instance& instance, const Deadline& deadline, double resolution = 0);

/// The smallest budget for which a schedule of the staged form exists lies within [proved, reached].
struct BudgetBracket {
  /// No schedule holds a budget of less.
  Bytes proved{};
  /// The peak of a schedule that was found.
  Bytes reached{};
};

/// Bisects for the lower end, then searches at that budget (phase 1) within the options' limits. The instance's own
/// budget does not matter.
BudgetBracket bracket_min_budget(const Instance& instance, const SolveOptions& options);

}  // namespace remora
