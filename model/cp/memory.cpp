// SPDX-License-Identifier: Apache-2.0
#include "model/cp/memory.hpp"

#include <algorithm>

#include "model/cp/mode_choice.hpp"

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;

Gecode::PropCost Memory::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
}

ExecStatus Memory::propagate(Space& home, const Gecode::ModEventDelta&) {
  const Inferences& inferences = problem().inferences();
  bool ended = false;
  for (bool changed = true; changed;) {
    changed = false;
    profile().refresh(x);
    if (overloaded()) return Gecode::ES_FAILED;
    // The following inferences prune, and may end early: then the propagator runs once more for what was pruned.
    if (inferences.forced_recompute && !ended) GECODE_ES_CHECK(force_recomputes(home, changed, ended));
    if (!inferences.impossible_recompute || changed || ended) continue;
    GECODE_ES_CHECK(remove_impossible_starts(home, changed, ended));
    if (!ended) GECODE_ES_CHECK(remove_impossible_modes(home, changed));
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

bool Memory::overloaded() const {
  const Bytes capacity = problem().limits().capacity;
  const auto memory = profile().memory(Reading::mandatory);
  for (std::size_t slot = 1; slot < memory.size(); slot += 2) {
    if (memory[slot] > capacity) return true;
  }
  const auto assigned = profile().assigned_memory(Reading::mandatory);
  return std::any_of(assigned.begin(), assigned.end(), [&](Bytes here) { return here > capacity; });
}

ExecStatus Memory::force_recomputes(Space& home, bool& changed, bool& ended) {
  const auto& touched = problem().touched();
  for (const TouchedId t : touched.ids()) {
    ended = context().ends();
    if (ended) break;
    if (touched[t].producer.valid()) GECODE_ES_CHECK(force_recompute(home, t, changed));
  }
  return Gecode::ES_OK;
}

ExecStatus Memory::force_recompute(Space& home, TouchedId tensor, bool& changed) {
  const FreeOp& free = problem().free_ops()[problem().touched()[tensor].producer];
  const auto retentions = profile().retentions(tensor, Reading::mandatory);
  for (std::size_t i = 0; i < retentions.size(); ++i) {
    const Retention& served = retentions[i];
    if (served.certain_compute) continue;
    const int after = i == 0 ? 0 : retentions[i - 1].to.slot + 1;
    const int blocked = last_blocked_slot(served.from.slot - 1, after, problem().touched()[tensor].size);
    if (blocked < 0) continue;
    const auto range = problem().starts_between(free.op, problem().moment(blocked), served.first_use);
    // Only if a single copy can still be there is it known which one must.
    int candidate = -1;
    int candidates = 0;
    for (const CopyId copy : free.ids()) {
      const Start latest = profile().domain(copy).latest_up_to(range.last);
      if (latest == StartDomain::kNone || latest < range.first) continue;
      candidate = copy;
      ++candidates;
    }
    if (candidates == 0) return Gecode::ES_FAILED;
    if (candidates > 1) continue;
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
    if (memory[at(slot)] > free_up_to) return slot;
  }
  return -1;
}

ExecStatus Memory::remove_impossible_starts(Space& home, bool& changed, bool& ended) {
  for (const CopyId copy : problem().copy_ids()) {
    if (ended) break;
    if (x[copy].assigned()) continue;
    const auto goes_on = [&] {
      ended = ended || context().ends();
      return !ended;
    };
    // The first and the last start move inwards; what lies between is found when the search gets there.
    while (goes_on() && !x[copy].assigned() && !fits(copy, x[copy].min())) {
      GECODE_ME_CHECK(x[copy].gr(home, x[copy].min()));
      changed = true;
    }
    const StartDomain& domain = profile().domain(copy);
    for (Start last = domain.absent() ? StartDomain::kNone : domain.latest();
         goes_on() && last != StartDomain::kNone && x[copy].in(last) && !fits(copy, last);
         last = domain.latest_up_to(last - 1)) {
      GECODE_ME_CHECK(x[copy].nq(home, last));
      changed = true;
    }
  }
  return Gecode::ES_OK;
}

bool Memory::fits(CopyId copy, Start start) const {
  if (start == problem().absent()) return true;
  const FreeId owner = problem().owner(copy);
  const int slot = problem().gap_slot(start, problem().free_ops()[owner].op);
  // An input that is retained throughout the opening is not released in it.
  const auto missing = [&](TouchedId t) {
    const bool counted = profile().covers_slot(t, slot, Reading::mandatory);
    return counted || !problem().reads(owner, profile().modes(copy), t) ? Bytes(0) : problem().touched()[t].size;
  };
  Bytes needed = profile().memory(Reading::mandatory)[at(slot)] + profile().min_workspace(copy, [&](TensorId t) {
    const TouchedId input = problem().touched_id(t);
    return input.valid() ? missing(input) : Bytes(0);
  });
  // None of its outputs is mandatory there: the copy itself may be what serves the next use.
  for (const TouchedId t : problem().outputs(owner)) needed += profile().least_size(copy, t);
  for (const TouchedId t : problem().inputs(owner)) needed += missing(t);
  return needed <= problem().limits().capacity;
}

/// The minimum memory of the assigned copy in the mode: its outputs, the inputs that it reads and the profile does not
/// count there, and its workspace.
Bytes Memory::needed_by(const MemoryEvent& event, ModeNumber mode) const {
  const FreeId owner = problem().owner(event.copy);
  const FreeOp& free = problem().free_ops()[owner];
  const Instance& instance = problem().instance();
  const auto missing = [&](TouchedId t) {
    if (!free.reads_differ || !problem().reads(owner, std::uint64_t{1} << static_cast<unsigned>(mode), t))
      return Bytes(0);
    const auto all = profile().retentions(t, Reading::mandatory);
    const bool counted =
        std::any_of(all.begin(), all.end(), [&](const Retention& r) { return r.covers(event.moment); });
    return counted ? Bytes(0) : problem().touched()[t].size;
  };
  Bytes needed;
  for (const TouchedId t : problem().outputs(owner)) needed += instance.size(problem().touched()[t].tensor, mode);
  if (free.reads_differ) {
    for (const TouchedId t : problem().inputs(owner)) needed += missing(t);
  }
  const auto peaks = instance.inner(free.op, mode);
  if (peaks.empty()) return needed + instance.workspace(free.op, mode);
  return needed + highest_peak(peaks, [&](TensorId t) {
           const TouchedId input = problem().touched_id(t);
           if (!input.valid()) return Bytes(0);
           return profile().released(t, event.moment, Reading::mandatory) + missing(input);
         });
}

/// At an assigned copy the profile counts each open mode's least amounts; with one mode alone it may be too much.
ExecStatus Memory::remove_impossible_modes(Space& home, bool& changed) {
  const auto assigned = profile().assigned();
  const auto memory = profile().assigned_memory(Reading::mandatory);
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    const CopyId copy = assigned[i].copy;
    const int variable = problem().mode_variable(copy);
    if (variable < 0 || x[variable].assigned()) continue;
    const FreeId owner = problem().owner(copy);
    Bytes others = memory[i] - profile().workspace_at(assigned[i], Reading::mandatory);
    for (const TouchedId t : problem().outputs(owner)) others -= profile().least_size(copy, t);
    const auto too_large = [&](ModeNumber mode) {
      return others + needed_by(assigned[i], mode) > problem().limits().capacity;
    };
    GECODE_ES_CHECK(remove_modes(home, x[variable], too_large, changed));
  }
  return Gecode::ES_OK;
}

}  // namespace remora::cp
