// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/plan_choice.hpp"

#include <utility>

#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"

namespace remora {

bool PlanChoice::offer(const RecomputePlan& plan) {
  auto sequence = sequence_of(instance_, plan);
  const Evaluation evaluation = evaluate(instance_, sequence);
  if (offers_++ == 0 || better(instance_, evaluation.peak, evaluation.duration, peak_, duration_)) {
    best_ = std::move(sequence);
    duration_ = evaluation.duration;
    peak_ = evaluation.peak;
  }
  return evaluation.peak <= instance_.budget();
}

}  // namespace remora
