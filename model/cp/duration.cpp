// SPDX-License-Identifier: Apache-2.0
#include "model/cp/duration.hpp"

#include <algorithm>

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
  if (problem.inferences().costly_recompute) GECODE_ES_CHECK(remove_dear(home, context_->extra_below - least));
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

void OverloadFinder::find(std::vector<Overload>& overloads) const {
  overloads.clear();
  const Bytes capacity = problem_.limits().capacity;
  const auto memory = profile_.memory(Reading::potential);
  for (int slot = 1; slot < static_cast<int>(memory.size()); slot += 2) {
    const Bytes here = memory[at(slot)];
    if (here > capacity) overloads.push_back({{problem_.moment(slot), slot, CopyId::none()}, here - capacity});
  }
  const auto assigned = profile_.assigned();
  const auto assigned_memory = profile_.assigned_memory(Reading::potential);
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    if (assigned_memory[i] > capacity) overloads.push_back({assigned[i], assigned_memory[i] - capacity});
  }
}

void OverloadFinder::candidates(const MemoryEvent& event, std::vector<CoverOffer>& result) const {
  result.clear();
  const auto& free_ops = problem_.free_ops();
  for (const FreeId f : free_ops.ids()) {
    Bytes gain;
    for (const TouchedId t : problem_.outputs(f)) {
      if (!profile_.may_give_way(t)) continue;
      gain += profile_.gain(t, event);
    }
    if (gain > Bytes(0)) result.push_back({f, gain, free_ops[f].duration});
  }
}

Duration CoverBound::compute(int events_considered) {
  finder_.find(overloads_);
  if (overloads_.empty()) return Duration(0);
  for (const FreeId f : residual_.ids()) residual_[f] = problem_.free_ops()[f].duration;
  const auto considered = std::min(overloads_.size(), at(events_considered));
  std::partial_sort(overloads_.begin(), overloads_.begin() + static_cast<std::ptrdiff_t>(considered), overloads_.end(),
                    [](const Overload& a, const Overload& b) {
                      return a.excess != b.excess ? a.excess > b.excess : a.event.moment < b.event.moment;
                    });
  Duration total;
  for (std::size_t i = 0; i < considered; ++i) {
    const Duration more = relieve(overloads_[i]);
    if (more == Duration::max()) return more;
    total += more;
  }
  return total;
}

Duration CoverBound::relieve(const Overload& overload) {
  finder_.candidates(overload.event, candidates_);
  for (CoverOffer& candidate : candidates_) candidate.cost = residual_[FreeId(candidate.item)];
  const Duration bound = spend_on_cover(overload.excess, candidates_);
  for (const CoverOffer& candidate : candidates_) {
    residual_[FreeId(candidate.item)] -= candidate.cost;
  }
  return bound;
}

}  // namespace remora::cp
