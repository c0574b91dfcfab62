// SPDX-License-Identifier: Apache-2.0
#include "model/cp/supply.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;
using Gecode::Int::IntView;

Gecode::PropCost Supply::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::HI, x.size());
}

ExecStatus Supply::propagate(Space& home, const Gecode::ModEventDelta&) {
  bool assigned = true;
  // Users come after their producers: going down, each op sees its users' domains already pruned.
  for (int copy = problem().copy_count(); copy-- > 0;) {
    if (x[copy].assigned() || !problem().is_recompute(CopyId(copy))) continue;
    const FreeId owner = problem().owner(CopyId(copy));
    const OpId op = problem().free_ops()[owner].op;
    const Moment use = latest_use(owner);
    const Start last = problem().last_start_before(op, use);
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
  Moment latest = kNever;
  for (const TouchedId t : problem().outputs(op)) {
    if (!problem().fixed_uses(t).empty()) latest = std::max(latest, problem().fixed_uses(t).back().moment);
    for (const FreeId user : problem().free_users(t)) {
      const FreeOp& free = problem().free_ops()[user];
      for (int copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
        for (Gecode::Int::ViewRanges<IntView> range(x[copy]); range() && range.min() < problem().absent(); ++range) {
          latest = std::max(latest, problem().moment_of(std::min(range.max(), problem().absent() - 1), free.op));
        }
      }
    }
  }
  return latest;
}

}  // namespace remora::cp
