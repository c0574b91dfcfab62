// SPDX-License-Identifier: Apache-2.0
#include "model/cp/dominance.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;
using Gecode::Int::IntView;

Gecode::PropCost UselessRecompute::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::HI, x.size());
}

ExecStatus UselessRecompute::propagate(Space& home, const Gecode::ModEventDelta&) {
  // Users come after their producers, and a copy after the one before it: each sees what it depends on already pruned.
  const auto& free_ops = problem().free_ops();
  for (std::size_t f = free_ops.size(); f-- > 0;) {
    if (context().ends()) break;
    for (const CopyId copy : free_ops[FreeId(f)].ids()) {
      if (x[copy].assigned() || !problem().is_recompute(copy)) continue;
      GECODE_ES_CHECK(before_latest_use(home, copy));
      GECODE_ES_CHECK(after_served_use(home, copy));
    }
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

ExecStatus UselessRecompute::before_latest_use(Space& home, CopyId copy) {
  const FreeId owner = problem().owner(copy);
  const Start last = problem().last_start_before(problem().free_ops()[owner].op, latest_use(owner));
  if (x[copy].min() > last) {
    GECODE_ME_CHECK(x[copy].eq(home, problem().absent()));
  } else if (last + 1 < problem().absent()) {
    Gecode::Iter::Ranges::Singleton useless(last + 1, problem().absent() - 1);
    GECODE_ME_CHECK(x[copy].minus_r(home, useless, false));
  }
  return Gecode::ES_OK;
}

/// The copy comes after the first use that the copy before it may serve.
ExecStatus UselessRecompute::after_served_use(Space& home, CopyId copy) {
  const FreeId owner = problem().owner(copy);
  const FreeOp& free = problem().free_ops()[owner];
  if (copy == free.first_copy) return Gecode::ES_OK;
  const Start previous = x[copy - 1].min();
  if (previous == problem().absent()) return Gecode::ES_OK;
  if (!problem().is_recompute(CopyId(copy - 1)) && !problem().may_move_first(owner)) return Gecode::ES_OK;
  const Moment use = first_use_after(owner, problem().moment_of(previous, free.op));
  const Start first = use == kNever ? problem().absent() : problem().first_start_after(free.op, use);
  GECODE_ME_CHECK(x[copy].gq(home, std::min(first, problem().absent())));
  return Gecode::ES_OK;
}

/// The latest moment at which some use of the op's outputs is certain or possible.
Moment UselessRecompute::latest_use(FreeId op) const {
  Moment latest = kNever;
  for (const TouchedId t : problem().outputs(op)) {
    if (!problem().fixed_uses(t).empty()) latest = std::max(latest, problem().fixed_uses(t).back().moment);
    for (const FreeId user : problem().free_users(t)) {
      const FreeOp& free = problem().free_ops()[user];
      for (const CopyId copy : free.ids()) {
        for (Gecode::Int::ViewRanges<IntView> range(x[copy]); range() && range.min() < problem().absent(); ++range) {
          latest = std::max(latest, problem().moment_of(std::min(range.max(), problem().absent() - 1), free.op));
        }
      }
    }
  }
  return latest;
}

/// The earliest moment after the given one at which some use of the op's outputs is certain or possible, or kNever.
Moment UselessRecompute::first_use_after(FreeId op, Moment moment) const {
  Moment first = kNever;
  const auto consider = [&](Moment use) {
    if (use > moment && (first == kNever || use < first)) first = use;
  };
  for (const TouchedId t : problem().outputs(op)) {
    for (const Anchor& use : problem().fixed_uses(t)) consider(use.moment);
    for (const FreeId user : problem().free_users(t)) {
      const FreeOp& free = problem().free_ops()[user];
      const Start from = problem().first_start_after(free.op, moment);
      for (const CopyId copy : free.ids()) {
        for (Gecode::Int::ViewRanges<IntView> range(x[copy]); range() && range.min() < problem().absent(); ++range) {
          if (range.max() < from) continue;
          const Start start = std::max(from, static_cast<Start>(range.min()));
          if (start < problem().absent()) consider(problem().moment_of(start, free.op));
          break;
        }
      }
    }
  }
  return first;
}

Gecode::PropCost LaterRecompute::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::cubic(Gecode::PropCost::LO, x.size());
}

ExecStatus LaterRecompute::propagate(Space& home, const Gecode::ModEventDelta&) {
  profile().refresh(x);
  const auto& free_ops = problem().free_ops();
  for (const FreeId f : free_ops.ids()) {
    if (context().ends()) break;
    const FreeOp& free = free_ops[f];
    const bool eligible = free.copies == 1 && !free.first_included && free.workspace == Bytes(0) && !free.has_inner &&
                          problem().outputs(f).size() == 1;
    if (!eligible || x[free.first_copy].assigned()) continue;
    const Start latest = profile().domain(CopyId(free.first_copy)).latest();
    const Start first = first_dominated(free, f, latest);
    if (first >= latest) continue;
    Gecode::Iter::Ranges::Singleton dominated(first, latest - 1);
    GECODE_ME_CHECK(x[free.first_copy].minus_r(home, dominated, false));
  }
  return Gecode::ES_NOFIX;
}

/// The first stage that `latest` dominates, with all up to it; `latest` if there is none.
Start LaterRecompute::first_dominated(const FreeOp& free, FreeId id, Start latest) const {
  Start first = after_last_use(free, problem().outputs(id).front(), latest);
  for (const TouchedId input : problem().inputs(id)) {
    first = std::max(first, resident_since(free, input, latest));
  }
  return std::min(first, latest);
}

/// The first stage whose recompute comes after every possible use that precedes the one in `latest`.
Start LaterRecompute::after_last_use(const FreeOp& free, TouchedId output, Start latest) const {
  const Moment end = problem().moment_of(latest, free.op);
  Moment last = problem().moment_of(free.op, free.op);
  for (const Anchor& use : problem().fixed_uses(output)) {
    if (use.moment >= end) break;
    last = std::max(last, use.moment);
  }
  for (const FreeId user : problem().free_users(output)) {
    const FreeOp& reader = problem().free_ops()[user];
    const Start limit = problem().last_start_before(reader.op, end);
    for (const CopyId copy : reader.ids()) {
      const Start use = profile().domain(copy).latest_up_to(limit);
      if (use != StartDomain::kNone) last = std::max(last, problem().moment_of(use, reader.op));
    }
  }
  return problem().starts_between(free.op, last, end).first;
}

/// The first stage from which the input is resident up to `latest` in every solution; latest + 1 if it is not there
/// then.
Start LaterRecompute::resident_since(const FreeOp& free, TouchedId input, Start latest) const {
  const Moment end = problem().moment_of(latest, free.op);
  for (const Retention& retention : profile().retentions(input, Reading::mandatory)) {
    if (!retention.covers(end)) continue;
    return problem().starts_between(free.op, retention.from.moment, end).first;
  }
  return latest + 1;
}

}  // namespace remora::cp
