// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gecode/int.hh>

#include "model/cp/context.hpp"

namespace remora::cp {

/// What the propagators over all stage variables have in common: posting, copying, and the context that their space's
/// search shares. `Derived` adds cost() and propagate().
template <class Derived>
class StagePropagator : public Gecode::NaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  static Gecode::ExecStatus post(Gecode::Home home, StageViews& stages, Context& context) {
    (void)new (home) Derived(home, stages, context);
    return Gecode::ES_OK;
  }

  StagePropagator(Gecode::Home home, StageViews& stages, Context& context)
      : NaryPropagator(home, stages), context_(&context) {}
  StagePropagator(Gecode::Space& home, StagePropagator& other)
      : NaryPropagator(home, other), context_(other.context_) {}

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) Derived(home, static_cast<Derived&>(*this)); }

 protected:
  [[nodiscard]] const RetentionProblem& problem() const { return context_->problem; }
  [[nodiscard]] RetentionProfile& profile() const { return context_->profile; }

 private:
  Context* context_;
};

}  // namespace remora::cp
