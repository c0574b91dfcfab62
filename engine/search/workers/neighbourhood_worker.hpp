// SPDX-License-Identifier: Apache-2.0
//
// Phase 2: large-neighbourhood search. Frees some ops of the incumbent, lets Gecode find a cheaper way for them under
// the same budget, and goes on from there. Sizes and the choice among relaxations adapt to what paid off.
#pragma once

#include <array>

#include "engine/base/options.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/worker.hpp"
#include "model/cp/retention_problem.hpp"

namespace remora {

class NeighbourhoodWorker : public Worker {
 public:
  NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] std::string name() const override { return "lns"; }
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
