// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_profile.hpp"

#include <algorithm>
#include <limits>

namespace remora::cp {
namespace {

constexpr auto event_before = [](const MemoryEvent& a, const MemoryEvent& b) { return a.moment < b.moment; };

}  // namespace

RetentionProfile::RetentionProfile(const RetentionProblem& problem)
    : problem_(problem),
      domains_(problem.copy_count()),
      modes_(problem.copy_count(), 1U),
      tensors_(problem.touched().size()),
      mandatory_(problem.rest_memory().begin(), problem.rest_memory().end()),
      potential_(mandatory_) {
  mandatory_inner_.resize(problem.inner_events().size());
  potential_inner_ = mandatory_inner_;
  for (const TouchedId t : tensors_.ids()) dirty_.push_back(t);
}

void RetentionProfile::refresh(const Views& views) {
  bool changed = !dirty_.empty();
  for (const CopyId copy : problem_.copy_ids()) {
    StartDomain& domain = domains_[copy];
    const bool was_active = domain.active();
    const bool starts_differ = domain.update(views[copy], problem_.absent());
    const bool modes_differ = update_modes(views, copy);
    if (!starts_differ && !modes_differ) continue;
    changed = true;
    const FreeId owner = problem_.owner(copy);
    mark_dirty(problem_.outputs(owner));
    // A copy uses its inputs from when it is certain to happen and to read them.
    const bool reads_differ = starts_differ || problem_.free_ops()[owner].reads_differ;
    if (reads_differ && (was_active || domain.active())) mark_dirty(problem_.inputs(owner));
  }
  if (!changed) return;
  collect_assigned();
  if (is_empty_) {
    recompute_all();
  } else {
    for (const TouchedId t : dirty_) recompute(t);
  }
  dirty_.clear();
  correct_inner_events();
}

void RetentionProfile::correct_inner_events() {
  correct_inner_events(Reading::mandatory, mandatory_, mandatory_inner_);
  correct_inner_events(Reading::potential, potential_, potential_inner_);
}

void RetentionProfile::correct_inner_events(Reading reading, std::vector<Bytes>& memory,
                                            std::vector<Bytes>& counted) const {
  const auto events = problem_.inner_events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Moment moment = problem_.moment(events[i].slot);
    const Bytes highest = highest_peak(events[i].peaks, [&](TensorId t) { return released(t, moment, reading); });
    memory[at(events[i].slot)] += highest - counted[i];
    counted[i] = highest;
  }
}

bool RetentionProfile::update_modes(const Views& views, CopyId copy) {
  const int variable = problem_.mode_variable(copy);
  if (variable < 0) return false;
  std::uint64_t open = 0;
  for (Gecode::Int::ViewValues<Gecode::Int::IntView> value(views[variable]); value(); ++value) {
    open |= std::uint64_t{1} << static_cast<unsigned>(value.val());
  }
  return std::exchange(modes_[copy], open) != open;
}

void RetentionProfile::mark_dirty(std::span<const TouchedId> tensors) {
  for (const TouchedId t : tensors) {
    if (!tensors_[t].dirty) dirty_.push_back(t);
    tensors_[t].dirty = true;
  }
}

void RetentionProfile::collect_assigned() {
  assigned_.clear();
  open_.clear();
  for (AssignedMemory& memory : assigned_memory_) memory.known = false;
  for (const CopyId copy : domains_.ids()) {
    if (!domains_[copy].active()) continue;
    const OpId op = problem_.free_ops()[problem_.owner(copy)].op;
    const Start start = domains_[copy].earliest();
    auto& events = domains_[copy].assigned() ? assigned_ : open_;
    events.push_back({problem_.moment_of(start, op), problem_.gap_slot(start, op), copy});
  }
  std::sort(assigned_.begin(), assigned_.end(), event_before);
}

void RetentionProfile::collect_computes(TouchedId id) {
  const auto fixed = problem_.fixed_computes(id);
  computes_.clear();
  for (const FixedCompute& compute : fixed) computes_.push_back({compute.at, compute.size});
  const FreeId producer = problem_.touched()[id].producer;
  if (!producer.valid()) return;
  const FreeOp& free = problem_.free_ops()[producer];
  for (const CopyId copy : free.ids()) {
    const StartDomain& domain = domains_[copy];
    if (!domain.assigned()) continue;
    computes_.push_back({problem_.free_compute(domain.latest(), free.op), least_size(copy, id)});
  }
  std::sort(computes_.begin(), computes_.end(),
            [](const Server& a, const Server& b) { return a.at.moment < b.at.moment; });
}

