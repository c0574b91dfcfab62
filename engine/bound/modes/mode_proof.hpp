// SPDX-License-Identifier: Apache-2.0
//
// A proof for ops with several modes, beside a search:
//
//     linear program over the memory rows that its solutions violate    an exact bound
//       -> dive: a solution in whole numbers, as a schedule             a start for the search
//       -> integer program below the cutoff                            none is left: the cutoff is the optimum; or its
//                                                                       cheapest solution: a row that it violates is taken,
//                                                                       and again; or it is a schedule, and optimal
//
// Where the relaxation is not the problem itself (mode_program.hpp), the cheapest solution may exceed the budget: then its cost is
// the bound, and the proof has ended.
#pragma once

#include <optional>

#include "engine/bound/modes/mode_program.hpp"
#include "engine/bound/periods/period_proof.hpp"
#include "model/instance.hpp"

namespace remora {

class ModeProof {
 public:
  /// The instance outlives this, and the proof applies() to it.
  explicit ModeProof(const Instance& instance) : instance_(instance) {}

  static bool applies(const Instance& instance) { return ModeProgram::applies(instance); }

  /// One linear program with its rows and a dive, or one integer program.
  ProofUpdate step(const ProofLimits& limits);

 private:
  ProofUpdate relax(const ProofLimits& limits);
  ProofUpdate solve_whole(const ProofLimits& limits);
  void use(const IntegerAnswer& answer, const ProofLimits& limits, ProofUpdate& update);
  void dive_for(const ProofLimits& limits, ProofUpdate& update);
  [[nodiscard]] Duration with_constant(Duration cost) const;

  const Instance& instance_;
  std::optional<ModeProgram> program_;
  bool is_relaxed_ = false;
  /// The relaxation's cheapest solution is known: nothing is left to do.
  bool has_ended_ = false;
  Duration bound_{};
  Duration exact_bound_{};
};

}  // namespace remora
