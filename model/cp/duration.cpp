// SPDX-License-Identifier: Apache-2.0
#include "model/cp/duration.hpp"

#include "model/cp/mode_choice.hpp"

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;
using Gecode::Int::IntView;

namespace {

/// More events tighten the bound and cost time at every node.
constexpr int kEventsConsidered = 6;

}  // namespace

ExtraDuration::ExtraDuration(Home home, Views& views, IntView improvements, Context& context)
    : NaryOnePropagator(home, views, improvements), context_(&context) {}

ExtraDuration::ExtraDuration(Space& home, ExtraDuration& other)
    : NaryOnePropagator(home, other), context_(other.context_) {}

ExecStatus ExtraDuration::post(Home home, Views& views, IntView improvements, Context& context) {
  (void)new (home) ExtraDuration(home, views, improvements, context);
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
  context_->profile.refresh(x);
  const Duration least = certain_extra(problem, context_->profile);
  if (least >= context_->extra_below) return Gecode::ES_FAILED;
  if (problem.inferences().cover_bound) {
    CoverBound bound(problem, context_->profile);
    const Duration cover = bound.compute(kEventsConsidered);
    if (cover >= context_->extra_below - least) return Gecode::ES_FAILED;
  }
  if (problem.inferences().dear_recompute) GECODE_ES_CHECK(remove_dear(home, context_->extra_below - least));
  return Gecode::ES_NOFIX;
}

ExecStatus ExtraDuration::remove_dear(Space& home, Duration slack) {
  const RetentionProblem& problem = context_->problem;
  for (const CopyId copy : problem.copy_ids()) {
    const StartDomain& domain = context_->profile.domain(copy);
    if (domain.absent()) continue;
    const Duration least = context_->profile.least_duration(copy);
    if (domain.undecided()) {
      if (least >= slack) GECODE_ME_CHECK(x[copy].eq(home, problem.absent()));
      continue;
    }
    const int variable = problem.mode_variable(copy);
    if (variable < 0 || x[variable].assigned()) continue;
    const OpId op = problem.free_ops()[problem.owner(copy)].op;
    const auto dear = [&](ModeNumber mode) { return problem.instance().duration(op, mode) - least >= slack; };
    bool changed = false;
    GECODE_ES_CHECK(remove_modes(home, x[variable], dear, changed));
  }
  return Gecode::ES_OK;
}

Duration certain_extra(const RetentionProblem& problem, const RetentionProfile& profile) {
  Duration total = problem.rest_extra();
  for (const CopyId copy : problem.copy_ids()) {
    if (!profile.domain(copy).active()) continue;
    total += problem.extra_of(copy, profile.least_duration(copy));
  }
  return total;
}

}  // namespace remora::cp
