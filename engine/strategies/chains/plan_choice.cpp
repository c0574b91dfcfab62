// SPDX-License-Identifier: Apache-2.0
#include "engine/strategies/chains/plan_choice.hpp"

#include <utility>

#include "model/evaluate.hpp"

namespace remora {

bool PlanChoice::offer(const RecomputePlan& plan) {
  auto sequence = sequence_of(instance_, plan);
  const Evaluation evaluation = evaluate(instance_, sequence);
  const bool holds = evaluation.peak <= instance_.budget();
  const bool is_better = holds ? !holds_ || evaluation.duration < duration_ : !holds_ && evaluation.peak < peak_;
  if (offers_++ == 0 || is_better) {
    best_ = std::move(sequence);
    duration_ = evaluation.duration;
    peak_ = evaluation.peak;
    holds_ = holds;
  }
  return holds;
}

}  // namespace remora
