// SPDX-License-Identifier: Apache-2.0
#include "model/cp/later_recompute.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;

Gecode::PropCost LaterRecompute::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::cubic(Gecode::PropCost::LO, x.size());
}

ExecStatus LaterRecompute::propagate(Space& home, const Gecode::ModEventDelta&) {
  profile().refresh(x);
  const auto free_ops = problem().free_ops();
  for (std::size_t f = 0; f < free_ops.size(); ++f) {
    const FreeOp& free = free_ops[f];
    const bool eligible = free.copies == 1 && !free.first_included && free.workspace == Bytes(0) && !free.has_inner &&
                          problem().outputs(FreeId(f)).size() == 1;
    if (!eligible || x[free.first_copy].assigned()) continue;
    const Start latest = profile().domain(CopyId(free.first_copy)).latest();
    const Start first = first_dominated(free, FreeId(f), latest);
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
    for (int copy = reader.first_copy; copy < reader.first_copy + reader.copies; ++copy) {
      const Start use = profile().domain(CopyId(copy)).latest_up_to(limit);
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
