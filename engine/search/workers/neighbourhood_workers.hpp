// SPDX-License-Identifier: Apache-2.0
//
// Neighbourhoods of the constraint program: some ops of the incumbent are freed, and Gecode decides anew about them.
//
//     phase 1   PeakWorker           minimises max(peak, budget) (Moccasin, eq. 12 and 13): asks for any schedule whose
//                                    peak is below a target between the incumbent's peak and the budget, freeing ops
//                                    that compete at the steps above the target. The stride to the target is shortened
//                                    where it is too steep, and lengthened where it is easy
//     phase 2   NeighbourhoodWorker  large-neighbourhood search: asks for a cheaper schedule under the same budget, and
//                                    goes on from there. Sizes and the choice among relaxations adapt to what paid off
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/options.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/worker.hpp"
#include "model/cp/retention_problem.hpp"

namespace remora {

class PeakWorker : public Worker {
 public:
  PeakWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::peak; }
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

class NeighbourhoodWorker : public Worker {
 public:
  NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::lns; }
  RoundResult run(const RoundInput& input) override;

 private:
  struct Arm {
    double size = 0;
    double weight = 1;
  };

  void learn(Arm& arm, bool improved, bool complete, int op_count) const;

  cp::Inferences inferences_;
  std::int64_t node_limit_;
  Random random_;
  std::array<Arm, kRelaxations.size()> arms_;
};

}  // namespace remora
