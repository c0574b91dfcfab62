// SPDX-License-Identifier: Apache-2.0
//
// The part of RetentionProblem that knows of tensors: which are touched, where their fixed computes and uses are, and
// what all others add up to at each slot.
#include <algorithm>
#include <utility>

#include "model/cp/retention_problem.hpp"

namespace remora::cp {

TouchedId RetentionProblem::touch(TensorId tensor) {
  TouchedId& id = touched_of_tensor_[tensor];
  if (!id.valid()) {
    id = TouchedId(touched_.size());
    touched_.push_back({tensor, instance_.size(tensor), free_of_op_[instance_.producer(tensor)]});
  }
  return id;
}

void RetentionProblem::collect_touched() {
  touched_of_tensor_.assign(instance_.tensor_count(), TouchedId::none());
  for (const FreeOp& free : free_ops_) {
    for (const TensorId t : instance_.outputs(free.op)) outputs_.push(touch(t));
    outputs_.end_row();
    for (const TensorId t : instance_.inputs(free.op)) inputs_.push(touch(t));
    inputs_.end_row();
  }
}

Moment RetentionProblem::end_moment() const {
  if (free_order_) return {static_cast<std::int32_t>(fixed_events_.size()), places_};
  return {instance_.op_count() + 1, 0};
}

void RetentionProblem::anchor_touched() {
  const auto anchor = [&](std::size_t position) {
    return Anchor{fixed_events_[position].moment, static_cast<std::int32_t>(2 * position + 1)};
  };
  // By moment, since the fixed events are. Several million uses are no rarity: they are counted and then put in their place.
  const auto visit_touched = [&](auto tensors_of, auto visit) {
    for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
      const Compute& compute = fixed_events_[position].compute;
      for (const TensorId t : tensors_of(compute.op)) {
        if (const TouchedId id = touched_of_tensor_[t]; id.valid()) visit(anchor(position), compute, t, id);
      }
    }
  };
  const auto outputs = [&](OpId op) { return instance_.outputs(op); };
  const auto inputs = [&](OpId op) { return instance_.inputs(op); };
  fixed_computes_ = {touched_.size(), [&](const auto& put) {
                       visit_touched(outputs, [&](const Anchor& at, const Compute& compute, TensorId t, TouchedId id) {
                         put(id, {at, instance_.size(t, compute.mode)});
                       });
                     }};
  const auto last_slot = static_cast<std::int32_t>(2 * fixed_events_.size());
  fixed_uses_ = {touched_.size(), [&](const auto& put) {
                   visit_touched(inputs, [&](const Anchor& at, const Compute& compute, TensorId t, TouchedId id) {
                     if (instance_.reads(compute.op, compute.mode, t)) put(id, at);
                   });
                   for (const TouchedId t : touched_.ids()) {
                     if (instance_.keep(touched_[t].tensor)) put(t, {end_moment(), last_slot});
                   }
                 }};
  for (const TouchedTensor& touched : touched_) {
    for (const OpId user : instance_.users(touched.tensor)) {
      if (free_of_op_[user].valid()) free_users_.push(free_of_op_[user]);
    }
    free_users_.end_row();
  }
}

void RetentionProblem::collect_rest_memory() {
  // Untouched tensors are neither written nor read by free ops: the fixed events settle their intervals.
  struct Held {
    std::int32_t first = -1;
    std::int32_t last = -1;
    Bytes size{};
  };
  const std::size_t slots = 2 * fixed_events_.size() + 1;
  rest_memory_.assign(slots + 1, Bytes(0));
  Table<TensorId, Held> held(instance_.tensor_count());
  std::vector<Release> releases;
  const auto close = [&](const Held& interval, TensorId tensor) {
    if (interval.first < 0) return;
    if (instance_.has_inner()) releases.push_back({interval.last, tensor, interval.size});
    rest_memory_[at(interval.first)] += interval.size;
    rest_memory_[at(interval.last) + 1] -= interval.size;
  };
  for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
    const Compute& compute = fixed_events_[position].compute;
    const auto slot = static_cast<std::int32_t>(2 * position + 1);
    for (const TensorId t : instance_.inputs(compute.op)) {
      if (instance_.reads(compute.op, compute.mode, t)) held[t].last = slot;
    }
    for (const TensorId t : instance_.outputs(compute.op)) {
      if (touched_of_tensor_[t].valid()) continue;
      close(held[t], t);
      held[t] = {slot, slot, instance_.size(t, compute.mode)};
    }
  }
  for (const TensorId t : held.ids()) {
    if (touched_of_tensor_[t].valid()) continue;
    if (instance_.keep(t)) held[t].last = static_cast<std::int32_t>(slots) - 1;
    close(held[t], t);
  }
  Bytes resident = instance_.base_memory();
  for (std::size_t slot = 0; slot < slots; ++slot) {
    resident += rest_memory_[slot];
    rest_memory_[slot] = resident;
  }
  rest_memory_.pop_back();
  add_workspaces(std::move(releases));
}

void RetentionProblem::add_workspaces(std::vector<Release> releases) {
  const auto by_slot = [](const Release& a, const Release& b) { return a.slot < b.slot; };
  std::sort(releases.begin(), releases.end(), by_slot);
  for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
    const Compute& compute = fixed_events_[position].compute;
    const auto slot = static_cast<int>(2 * position + 1);
    const auto peaks = instance_.has_inner() ? instance_.inner(compute.op, compute.mode) : std::span<const InnerPeak>();
    if (peaks.empty()) {
      rest_memory_[2 * position + 1] += instance_.workspace(compute.op, compute.mode);
      continue;
    }
    const auto here = std::equal_range(releases.begin(), releases.end(), Release{slot, {}, {}}, by_slot);
    InnerEvent event{slot, {peaks.begin(), peaks.end()}};
    bool open = false;
    for (InnerPeak& peak : event.peaks) {
      std::erase_if(peak.freed, [&](const FreedInput& freed) {
        if (touched_of_tensor_[freed.tensor].valid()) return false;
        for (auto release = here.first; release != here.second; ++release) {
          if (release->tensor == freed.tensor) peak.workspace -= std::min(freed.most, release->size);
        }
        return true;
      });
      open = open || !peak.freed.empty();
    }
    if (open) {
      inner_events_.push_back(std::move(event));
    } else {
      rest_memory_[2 * position + 1] += highest_peak(event.peaks, [](TensorId) { return Bytes(0); });
    }
  }
}

}  // namespace remora::cp
