// SPDX-License-Identifier: Apache-2.0
#include "model/cp/weighted_computes.hpp"

#include <algorithm>
#include <bit>

#include "model/cp/remove_options.hpp"

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;

Gecode::PropCost WeightedComputes::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::HI, x.size());
}

ExecStatus WeightedComputes::propagate(Space& home, const Gecode::ModEventDelta&) {
  profile().refresh(x);
  for (const FreeOp& free : problem().free_ops()) {
    if (problem().limits_computes(free)) GECODE_ES_CHECK(weigh(home, free));
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

ExecStatus WeightedComputes::weigh(Space& home, const FreeOp& free) {
  std::int64_t room = problem().instance().most_computes(free.op);
  for (int c = free.first_copy; c < free.first_copy + free.copies; ++c) {
    if (profile().domain(CopyId(c)).active()) room -= lightest(free, CopyId(c));
  }
  if (room < 0) return Gecode::ES_FAILED;
  for (int c = free.first_copy; c < free.first_copy + free.copies; ++c) {
    const CopyId copy(c);
    const StartDomain& domain = profile().domain(copy);
    if (domain.absent()) continue;
    const std::int64_t least = lightest(free, copy);
    if (domain.undecided() && least > room) {
      GECODE_ME_CHECK(x[c].eq(home, problem().absent()));
      continue;
    }
    // Option 0 is also an absent copy's.
    const std::int64_t most = domain.active() ? room + least : room;
    const auto too_heavy = [&](Option option) {
      return (domain.active() || option > 0) && problem().instance().computes(free.op, option) > most;
    };
    bool changed = false;
    GECODE_ES_CHECK(remove_options(home, x[problem().option_variable(copy)], too_heavy, changed));
  }
  return Gecode::ES_OK;
}

std::int64_t WeightedComputes::lightest(const FreeOp& free, CopyId copy) const {
  std::int64_t result = kNoMostComputes;
  for (std::uint64_t open = profile().options(copy); open != 0; open &= open - 1) {
    const auto option = static_cast<Option>(std::countr_zero(open));
    result = std::min(result, std::int64_t{problem().instance().computes(free.op, option)});
  }
  return result;
}

}  // namespace remora::cp
