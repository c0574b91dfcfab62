// SPDX-License-Identifier: Apache-2.0
#include "model/cp/event_order.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;
using Gecode::Int::IntView;

CopyOrder::CopyOrder(Home home, IntView earlier, IntView later, Start absent)
    : BinaryPropagator(home, earlier, later), absent_(absent) {}

CopyOrder::CopyOrder(Space& home, CopyOrder& other) : BinaryPropagator(home, other), absent_(other.absent_) {}

ExecStatus CopyOrder::post(Home home, IntView earlier, IntView later, Start absent) {
  (void)new (home) CopyOrder(home, earlier, later, absent);
  return Gecode::ES_OK;
}

Gecode::Actor* CopyOrder::copy(Space& home) {
  return new (home) CopyOrder(home, *this);
}

ExecStatus CopyOrder::propagate(Space& home, const Gecode::ModEventDelta&) {
  GECODE_ME_CHECK(x1.gq(home, std::min(x0.min() + 1, absent_)));
  if (x1.max() < absent_) {
    GECODE_ME_CHECK(x0.le(home, x1.max()));
  }
  if (x0.assigned() && x1.assigned()) return home.ES_SUBSUMED(*this);
  return Gecode::ES_NOFIX;
}

Gecode::PropCost PackedPlaces::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::quadratic(Gecode::PropCost::LO, x.size());
}

ExecStatus PackedPlaces::propagate(Space& home, const Gecode::ModEventDelta&) {
  for (bool changed = true; changed;) {
    changed = false;
    GECODE_ES_CHECK(fill_from_the_left(home, changed));
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

/// The earliest start of a copy moves past places whose predecessor nobody can take.
ExecStatus PackedPlaces::fill_from_the_left(Space& home, bool& changed) {
  for (const CopyId copy : problem().copy_ids()) {
    while (x[copy].min() != problem().absent() && !left_neighbour(copy, x[copy].min())) {
      GECODE_ME_CHECK(x[copy].gr(home, x[copy].min()));
      changed = true;
    }
  }
  return Gecode::ES_OK;
}

/// True if the place is the first of its opening, or some other copy can take the place before it.
bool PackedPlaces::left_neighbour(CopyId copy, Start start) const {
  if (problem().moment_of(start, OpId::none()).minor == 0) return true;
  for (const CopyId other : problem().copy_ids()) {
    if (other != copy && x[other].in(start - 1)) return true;
  }
  return false;
}

void post_events_different(Gecode::Space& home, const Gecode::IntVarArgs& variables, const RetentionProblem& problem) {
  Gecode::IntVarArgs starts;
  for (const CopyId copy : problem.copy_ids()) starts << variables[copy];
  Gecode::distinct(home, starts, problem.absent());
}

}  // namespace remora::cp
