// SPDX-License-Identifier: Apache-2.0
#include "engine/search/solution.hpp"

#include "model/cp/solve_retention.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// The warm start without what is beyond an op's limit.
std::vector<Compute> allowed_computes(const Instance& instance, std::span<const Compute> warm_start) {
  std::vector<Compute> allowed;
  Table<OpId, int> computes(instance.op_count());
  for (const Compute& run : warm_start) {
    const bool known = run.op.valid() && run.op < instance.op_count();
    if (!known || ++computes[run.op] <= instance.max_computes(run.op)) allowed.push_back(run);
  }
  return allowed;
}

Solution warm_solution(const Instance& instance, std::span<const Compute> warm_start) {
  const auto expect_modes = [&](std::span<const Compute> runs) {
    if (!modes_hold(instance, runs)) {
      throw InputError::of_option("warm_start", "is not by modes that its ops have and that go together");
    }
  };
  if (instance.problem().order == OrderMode::free) {
    const std::vector<Compute> allowed = allowed_computes(instance, warm_start);
    if (!is_free_sequence(instance, ops_of(allowed))) {
      throw InputError::of_option("warm_start", "an op is missing, or comes before one that it has to wait for");
    }
    expect_modes(allowed);
    return make_solution(instance, allowed);
  }
  const Sequence ops = ops_of(warm_start);
  if (!is_staged(instance, ops)) {
    throw InputError::of_option("warm_start",
                                "its first runs don't follow the input order, or the recomputes of a stage don't");
  }
  expect_modes(warm_start);
  if (has_plans(instance)) return make_solution(instance, within_limits(instance, plan_of(instance, ops)));
  if (!is_free_sequence(instance, ops)) throw InputError::of_option("warm_start", "an op runs too often");
  return make_solution(instance, warm_start);
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

Sequence Solution::sequence(const Instance& instance) const {
  if (const auto* const plan = std::get_if<RecomputePlan>(&form_)) return sequence_of(instance, *plan);
  if (const auto* const computes = std::get_if<std::vector<Compute>>(&form_)) return ops_of(*computes);
  return std::get<Sequence>(form_);
}

std::vector<Compute> Solution::computes(const Instance& instance) const {
  const auto* const computes = std::get_if<std::vector<Compute>>(&form_);
  return computes != nullptr ? *computes : computes_of(sequence(instance));
}

Solution make_solution(const Instance& instance, RecomputePlan plan) {
  PlanEvaluation found = evaluate_plan(instance, std::move(plan));
  return {std::move(found.plan), found.extra, found.peak};
}

Solution make_solution(const Instance& instance, std::span<const OpId> sequence) {
  if (instance.problem().order == OrderMode::input) return make_solution(instance, plan_of(instance, sequence));
  Sequence useful = without_useless(instance, Sequence(sequence.begin(), sequence.end()));
  const Evaluation evaluation = evaluate(instance, useful);
  return {std::move(useful), evaluation.duration - instance.baseline_duration(), evaluation.peak};
}

Solution make_solution(const Instance& instance, std::span<const Compute> sequence) {
  if (instance.has_modes()) {
    const Evaluation evaluation = evaluate(instance, sequence);
    return {std::vector<Compute>(sequence.begin(), sequence.end()), evaluation.duration - instance.baseline_duration(),
            evaluation.peak};
  }
  return make_solution(instance, std::span<const OpId>(ops_of(sequence)));
}

std::optional<Solution> first_solution(const Instance& instance, std::span<const Compute> warm_start) {
  std::optional<Solution> plain = first_choice_of_modes(instance);
  if (!plain || warm_start.empty()) return plain;
  Solution warm = warm_solution(instance, warm_start);
  return better(instance, warm, *plain) ? warm : plain;
}

}  // namespace remora
