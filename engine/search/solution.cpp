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

/// Nodes of the constraint program for the first choice of modes.
constexpr std::int64_t kNodesOfFirstChoice = 20'000;

/// The first mode that an op and all that follow it have and may run by; 0 if there is none.
ModeNumber first_mode(const Instance& instance, OpId leader) {
  std::vector<OpId> tree{leader};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const auto followers = instance.followers(tree[i]);
    tree.insert(tree.end(), followers.begin(), followers.end());
  }
  for (ModeNumber mode = 0; mode < kMaxModes; ++mode) {
    const auto may_run = [&](OpId op) {
      return instance.offers(op, mode) && instance.computes(op, mode) <= instance.most_computes(op);
    };
    if (std::ranges::all_of(tree, may_run)) return mode;
  }
  return 0;
}

/// The input order, each op once: by mode 0 where that is allowed, else by the first of the op and its followers.
std::vector<Compute> runs_in_input_order(const Instance& instance) {
  std::vector<Compute> runs = computes_of(input_order(instance));
  if (modes_hold(instance, runs)) return runs;
  Table<OpId, ModeNumber> modes(instance.op_count(), 0);
  for (Compute& run : runs) {
    const OpId leader = instance.leader(run.op);
    run.mode = modes[run.op] = leader.valid() ? modes[leader] : first_mode(instance, run.op);
  }
  return runs;
}

/// Where no choice of one mode an op is allowed, what the constraint program finds.
FirstSolution first_choice_of_modes(const Instance& instance) {
  const std::vector<Compute> plain = runs_in_input_order(instance);
  if (modes_hold(instance, plain)) return {make_solution(instance, plain)};
  const cp::RetentionProblem whole(instance, plain, input_order(instance), {Bytes::max(), Duration::max()});
  const cp::SearchOutcome found = cp::solve_retention(whole, {.node_limit = kNodesOfFirstChoice, .first_only = true});
  if (!found.sequence) return {.is_infeasible = found.complete};
  return {make_solution(instance, *found.sequence)};
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

FirstSolution first_solution(const Instance& instance, std::span<const Compute> warm_start) {
  FirstSolution first = first_choice_of_modes(instance);
  if (warm_start.empty()) return first;
  Solution warm = warm_solution(instance, warm_start);
  if (!first.solution || better(instance, warm, *first.solution)) first.solution = std::move(warm);
  return first;
}

}  // namespace remora
