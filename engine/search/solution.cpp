// SPDX-License-Identifier: Apache-2.0
#include "engine/search/solution.hpp"

#include <utility>

#include "model/free_sequence.hpp"
#include "model/evaluate.hpp"

namespace remora {

Solution make_solution(const Instance& instance, RecomputePlan plan) {
  Solution solution;
  solution.plan = without_useless(instance, std::move(plan));
  solution.extra = extra_duration(instance, solution.plan);
  solution.peak = evaluate(instance, sequence_of(instance, solution.plan)).peak;
  return solution;
}

Solution make_solution(const Instance& instance, std::span<const OpId> sequence) {
  if (instance.options().order == OrderMode::input) return make_solution(instance, plan_of(instance, sequence));
  Solution solution;
  solution.sequence = without_useless(instance, std::vector<OpId>(sequence.begin(), sequence.end()));
  const Evaluation evaluation = evaluate(instance, solution.sequence);
  solution.extra = evaluation.duration - instance.baseline_duration();
  solution.peak = evaluation.peak;
  return solution;
}

Solution make_solution(const Instance& instance, std::span<const Compute> sequence) {
  return make_solution(instance, std::span<const OpId>(ops_of(sequence)));
}

std::vector<OpId> sequence_of(const Instance& instance, const Solution& solution) {
  return instance.options().order == OrderMode::input ? sequence_of(instance, solution.plan) : solution.sequence;
}

}  // namespace remora
