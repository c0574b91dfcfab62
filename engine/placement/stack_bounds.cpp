// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "engine/placement/stack_space.hpp"

namespace remora::placement {
namespace {

constexpr int kHigh = std::numeric_limits<int>::max() / 2;

}  // namespace

bool StackBounds::raise(int item, int offset, bool& changed) {
  int& low = context_->low[at(item)];
  if (offset <= low) return true;
  low = context_->problem.aligned(item, offset);
  changed = true;
  return low <= context_->high[at(item)];
}

bool StackBounds::lower(int item, int offset, bool& changed) {
  int& high = context_->high[at(item)];
  if (offset >= high) return true;
  high = offset;
  changed = true;
  return context_->low[at(item)] <= high;
}

bool StackBounds::lift_to_floor(const StackSpace& space, bool& changed) {
  // The lowest of those that wait rests on its support.
  int floor = kHigh;
  for (const int i : context_->waiting) {
    if (context_->low[at(i)] == space.support(i)) floor = std::min(floor, space.support(i));
  }
  if (floor == kHigh) return context_->waiting.empty();
  for (const int i : context_->waiting) {
    if (!raise(i, floor, changed)) return false;
  }
  return true;
}

bool StackBounds::rest_floating(const StackSpace& space, bool& changed) {
  const StackProblem& problem = context_->problem;
  const StackInferences& inferences = context_->settings.inferences;
  for (const int i : context_->waiting) {
    const int support = space.support(i);
    if (context_->low[at(i)] == support) continue;
    const int end = support + problem.size[at(i)];
    int rest = kHigh;
    int blockers = 0;
    int blocker = -1;
    for (const int k : problem.overlaps[at(i)]) {
      if (space.place(k) != StackSpace::Place::waiting) continue;
      rest = std::min(rest, context_->low[at(k)] + problem.size[at(k)]);
      if (context_->low[at(k)] < end) {
        ++blockers;
        blocker = k;
      }
    }
    if (inferences.supports && (rest == kHigh || !raise(i, rest, changed))) return false;
    if (!inferences.blockers) continue;
    if (blockers == 0) return false;
    if (blockers == 1 && !lower(blocker, end - 1, changed)) return false;
  }
  return true;
}

bool StackBounds::order_pairs(const StackSpace& space, bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& low = context_->low;
  std::vector<int>& high = context_->high;
  for (const int i : context_->waiting) {
    for (const int k : problem.overlaps[at(i)]) {
      // k above i has no room: i is above k. The other way round is k's turn.
      if (space.place(k) != StackSpace::Place::waiting || low[at(i)] + problem.size[at(i)] <= high[at(k)]) continue;
      if (!raise(i, low[at(k)] + problem.size[at(k)], changed)) return false;
      if (!lower(k, high[at(i)] - problem.size[at(k)], changed)) return false;
    }
  }
  return true;
}

bool StackBounds::fill_sections(bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& waiting = context_->waiting;
  // From the highest start down.
  std::sort(waiting.begin(), waiting.end(), [&](int a, int b) { return context_->low[at(a)] > context_->low[at(b)]; });
  for (auto& section : context_->sections) section = {0, kHigh, kHigh, -1};
  for (const int i : waiting) {
    const int low = context_->low[at(i)];
    for (const int s : problem.sections_of[at(i)]) {
      StackContext::Section& section = context_->sections[at(s)];
      section.sum += problem.size[at(i)];
      if (low + section.sum > problem.capacity) return false;
      section.second = section.lowest;
      section.lowest = low;
      section.lowest_item = i;
    }
  }
  if (!context_->settings.inferences.first) return true;
  for (const int i : waiting) {
    for (const int s : problem.sections_of[at(i)]) {
      const StackContext::Section& section = context_->sections[at(s)];
      if (section.second == kHigh || section.second + section.sum <= problem.capacity) continue;
      if (section.lowest_item == i) {
        if (!lower(i, problem.capacity - section.sum, changed)) return false;
      } else if (!raise(i, section.lowest + problem.size[at(section.lowest_item)], changed)) {
        return false;
      }
    }
  }
  return true;
}

Gecode::ExecStatus StackBounds::propagate(Gecode::Space& home, const Gecode::ModEventDelta&) {
  const auto& space = static_cast<const StackSpace&>(home);
  const StackInferences& inferences = context_->settings.inferences;
  context_->waiting.clear();
  for (int i = 0; i < x.size(); ++i) {
    if (space.place(i) != StackSpace::Place::waiting) continue;
    context_->waiting.push_back(i);
    context_->low[at(i)] = x[i].min();
    context_->high[at(i)] = x[i].max();
  }
  for (bool changed = true; changed;) {
    changed = false;
    if (!lift_to_floor(space, changed)) return Gecode::ES_FAILED;
    if ((inferences.supports || inferences.blockers) && !rest_floating(space, changed)) return Gecode::ES_FAILED;
    if (inferences.orders && !order_pairs(space, changed)) return Gecode::ES_FAILED;
    if (inferences.sections && !fill_sections(changed)) return Gecode::ES_FAILED;
  }
  for (const int i : context_->waiting) {
    GECODE_ME_CHECK(x[i].gq(home, context_->low[at(i)]));
    GECODE_ME_CHECK(x[i].lq(home, context_->high[at(i)]));
  }
  return Gecode::ES_FIX;
}

}  // namespace remora::placement
