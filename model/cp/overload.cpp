// SPDX-License-Identifier: Apache-2.0
#include "model/cp/overload.hpp"

#include <algorithm>

namespace remora::cp {

void OverloadFinder::find(std::vector<Overload>& overloads) const {
  overloads.clear();
  const Bytes capacity = problem_.limits().capacity;
  const auto memory = profile_.memory(Reading::potential);
  for (int slot = 1; slot < static_cast<int>(memory.size()); slot += 2) {
    const Bytes here = memory[at(slot)];
    if (here > capacity) overloads.push_back({{problem_.moment(slot), slot, CopyId::none()}, here - capacity});
  }
  const auto assigned = profile_.assigned();
  const auto assigned_memory = profile_.assigned_memory(Reading::potential);
  for (std::size_t i = 0; i < assigned.size(); ++i) {
    if (assigned_memory[i] > capacity) overloads.push_back({assigned[i], assigned_memory[i] - capacity});
  }
}

void OverloadFinder::candidates(const MemoryEvent& event, std::vector<CoverOffer>& result) const {
  result.clear();
  const auto& free_ops = problem_.free_ops();
  for (const FreeId f : free_ops.ids()) {
    Bytes gain;
    for (const TouchedId t : problem_.outputs(f)) {
      if (!profile_.may_give_way(t)) continue;
      gain += profile_.gain(t, event);
    }
    if (gain > Bytes(0)) result.push_back({f, gain, free_ops[f].duration});
  }
}

Duration CoverBound::compute(int events_considered) {
  finder_.find(overloads_);
  if (overloads_.empty()) return Duration(0);
  for (const FreeId f : residual_.ids()) residual_[f] = problem_.free_ops()[f].duration;
  const auto considered = std::min(overloads_.size(), at(events_considered));
  std::partial_sort(overloads_.begin(), overloads_.begin() + static_cast<std::ptrdiff_t>(considered), overloads_.end(),
                    [](const Overload& a, const Overload& b) {
                      return a.excess != b.excess ? a.excess > b.excess : a.event.moment < b.event.moment;
                    });
  Duration total;
  for (std::size_t i = 0; i < considered; ++i) {
    const Duration more = relieve(overloads_[i]);
    if (more == Duration::max()) return more;
    total += more;
  }
  return total;
}

Duration CoverBound::relieve(const Overload& overload) {
  finder_.candidates(overload.event, candidates_);
  for (CoverOffer& candidate : candidates_) candidate.cost = residual_[FreeId(candidate.item)];
  const Duration bound = spend_on_cover(overload.excess, candidates_);
  for (const CoverOffer& candidate : candidates_) {
    residual_[FreeId(candidate.item)] -= candidate.cost;
  }
  return bound;
}

}  // namespace remora::cp
