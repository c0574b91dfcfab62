// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/curve/budget_choice.hpp"
#include "engine/curve/outcomes.hpp"
#include "engine/curve/sweep_types.hpp"
#include "model/instance.hpp"

namespace remora {

/// What one sweep works on. The limits of the options are the sweep's.
struct SweepInput {
  const Instance& instance;
  const SolveOptions& options;
  const SweepCallbacks& callbacks;
  const Deadline& deadline;
};

/// By strategies that search: takes the budgets as the choice gives them; every budget's search is left and taken up
/// again (probe.hpp). What came of each, by budget ascending.
std::vector<Outcome> sweep_by_search(const SweepInput& input, BudgetChoice choice);

}  // namespace remora
