// SPDX-License-Identifier: Apache-2.0
#include "engine/sweep.hpp"

#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/footprint.hpp"
#include "engine/bound/min_budget.hpp"
#include "engine/curve/budget_choice.hpp"
#include "engine/curve/curve_assembly.hpp"
#include "engine/curve/passes.hpp"
#include "engine/solve.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

/// Of the time limit, for the least budget's bound.
constexpr double kLeastBudgetShare = 0.05;
/// No schedule holds a smaller budget. Bisection begins there, so it is worth some time; a list does without.
Bytes lower_end(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                const SweepCallbacks& callbacks) {
  if (!sweep_options.budgets.empty()) return least_budget(instance);
  // Under a work limit nothing may depend on time.
  const double seconds = options.work_limit > 0 ? kNoTimeLimit : options.time_limit * kLeastBudgetShare;
  return proved_least_budget(instance, Deadline(seconds, callbacks.cancel), sweep_options.resolution);
}

}  // namespace

SweepResult sweep(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                  const SweepCallbacks& callbacks) {
  check_problem(instance, options);
  if (is_search(options.strategy) && instance.options().order == OrderMode::free) {
    throw InputError("order",
                     "a sweep searches in the input order only; sweep the graph with its ops in another order");
  }
  check_sweep_options(sweep_options);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  const Bytes least = lower_end(instance, options, sweep_options, callbacks);
  BudgetChoice choice(instance, sweep_options, least);
  const SweepInput input{instance, options, callbacks, deadline};
  std::vector<Outcome> outcomes = is_search(options.strategy) ? sweep_by_search(input, std::move(choice))
                                                              : sweep_by_method(input, std::move(choice));
  SweepResult result = assemble_curve(instance, std::move(outcomes), least);
  result.curve.seconds = deadline.elapsed();
  return result;
}

}  // namespace remora
