// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/options.hpp"
#include "model/instance.hpp"

namespace remora {

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