void RetentionProfile::collect_uses(TouchedId id) {
  uses_.clear();
  for (const FreeId user : problem_.free_users(id)) {
    const FreeOp& free = problem_.free_ops()[user];
    for (const CopyId copy : free.ids()) {
      const StartDomain& domain = domains_[copy];
      if (!domain.active() || !problem_.reads(user, modes(copy), id)) continue;
      uses_.push_back({problem_.free_use(domain.earliest(), free.op), problem_.moment_of(domain.latest(), free.op)});
    }
  }
  const bool merge = !uses_.empty();
  for (const Anchor& use : problem_.fixed_uses(id)) uses_.push_back({use, use.moment});
  if (!merge) return;
  std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) { return a.at.moment < b.at.moment; });
}

/// The latest compute before the moment that a copy of the op can be, or one that is never.
Anchor RetentionProfile::latest_possible(FreeId producer, Moment before) const {
  const FreeOp& free = problem_.free_ops()[producer];
  const Start limit = problem_.last_start_before(free.op, before);
  Start latest = StartDomain::kNone;
  for (const CopyId copy : free.ids()) {
    latest = std::max(latest, domains_[copy].latest_up_to(limit));
  }
  if (latest == StartDomain::kNone) return {kNever, -1, false};
  return problem_.free_compute(latest, free.op);
}

void RetentionProfile::retain(TouchedId id, Reading reading, std::vector<Retention>& result) const {
  result.clear();
  const TouchedTensor& touched = problem_.touched()[id];
  const bool ask_possible = reading == Reading::mandatory && touched.producer.valid();
  auto next_compute = computes_.begin();
  Server certain{{kNever, -1, false}, touched.size};
  // A fixed compute allocates its output at its own event even if no use is certain to be served by it.
  const auto start = [&](const Server& compute) {
    const std::int32_t last_slot = compute.at.fixed ? compute.at.slot : compute.at.slot - 1;
    result.push_back(
        {compute.at, {compute.at.moment, last_slot, compute.at.fixed}, true, compute.at.moment, compute.size});
  };
  for (const Use& use : uses_) {
    for (; next_compute != computes_.end() && next_compute->at.moment < use.at.moment; ++next_compute) {
      certain = *next_compute;
      start(certain);
    }
    // A compute inside the window may serve the use.
    if (next_compute != computes_.end() && next_compute->at.moment < use.latest) continue;
    Server server = certain;
    bool is_certain = true;
    if (ask_possible) {
      const Anchor possible = latest_possible(touched.producer, use.latest);
      if (possible.moment >= use.at.moment) continue;
      if (possible.moment > certain.at.moment) {
        server = {possible, touched.size};
        is_certain = false;
      }
    }
    if (server.at.moment == kNever) continue;
    if (Retention* last = result.empty() ? nullptr : &result.back();
        last != nullptr && last->from.moment == server.at.moment) {
      last->first_use = last->first_use == last->from.moment ? use.latest : std::min(last->first_use, use.latest);
      last->to = use.at;
    } else {
      result.push_back({server.at, use.at, is_certain, use.latest, server.size});
    }
  }
  for (; next_compute != computes_.end(); ++next_compute) start(*next_compute);
}

/// The first time: what begins and ends at each slot, added up in the end, since all stretches together may be as long as
/// the slots times the tensors.
void RetentionProfile::recompute_all() {
  is_empty_ = false;
  std::vector<Bytes> mandatory(mandatory_.size() + 1);
  std::vector<Bytes> potential(mandatory.size());
  const auto count = [](std::vector<Bytes>& changes, std::span<const Retention> retentions) {
    for (int next = 0; const Retention& retention : retentions) {
      const int first = std::max(next, retention.from.slot);
      next = std::max(next, retention.to.slot + 1);
      if (first >= next) continue;
      changes[at(first)] += retention.size;
      changes[at(next)] -= retention.size;
    }
  };
  for (const TouchedId t : dirty_) {
    retain(t);
    count(mandatory, retentions(t, Reading::mandatory));
    count(potential, retentions(t, Reading::potential));
  }
  Bytes retained;
  Bytes kept;
  for (std::size_t slot = 0; slot < mandatory_.size(); ++slot) {
    mandatory_[slot] += retained += mandatory[slot];
    potential_[slot] += kept += potential[slot];
  }
}

