// SPDX-License-Identifier: Apache-2.0
//
// Phase 1: minimise max(peak, budget) (Moccasin, eq. 12 and 13) from the incumbent. Each step asks Gecode for any
// schedule whose peak is below a target between the incumbent's peak and the budget, freeing ops that compete at the
// steps above the target. The stride is
// shortened where it is too steep, and lengthened where it is easy.
#pragma once

#include "engine/base/options.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/worker.hpp"
#include "model/cp/retention_problem.hpp"

namespace remora {

class PeakWorker : public Worker {
 public:
  PeakWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] std::string name() const override { return "peak"; }
  RoundResult run(const RoundInput& input) override;

 private:
  cp::Inferences inferences_;
  std::int64_t node_limit_;
  Random random_;
  /// The part of the way to the budget that a step tries to go.
  double stride_ = 0.5;
  /// What a step may cost, in baseline durations: without a ceiling the search would drown.
  double margin_ = 0.005;
  double size_;
};

}  // namespace remora
