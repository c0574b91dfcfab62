// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <gecode/int.hh>

#include "model/cp/context.hpp"

namespace remora::cp {

/// What the propagators over all variables (RetentionProblem: starts, then options) have in common: posting, copying,
/// and the context that their space's search shares. `Derived` adds cost() and propagate().
template <class Derived>
class StartPropagator : public Gecode::NaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  static Gecode::ExecStatus post(Gecode::Home home, Views& views, Context& context) {
    (void)new (home) Derived(home, views, context);
    return Gecode::ES_OK;
  }

  StartPropagator(Gecode::Home home, Views& views, Context& context)
      : NaryPropagator(home, views), context_(&context) {}
  StartPropagator(Gecode::Space& home, StartPropagator& other)
      : NaryPropagator(home, other), context_(other.context_) {}

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) Derived(home, static_cast<Derived&>(*this)); }

 protected:
  [[nodiscard]] const RetentionProblem& problem() const { return context_->problem; }
  [[nodiscard]] Context& context() const { return *context_; }
  [[nodiscard]] RetentionProfile& profile() const { return context_->profile; }
  [[nodiscard]] bool all_assigned() const {
    return std::all_of(x.begin(), x.end(), [](const auto& view) { return view.assigned(); });
  }

 private:
  Context* context_;
};

}  // namespace remora::cp
