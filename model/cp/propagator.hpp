// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"
#include "model/cp/retention_profile.hpp"

namespace remora::cp {

class NogoodStore;

/// Data shared by all spaces of one engine: the constant problem, the profile that follows the search around, and the
/// bound
/// that every further solution must beat. Used by one thread at a time; spaces hold a pointer to it.
class Context {
 public:
  /// `interrupted`: as in SearchSettings.
  explicit Context(const RetentionProblem& constant, std::function<bool()> interrupted = {})
      : problem(constant),
        profile(constant),
        extra_below(constant.limits().extra_below),
        interrupted_(std::move(interrupted)) {}

  /// True if the search is to end. Then a propagator leaves out what only prunes: over 100,000 ops that takes seconds, and the
  /// search itself asks between nodes only. What tells a solution from none is never left out. Cheap: most calls ask nobody.
  [[nodiscard]] bool ends() {
    constexpr unsigned kCallsBetweenQuestions = 64;
    return interrupted_ && calls_++ % kCallsBetweenQuestions == 0 && interrupted_();
  }

  const RetentionProblem& problem;
  RetentionProfile profile;
  /// Exact objective bound: extra duration must be strictly below. It only ever falls.
  Duration extra_below;
  /// Nogoods learned from failures (nogoods.hpp); none if the search does not learn.
  NogoodStore* nogoods = nullptr;

 private:
  std::function<bool()> interrupted_;
  unsigned calls_ = 0;
};

/// Common base of the propagators over all variables (RetentionProblem: starts, then modes): posting, copying,
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