void RetentionProfile::recompute(TouchedId id) {
  Tensor& entry = tensors_[id];
  mandatory_before_.swap(entry.mandatory);
  potential_before_.swap(entry.potential);
  const bool differed = entry.differs;
  retain(id);
  replace(mandatory_, mandatory_before_, entry.mandatory);
  replace(potential_, differed ? potential_before_ : mandatory_before_, retentions(id, Reading::potential));
}

void RetentionProfile::retain(TouchedId id) {
  Tensor& entry = tensors_[id];
  collect_computes(id);
  collect_uses(id);
  retain(id, Reading::mandatory, entry.mandatory);
  entry.differs = has_undecided_alone(problem_.touched()[id].producer);
  if (entry.differs) retain(id, Reading::potential, entry.potential);
  entry.dirty = false;
}

/// True if the op has undecided copies and no copy whose start alone is open.
bool RetentionProfile::has_undecided_alone(FreeId op) const {
  if (!op.valid()) return false;
  const FreeOp& free = problem_.free_ops()[op];
  bool undecided = false;
  for (const CopyId copy : free.ids()) {
    const StartDomain& domain = domains_[copy];
    if (domain.active() && !domain.assigned()) return false;
    undecided = undecided || domain.undecided();
  }
  return undecided;
}

/// Brings a memory from the one list of retentions to the other, both by slot and without overlaps. Most often they
/// share most of their slots, and only the others are touched.
void RetentionProfile::replace(std::vector<Bytes>& memory, std::span<const Retention> before,
                               std::span<const Retention> after) {
  // The contents of a list at a slot and beyond: nothing from `slot` to `last`, or `size`.
  struct Piece {
    int last;
    Bytes size;
  };
  const auto piece_at = [](std::span<const Retention>& list, int slot) -> Piece {
    while (!list.empty() && list.front().to.slot < slot) list = list.subspan(1);
    if (list.empty()) return {std::numeric_limits<int>::max(), Bytes(0)};
    if (list.front().from.slot > slot) return {list.front().from.slot - 1, Bytes(0)};
    return {list.front().to.slot, list.front().size};
  };
  for (int slot = 0;;) {
    const Piece old_piece = piece_at(before, slot);
    const Piece new_piece = piece_at(after, slot);
    if (before.empty() && after.empty()) return;
    const int last = std::min(old_piece.last, new_piece.last);
    const Bytes change = new_piece.size - old_piece.size;
    if (change != Bytes(0)) {
      for (; slot <= last; ++slot) memory[at(slot)] += change;
    }
    slot = last + 1;
  }
}

Bytes RetentionProfile::retained(TouchedId tensor, const MemoryEvent& event, Reading reading) const {
  const auto all = retentions(tensor, reading);
  const auto at = std::find_if(all.begin(), all.end(), [&](const Retention& r) { return r.covers(event.moment); });
  return at == all.end() ? Bytes(0) : at->size;
}

Bytes RetentionProfile::workspace_at(const MemoryEvent& event, Reading reading) const {
  return min_workspace(event.copy, [&](TensorId t) { return released(t, event.moment, reading); });
}

Bytes RetentionProfile::released(TensorId input, Moment moment, Reading reading) const {
  const TouchedId id = problem_.touched_id(input);
  if (!id.valid()) return Bytes(0);
  const auto all = retentions(id, reading);
  const auto at = std::find_if(all.begin(), all.end(), [&](const Retention& r) { return r.covers(moment); });
  return at == all.end() || at->to.moment > moment ? Bytes(0) : at->size;
}

bool RetentionProfile::has_inner(const MemoryEvent& event) const {
  if (event.copy.valid()) return problem_.free_ops()[problem_.owner(event.copy)].has_inner;
  const auto events = problem_.inner_events();
  return std::any_of(events.begin(), events.end(), [&](const auto& inner) { return inner.slot == event.slot; });
}

