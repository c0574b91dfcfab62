// SPDX-License-Identifier: Apache-2.0
#include "engine/search/solution.hpp"

#include <algorithm>

#include "model/cp/solve_retention.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

Solution warm_solution(const Instance& instance, std::span<const Compute> warm_start) {
  const auto expect = [](bool right, const char* otherwise) {
    if (!right) throw InputError::of_option("warm_start", otherwise);
  };
  const bool is_free = instance.problem().order == OrderMode::free;
  const auto is_known = [&](const Compute& run) { return run.op.valid() && run.op < instance.op_count(); };
  expect(is_free || is_staged(instance, ops_of(warm_start)),
         "its first runs don't follow the input order, or the recomputes of a stage don't");
  const bool all_known = std::ranges::all_of(warm_start, is_known);
  const std::vector<Compute> runs = all_known ? within_limits(instance, warm_start) : std::vector<Compute>{};
  expect(is_free_sequence(instance, ops_of(runs)), "an op is missing, or comes before one that it has to wait for");
  expect(modes_hold(instance, runs), "is not by modes that its ops have and that go together");
  return make_solution(instance, runs);
}

/// The input order by mode 0 of every op where that is allowed, else by whatever modes the constraint program finds.
std::optional<Solution> first_choice_of_modes(const Instance& instance) {
  const std::vector<Compute> plain = computes_of(input_order(instance));
  if (modes_hold(instance, plain)) return make_solution(instance, plain);
  const cp::RetentionProblem whole(instance, plain, input_order(instance), {Bytes::max(), Duration::max()});
  const cp::SearchOutcome found = cp::solve_retention(whole, {.first_only = true});
  if (!found.sequence) return std::nullopt;
  return make_solution(instance, *found.sequence);
}

}  // namespace

std::vector<Compute> Solution::computes(const Instance& instance) const {
  const auto* const computes = std::get_if<std::vector<Compute>>(&form_);
  return computes != nullptr ? *computes : computes_of(sequence_of(instance, plan()));
}

Solution make_solution(const Instance& instance, RecomputePlan plan) {
  PlanEvaluation found = evaluate_plan(instance, std::move(plan));
  return {std::move(found.plan), found.extra, found.peak};
}

Solution make_solution(const Instance& instance, std::span<const Compute> sequence) {
  if (has_plans(instance)) return make_solution(instance, plan_of(instance, ops_of(sequence)));
  std::vector<Compute> runs(sequence.begin(), sequence.end());
  if (instance.problem().order == OrderMode::free) runs = without_useless(instance, std::move(runs));
  const Evaluation evaluation = evaluate(instance, runs);
  return {std::move(runs), evaluation.duration - instance.baseline_duration(), evaluation.peak};
}

Solution make_solution(const Instance& instance, std::span<const OpId> sequence) {
  return make_solution(instance, computes_of(sequence));
}

std::optional<Solution> first_solution(const Instance& instance, std::span<const Compute> warm_start) {
  std::optional<Solution> plain = first_choice_of_modes(instance);
  if (!plain || warm_start.empty()) return plain;
  Solution warm = warm_solution(instance, warm_start);
  return better(instance, warm, *plain) ? warm : plain;
}

}  // namespace remora
