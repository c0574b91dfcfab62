// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <vector>

#include "engine/base/options.hpp"
#include "model/instance.hpp"

namespace remora {

/// The smallest budget for which a schedule of the staged form exists lies within [proved, reached].
struct BudgetBracket {
  /// No schedule holds a budget of less.
  Bytes proved{};
  /// The peak of a schedule that was found.
  Bytes reached{};
  /// Its ops, if they are known; they are not where ops have several modes.
  std::vector<OpId> sequence{};
};

/// Bisects for the lower end, then searches at that budget (phase 1) within the options' limits. The instance's own
/// budget does not matter. Throws InputError where every op once by mode 0 is not allowed. `cancel`, which may be null, ends it with the bracket at hand.
BudgetBracket bracket_min_budget(const Instance& instance, const SolveOptions& options,
                                 const std::atomic<bool>* cancel = nullptr);

}  // namespace remora
