// SPDX-License-Identifier: Apache-2.0
//
// The two ways through a sweep's budgets. Both take them as the choice gives them, and return what came of each, by
// budget ascending.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/curve/budget_choice.hpp"
#include "engine/curve/curve_assembly.hpp"
#include "engine/sweep.hpp"
#include "model/instance.hpp"

namespace remora {

/// What all passes of one sweep work on. The limits of the options are the sweep's.
struct SweepInput {
  const Instance& instance;
  const SolveOptions& options;
  const SweepCallbacks& callbacks;
  const Deadline& deadline;
};

/// By strategies that search: every budget's search is left and taken up again (probe.hpp).
std::vector<Outcome> sweep_by_search(const SweepInput& input, BudgetChoice choice);

/// By methods that do not search: each budget for itself, once.
std::vector<Outcome> sweep_by_method(const SweepInput& input, BudgetChoice choice);

/// A part of a work limit; in double, for limits near the largest.
inline std::int64_t part_of(std::int64_t work, double part) {
  return static_cast<std::int64_t>(std::min(static_cast<double>(work) * part, 9e18));
}

}  // namespace remora
