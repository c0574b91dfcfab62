// SPDX-License-Identifier: Apache-2.0
#include "model/cp/duration.hpp"

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;
using Gecode::Int::IntView;

namespace {

/// More events tighten the bound and cost time at every node.
constexpr int kEventsConsidered = 6;

}  // namespace

ExtraDuration::ExtraDuration(Home home, StageViews& stages, IntView improvements, Context& context)
    : NaryOnePropagator(home, stages, improvements), context_(&context) {}

ExtraDuration::ExtraDuration(Space& home, ExtraDuration& other)
    : NaryOnePropagator(home, other), context_(other.context_) {}

ExecStatus ExtraDuration::post(Home home, StageViews& stages, IntView improvements, Context& context) {
  (void)new (home) ExtraDuration(home, stages, improvements, context);
  return Gecode::ES_OK;
}

Gecode::Actor* ExtraDuration::copy(Space& home) {
  return new (home) ExtraDuration(home, *this);
}

Gecode::PropCost ExtraDuration::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::cubic(Gecode::PropCost::HI, x.size());
}

ExecStatus ExtraDuration::propagate(Space& home, const Gecode::ModEventDelta&) {
  const RetentionProblem& problem = context_->problem;
  Duration least = certain_extra(problem, x);
  if (least >= context_->extra_below) return Gecode::ES_FAILED;
  if (problem.inferences().cover_bound) {
    context_->profile.refresh(x);
    CoverBound bound(problem, context_->profile);
    const Duration cover = bound.compute(kEventsConsidered);
    if (cover >= context_->extra_below - least) return Gecode::ES_FAILED;
  }
  if (problem.inferences().dear_recompute) {
    const Duration slack = context_->extra_below - least;
    for (int copy = 0; copy < x.size(); ++copy) {
      if (x[copy].assigned() || x[copy].max() != problem.absent()) continue;
      if (problem.free_ops()[problem.owner(CopyId(copy))].duration >= slack) {
        GECODE_ME_CHECK(x[copy].eq(home, problem.absent()));
      }
    }
  }
  return Gecode::ES_NOFIX;
}

Duration certain_extra(const RetentionProblem& problem, const StageViews& stages) {
  Duration total = problem.rest_extra();
  for (int copy = 0; copy < stages.size(); ++copy) {
    if (stages[copy].max() != problem.absent()) total += problem.free_ops()[problem.owner(CopyId(copy))].duration;
  }
  return total;
}

}  // namespace remora::cp