Bytes RetentionProfile::gain(TouchedId tensor, const MemoryEvent& event) const {
  const Bytes here = retained(tensor, event, Reading::potential);
  if (here == Bytes(0)) return here;
  // The event may free what it is the last to read.
  if (problem_.instance().has_inner() && has_inner(event) &&
      released(problem_.touched()[tensor].tensor, event.moment, Reading::mandatory) > Bytes(0)) {
    return here;
  }
  return here - retained(tensor, event, Reading::mandatory);
}

bool RetentionProfile::covers_slot(TouchedId tensor, int slot, Reading reading) const {
  const auto all = retentions(tensor, reading);
  return std::any_of(all.begin(), all.end(), [&](const Retention& r) { return r.covers_slot(slot); });
}

std::span<const Bytes> RetentionProfile::assigned_memory(Reading reading) {
  AssignedMemory& memory = assigned_memory_[reading == Reading::mandatory ? 0 : 1];
  if (memory.known) return memory.bytes;
  memory.bytes.resize(assigned_.size());
  for (std::size_t begin = 0; begin < assigned_.size();) {
    std::size_t end = begin + 1;
    while (end < assigned_.size() && assigned_[end].slot == assigned_[begin].slot) ++end;
    add_up_gap(reading, begin, end, memory.bytes);
    begin = end;
  }
  memory.known = true;
  return memory.bytes;
}

/// The memory at the assigned copies begin .. end - 1, which are all of one opening's. The slot counts what is retained
/// across the whole opening; what begins or ends inside it is written or read by these copies, or read by copies that may
/// still come into the opening.
void RetentionProfile::add_up_gap(Reading reading, std::size_t begin, std::size_t end, std::vector<Bytes>& result) {
  const int slot = assigned_[begin].slot;
  local_.clear();
  for (std::size_t i = begin; i < end; ++i) {
    const CopyId copy = assigned_[i].copy;
    const FreeId self = problem_.owner(copy);
    result[i] = memory(reading)[at(slot)] + workspace_at(assigned_[i], reading);
    for (const TouchedId t : problem_.outputs(self)) local_.push_back(t);
    for (const TouchedId t : problem_.inputs(self)) local_.push_back(t);
  }
  for (const MemoryEvent& open : open_) {
    if (open.slot != slot) continue;
    for (const TouchedId t : problem_.inputs(problem_.owner(open.copy))) local_.push_back(t);
  }
  std::sort(local_.begin(), local_.end());
  local_.erase(std::unique(local_.begin(), local_.end()), local_.end());
  change_.assign(end - begin + 1, Bytes(0));
  // The first of these copies at or after the moment, or after it.
  const auto position = [&](Moment moment, bool after) {
    const auto first = assigned_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = assigned_.begin() + static_cast<std::ptrdiff_t>(end);
    const MemoryEvent event{moment, slot, CopyId::none()};
    const auto place =
        after ? std::upper_bound(first, last, event, event_before) : std::lower_bound(first, last, event, event_before);
    return static_cast<std::size_t>(place - assigned_.begin());
  };
  for (const TouchedId t : local_) {
    for (const Retention& retention : retentions(t, reading)) {
      // Before or after the opening, or counted by the slot.
      if (retention.to.slot < slot - 1 || retention.from.slot > slot + 1 || retention.covers_slot(slot)) continue;
      const auto first = position(retention.from.moment, !retention.certain_compute);
      const auto past = position(retention.to.moment, true);
      if (first >= past) continue;
      change_[first - begin] += retention.size;
      change_[past - begin] -= retention.size;
    }
  }
  Bytes here;
  for (std::size_t i = begin; i < end; ++i) result[i] += here += change_[i - begin];
}

Duration RetentionProfile::least_duration(CopyId copy) const {
  const FreeOp& free = problem_.free_ops()[problem_.owner(copy)];
  return least(copy, free.duration, [&](ModeNumber mode) { return problem_.instance().duration(free.op, mode); });
}

Bytes RetentionProfile::least_size(CopyId copy, TouchedId output) const {
  const TouchedTensor& touched = problem_.touched()[output];
  return least(copy, touched.size, [&](ModeNumber mode) { return problem_.instance().size(touched.tensor, mode); });
}

}  // namespace remora::cp
