// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_profile.hpp"

#include <algorithm>

namespace remora::cp {
namespace {

/// Events sorted by moment are sorted by slot, too.
constexpr auto by_slot = [](const MemoryEvent& a, const MemoryEvent& b) { return a.slot < b.slot; };

constexpr auto by_moment = [](const Anchor& a, const Anchor& b) { return a.moment < b.moment; };

}  // namespace

RetentionProfile::RetentionProfile(const RetentionProblem& problem)
    : problem_(problem),
      domains_(static_cast<std::size_t>(problem.copy_count())),
      tensors_(problem.touched().size()),
      mandatory_(problem.rest_memory().begin(), problem.rest_memory().end()),
      potential_(mandatory_) {
  for (std::size_t t = 0; t < tensors_.size(); ++t) dirty_.emplace_back(t);
}

void RetentionProfile::refresh(const StageViews& stages) {
  bool changed = !dirty_.empty();
  for (int copy = 0; copy < stages.size(); ++copy) {
    StageDomain& domain = domains_[static_cast<std::size_t>(copy)];
    const bool was_assigned = domain.assigned();
    if (!domain.update(stages[copy], problem_.absent())) continue;
    changed = true;
    for (const TouchedId t : problem_.outputs(problem_.owner(CopyId(copy)))) {
      if (!tensors_[t].dirty) dirty_.push_back(t);
      tensors_[t].dirty = true;
    }
    // A recompute uses its inputs from when it is certain to happen at one moment.
    if (was_assigned || domain.assigned()) mark_dirty(CopyId(copy));
  }
  if (!changed) return;
  collect_assigned();
  for (const TouchedId t : dirty_) recompute(t);
  dirty_.clear();
}

void RetentionProfile::mark_dirty(CopyId copy) {
  for (const TouchedId t : problem_.inputs(problem_.owner(copy))) {
    if (!tensors_[t].dirty) dirty_.push_back(t);
    tensors_[t].dirty = true;
  }
}

void RetentionProfile::collect_assigned() {
  assigned_.clear();
  for (std::size_t copy = 0; copy < domains_.size(); ++copy) {
    if (!domains_[copy].assigned()) continue;
    const OpId op = problem_.free_ops()[problem_.owner(CopyId(copy))].op;
    const Stage stage = domains_[copy].latest();
    assigned_.push_back({{stage, op}, problem_.gap_slot(stage, op), CopyId(copy)});
  }
  std::sort(assigned_.begin(), assigned_.end(),
            [](const MemoryEvent& a, const MemoryEvent& b) { return a.moment < b.moment; });
}

void RetentionProfile::collect_computes(TouchedId id) {
  const auto fixed = problem_.fixed_computes(id);
  computes_.assign(fixed.begin(), fixed.end());
  const FreeId producer = problem_.touched()[id].producer;
  if (!producer.valid()) return;
  const FreeOp& free = problem_.free_ops()[producer];
  for (std::int32_t copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
    const StageDomain& domain = domains_[static_cast<std::size_t>(copy)];
    if (domain.assigned()) computes_.push_back(problem_.free_compute(domain.latest(), free.op));
  }
  if (computes_.size() > fixed.size() + 1) std::sort(computes_.begin(), computes_.end(), by_moment);
}

void RetentionProfile::collect_uses(TouchedId id) {
  const auto fixed = problem_.fixed_uses(id);
  uses_.clear();
  for (const FreeId user : problem_.free_users(id)) {
    const FreeOp& free = problem_.free_ops()[user];
    for (std::int32_t copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
      const StageDomain& domain = domains_[static_cast<std::size_t>(copy)];
      if (domain.assigned()) uses_.push_back(problem_.free_use(domain.latest(), free.op));
    }
  }
  const bool merge = !uses_.empty();
  uses_.insert(uses_.end(), fixed.begin(), fixed.end());
  if (merge) std::sort(uses_.begin(), uses_.end(), by_moment);
}

Anchor RetentionProfile::latest_possible(FreeId producer, Moment before) const {
  const FreeOp& free = problem_.free_ops()[producer];
  const Stage limit = RetentionProblem::last_stage_before(free.op, before);
  Stage latest = StageDomain::kNone;
  for (std::int32_t copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
    latest = std::max(latest, domains_[static_cast<std::size_t>(copy)].latest_up_to(limit));
  }
  if (latest == StageDomain::kNone) return {{-1, -1}, -1, false};
  return problem_.free_compute(latest, free.op);
}

void RetentionProfile::retain(TouchedId id, Reading reading, std::vector<Retention>& result) const {
  result.clear();
  const FreeId producer = problem_.touched()[id].producer;
  const bool ask_possible = reading == Reading::mandatory && producer.valid();
  auto next_compute = computes_.begin();
  Anchor certain = *next_compute++;
  // A fixed compute allocates its output at its own event even if no use is certain to be served by it.
  const auto start = [&](const Anchor& compute) {
    const std::int32_t last_slot = compute.fixed ? compute.slot : compute.slot - 1;
    result.push_back({compute, {compute.moment, last_slot, compute.fixed}, true, compute.moment});
  };
  start(certain);
  for (const Anchor& use : uses_) {
    for (; next_compute != computes_.end() && next_compute->moment < use.moment; ++next_compute) {
      certain = *next_compute;
      start(certain);
    }
    Anchor server = certain;
    if (ask_possible) {
      const Anchor possible = latest_possible(producer, use.moment);
      if (possible.moment > certain.moment) server = possible;
    }
    if (Retention& last = result.back(); last.from.moment == server.moment) {
      if (last.first_use == last.from.moment) last.first_use = use.moment;
      last.to = use;
    } else {
      result.push_back({server, use, false, use.moment});
    }
  }
  for (; next_compute != computes_.end(); ++next_compute) start(*next_compute);
}

void RetentionProfile::recompute(TouchedId id) {
  Tensor& entry = tensors_[id];
  const TouchedTensor& touched = problem_.touched()[id];
  add(entry, Bytes(0) - touched.size);
  collect_computes(id);
  collect_uses(id);
  retain(id, Reading::mandatory, entry.mandatory);
  entry.differs = false;
  if (touched.producer.valid()) {
    const FreeOp& free = problem_.free_ops()[touched.producer];
    bool open = false;
    for (std::int32_t copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
      const StageDomain& domain = domains_[static_cast<std::size_t>(copy)];
      entry.differs = entry.differs || domain.undecided();
      open = open || (domain.active() && !domain.assigned());
    }
    entry.differs = entry.differs && !open;
  }
  if (entry.differs) retain(id, Reading::potential, entry.potential);
  add(entry, touched.size);
  entry.dirty = false;
}

void RetentionProfile::add(const Tensor& entry, Bytes size) {
  add_range(mandatory_, entry.mandatory, size);
  add_range(potential_, entry.differs ? entry.potential : entry.mandatory, size);
}

void RetentionProfile::add_range(std::vector<Bytes>& memory, std::span<const Retention> retentions, Bytes size) const {
  for (const Retention& retention : retentions) {
    for (int slot = retention.from.slot; slot <= retention.to.slot; ++slot) {
      memory[static_cast<std::size_t>(slot)] += size;
    }
  }
}

bool RetentionProfile::retained(TouchedId tensor, const MemoryEvent& event, Reading reading) const {
  const auto all = retentions(tensor, reading);
  return std::any_of(all.begin(), all.end(), [&](const Retention& r) { return r.covers(event.moment); });
}

Bytes RetentionProfile::memory_at(const MemoryEvent& event, Reading reading) const {
  if (!event.copy.valid()) return memory(reading)[static_cast<std::size_t>(event.slot)];
  const FreeId self = problem_.owner(event.copy);
  Bytes total = memory(reading)[static_cast<std::size_t>(event.slot)] + problem_.free_ops()[self].workspace;
  // The slot counts what is retained across the whole gap. What begins or ends inside it is written or read by the
  // recomputes of this gap.
  std::vector<TouchedId> local;
  const auto [begin, end] = std::equal_range(assigned_.begin(), assigned_.end(), event, by_slot);
  for (auto other = begin; other != end; ++other) {
    for (const TouchedId t : problem_.outputs(problem_.owner(other->copy))) local.push_back(t);
    for (const TouchedId t : problem_.inputs(problem_.owner(other->copy))) local.push_back(t);
  }
  std::sort(local.begin(), local.end());
  local.erase(std::unique(local.begin(), local.end()), local.end());
  const auto own = problem_.outputs(self);
  for (const TouchedId t : local) {
    const auto all = retentions(t, reading);
    const bool whole = std::any_of(all.begin(), all.end(), [&](auto& r) { return r.covers_slot(event.slot); });
    if (whole) continue;
    const bool here = retained(t, event, reading) || std::find(own.begin(), own.end(), t) != own.end();
    if (here) total += problem_.touched()[t].size;
  }
  return total;
}

}  // namespace remora::cp
