// SPDX-License-Identifier: Apache-2.0
//
// The objective (Moccasin, eq. 1): the extra duration of all recomputes stays below the bound held by the context, in
// exact int64. The bound falls with every solution; the space's `improvements` variable wakes the propagator then.
//
//   cover bound       certain copies and what undecided ops must still pay (overload.hpp) leave nothing: failure.
//   dear recompute    an undecided copy dearer than what is left is absent; a mode that adds more than that is out.
#pragma once

#include <gecode/int.hh>

#include "model/cp/overload.hpp"
#include "model/cp/propagator.hpp"

namespace remora::cp {

class ExtraDuration : public Gecode::NaryOnePropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  /// `improvements`: any change of its domain means that the context's bound has fallen.
  static Gecode::ExecStatus post(Gecode::Home home, Views& views, Gecode::Int::IntView improvements, Context& context);

  Gecode::Actor* copy(Gecode::Space& home) override;
  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus remove_dear(Gecode::Space& home, Duration slack);
  ExtraDuration(Gecode::Home home, Views& views, Gecode::Int::IntView improvements, Context& context);
  ExtraDuration(Gecode::Space& home, ExtraDuration& other);

  Context* context_;
};

/// What the copies that are certain cost at least, the fixed rest included.
Duration certain_extra(const RetentionProblem& problem, const RetentionProfile& profile);

}  // namespace remora::cp
