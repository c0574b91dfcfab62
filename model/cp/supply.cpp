// SPDX-License-Identifier: Apache-2.0
#include "model/cp/supply.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;
using Gecode::Int::IntView;

Gecode::PropCost Supply::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::HI, x.size());
}

ExecStatus Supply::propagate(Space& home, const Gecode::ModEventDelta&) {
  bool assigned = true;
  // Users come after their producers: going down, each op sees its users' domains already pruned.
  for (int copy = x.size(); copy-- > 0;) {
    if (x[copy].assigned()) continue;
    const FreeId owner = problem().owner(CopyId(copy));
    const OpId op = problem().free_ops()[owner].op;
    const Moment use = latest_use(owner);
    const Stage last = RetentionProblem::last_stage_before(op, use);
    if (x[copy].min() > last) {
      GECODE_ME_CHECK(x[copy].eq(home, problem().absent()));
    } else if (last + 1 < problem().absent()) {
      Gecode::Iter::Ranges::Singleton useless(last + 1, problem().absent() - 1);
      GECODE_ME_CHECK(x[copy].minus_r(home, useless, false));
    }
    assigned = assigned && x[copy].assigned();
  }
  return assigned ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

/// The latest moment at which some use of the op's outputs is certain or possible.
Moment Supply::latest_use(FreeId op) const {
  Moment latest{-1, -1};
  for (const TouchedId t : problem().outputs(op)) {
    if (!problem().fixed_uses(t).empty()) latest = std::max(latest, problem().fixed_uses(t).back().moment);
    for (const FreeId user : problem().free_users(t)) {
      const FreeOp& free = problem().free_ops()[user];
      for (int copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
        for (Gecode::Int::ViewRanges<IntView> range(x[copy]); range() && range.min() < problem().absent(); ++range) {
          latest = std::max(latest, Moment{std::min(range.max(), problem().absent() - 1), free.op});
        }
      }
    }
  }
  return latest;
}

CopyOrder::CopyOrder(Home home, IntView earlier, IntView later, Stage absent)
    : BinaryPropagator(home, earlier, later), absent_(absent) {}

CopyOrder::CopyOrder(Space& home, CopyOrder& other) : BinaryPropagator(home, other), absent_(other.absent_) {}

ExecStatus CopyOrder::post(Home home, IntView earlier, IntView later, Stage absent) {
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

}  // namespace remora::cp
