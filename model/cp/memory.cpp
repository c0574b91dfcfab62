// SPDX-License-Identifier: Apache-2.0
#include "model/cp/memory.hpp"

#include <algorithm>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;

Gecode::PropCost Memory::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
}

ExecStatus Memory::propagate(Space& home, const Gecode::ModEventDelta&) {
  const Inferences& inferences = problem().inferences();
  for (bool changed = true; changed;) {
    changed = false;
    profile().refresh(x);
    if (overloaded()) return Gecode::ES_FAILED;
    if (inferences.forced_recompute) GECODE_ES_CHECK(force_recomputes(home, changed));
    if (inferences.impossible_recompute && !changed) GECODE_ES_CHECK(remove_impossible(home, changed));
  }
  for (const auto& stage : x) {
    if (!stage.assigned()) return Gecode::ES_FIX;
  }
  return home.ES_SUBSUMED(*this);
}

bool Memory::overloaded() const {
  const Bytes capacity = problem().limits().capacity;
  const auto memory = profile().memory(Reading::mandatory);
  for (std::size_t slot = 1; slot < memory.size(); slot += 2) {
    if (memory[slot] > capacity) return true;
  }
  const auto assigned = profile().assigned();
  return std::any_of(assigned.begin(), assigned.end(), [&](const MemoryEvent& event) {
    return profile().memory_at(event, Reading::mandatory) > capacity;
  });
}

ExecStatus Memory::force_recomputes(Space& home, bool& changed) {
  const auto touched = problem().touched();
  for (std::size_t t = 0; t < touched.size(); ++t) {
    if (touched[t].producer.valid()) GECODE_ES_CHECK(force_recompute(home, TouchedId(t), changed));
  }
  return Gecode::ES_OK;
}

ExecStatus Memory::force_recompute(Space& home, TouchedId tensor, bool& changed) {
  const FreeOp& free = problem().free_ops()[problem().touched()[tensor].producer];
  const auto retentions = profile().retentions(tensor, Reading::mandatory);
  for (std::size_t i = 1; i < retentions.size(); ++i) {
    const Retention& served = retentions[i];
    if (served.certain_compute) continue;
    const int blocked =
        last_blocked_slot(served.from.slot - 1, retentions[i - 1].to.slot + 1, problem().touched()[tensor].size);
    if (blocked < 0) continue;
    const auto range = RetentionProblem::stages_between(free.op, problem().moment(blocked), served.first_use);
    // Only if a single copy can still be there is it known which one must.
    int candidate = -1;
    for (int copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
      const Stage latest = profile().domain(CopyId(copy)).latest_up_to(range.last);
      if (latest == StageDomain::kNone || latest < range.first) continue;
      candidate = candidate < 0 ? copy : x.size();
    }
    if (candidate < 0) return Gecode::ES_FAILED;
    if (candidate == x.size()) continue;
    const Gecode::ModEvent above = x[candidate].gq(home, range.first);
    if (Gecode::me_failed(above)) return Gecode::ES_FAILED;
    const Gecode::ModEvent below = x[candidate].lq(home, std::min(range.last, problem().absent() - 1));
    if (Gecode::me_failed(below)) return Gecode::ES_FAILED;
    changed = changed || Gecode::me_modified(above) || Gecode::me_modified(below);
  }
  return Gecode::ES_OK;
}

/// The last event slot in [to, from] at which `size` more bytes exceed the capacity, or -1.
int Memory::last_blocked_slot(int from, int to, Bytes size) const {
  const auto memory = profile().memory(Reading::mandatory);
  const Bytes free_up_to = problem().limits().capacity - size;
  for (int slot = (from & 1) != 0 ? from : from - 1; slot >= to; slot -= 2) {
    if (memory[static_cast<std::size_t>(slot)] > free_up_to) return slot;
  }
  return -1;
}

ExecStatus Memory::remove_impossible(Space& home, bool& changed) {
  for (int copy = 0; copy < x.size(); ++copy) {
    if (x[copy].assigned()) continue;
    const FreeId owner = problem().owner(CopyId(copy));
    // The ends of the domain move inwards; what lies between is found when the search gets there.
    while (!x[copy].assigned() && !fits(owner, x[copy].min())) {
      GECODE_ME_CHECK(x[copy].gr(home, x[copy].min()));
      changed = true;
    }
    while (!x[copy].assigned() && x[copy].max() != problem().absent() && !fits(owner, x[copy].max())) {
      GECODE_ME_CHECK(x[copy].le(home, x[copy].max()));
      changed = true;
    }
  }
  return Gecode::ES_OK;
}

bool Memory::fits(FreeId op, Stage stage) const {
  const FreeOp& free = problem().free_ops()[op];
  if (stage == problem().absent()) return true;
  const int slot = problem().gap_slot(stage, free.op);
  Bytes needed = profile().memory(Reading::mandatory)[static_cast<std::size_t>(slot)] + free.workspace;
  const auto add_missing = [&](TouchedId t) {
    const auto all = profile().retentions(t, Reading::mandatory);
    const bool there = std::any_of(all.begin(), all.end(), [&](const Retention& r) { return r.covers_slot(slot); });
    if (!there) needed += problem().touched()[t].size;
  };
  for (const TouchedId t : problem().outputs(op)) add_missing(t);
  for (const TouchedId t : problem().inputs(op)) add_missing(t);
  return needed <= problem().limits().capacity;
}

}  // namespace remora::cp
