// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/placement/stack_space.hpp"

namespace remora::placement {
namespace {

constexpr int kHigh = std::numeric_limits<int>::max() / 2;

}  // namespace

void StackBounds::note_moved(int item) {
  if (std::exchange(context_->has_moved[at(item)], char{1}) == 0) context_->moved.push_back(item);
}

bool StackBounds::raise(int item, int offset, bool& changed) {
  int& low = context_->low[at(item)];
  if (offset <= low) return true;
  low = context_->problem.aligned(item, offset);
  changed = true;
  context_->has_risen = true;
  note_moved(item);
  return low <= context_->high[at(item)];
}

bool StackBounds::lower(int item, int offset, bool& changed) {
  int& high = context_->high[at(item)];
  if (offset >= high) return true;
  high = offset;
  changed = true;
  note_moved(item);
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
      rest = std::min(rest, context_->low[at(k)] + problem.size[at(k)]);
      if (context_->low[at(k)] < end) {
        ++blockers;
        blocker = k;
      }
    }
    if (inferences.supports && (rest >= kHigh || !raise(i, rest, changed))) return false;
    if (!inferences.blockers) continue;
    if (blockers == 0) return false;
    if (blockers == 1 && !lower(blocker, end - 1, changed)) return false;
  }
  return true;
}

bool StackBounds::order_pair(int below, int above, bool& changed) {
  // The one above has no room there: it lies below instead.
  const StackProblem& problem = context_->problem;
  if (context_->low[at(below)] + problem.size[at(below)] <= context_->high[at(above)]) return true;
  return raise(below, context_->low[at(above)] + problem.size[at(above)], changed) &&
         lower(above, context_->high[at(below)] - problem.size[at(above)], changed);
}

bool StackBounds::order_pairs(bool& changed) {
  // Pairs of which no bound changed are as they were found at the last fixpoint.
  std::vector<int>& moved = context_->moved;
  while (!moved.empty()) {
    const int i = moved.back();
    moved.pop_back();
    context_->has_moved[at(i)] = 0;
    for (const int k : context_->problem.overlaps[at(i)]) {
      if (context_->low[at(k)] == kHigh) continue;
      if (!order_pair(i, k, changed) || !order_pair(k, i, changed)) return false;
    }
  }
  return true;
}

bool StackBounds::fill_sections(bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& waiting = context_->waiting;
  auto& [sum, lowest, second, lowest_item, above_first] = context_->sections;
  if (!std::exchange(context_->has_risen, false)) return true;
  // From the highest start down.
  std::sort(waiting.begin(), waiting.end(), [&](int a, int b) { return context_->low[at(a)] > context_->low[at(b)]; });
  std::fill(sum.begin(), sum.end(), 0);
  std::fill(lowest.begin(), lowest.end(), kHigh);
  std::fill(second.begin(), second.end(), kHigh);
  for (const int i : waiting) {
    const int low = context_->low[at(i)];
    int most = 0;
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) {
        sum[at(s)] += problem.size[at(i)];
        most = std::max(most, sum[at(s)]);
        second[at(s)] = lowest[at(s)];
        lowest[at(s)] = low;
        lowest_item[at(s)] = i;
      }
    }
    if (low + most > problem.capacity) return false;
  }
  return !context_->settings.inferences.first || place_first(changed);
}

bool StackBounds::place_first(bool& changed) {
  const StackProblem& problem = context_->problem;
  auto& [sum, lowest, second, lowest_item, above_first] = context_->sections;
  bool any = false;
  for (int s = 0; s < problem.section_count; ++s) {
    above_first[at(s)] = 0;
    if (second[at(s)] == kHigh || second[at(s)] + sum[at(s)] <= problem.capacity) continue;
    const int first = lowest_item[at(s)];
    if (!lower(first, problem.capacity - sum[at(s)], changed)) return false;
    above_first[at(s)] = lowest[at(s)] + problem.size[at(first)];
    any = true;
  }
  if (!any) return true;
  for (const int i : context_->waiting) {
    int above = 0;
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) {
        if (lowest_item[at(s)] != i) above = std::max(above, above_first[at(s)]);
      }
    }
    if (!raise(i, above, changed)) return false;
  }
  return true;
}

bool StackBounds::hang_sections(bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& waiting = context_->waiting;
  const auto end = [&](int i) { return context_->high[at(i)] + problem.size[at(i)]; };
  // Here `second` is the highest end but one, and the item the one with the highest.
  auto& [sum, lowest, second, highest_item, above_first] = context_->sections;
  std::fill(sum.begin(), sum.end(), 0);
  std::fill(lowest.begin(), lowest.end(), kHigh);
  std::fill(second.begin(), second.end(), -1);
  std::fill(highest_item.begin(), highest_item.end(), -1);
  context_->has_risen = true;
  for (const int i : waiting) {
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) lowest[at(s)] = std::min(lowest[at(s)], context_->low[at(i)]);
    }
  }
  std::sort(waiting.begin(), waiting.end(), [&](int a, int b) { return end(a) < end(b); });
  for (const int i : waiting) {
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) {
        sum[at(s)] += problem.size[at(i)];
        if (lowest[at(s)] + sum[at(s)] > end(i)) return false;
        second[at(s)] = highest_item[at(s)] < 0 ? -1 : end(highest_item[at(s)]);
        highest_item[at(s)] = i;
      }
    }
  }
  for (const int i : waiting) {
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) {
        if (second[at(s)] < 0 || lowest[at(s)] + sum[at(s)] <= second[at(s)]) continue;
        const int last = highest_item[at(s)];
        if (last == i) {
          if (!raise(i, lowest[at(s)] + sum[at(s)] - problem.size[at(i)], changed)) return false;
        } else if (!lower(i, context_->high[at(last)] - problem.size[at(i)], changed)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool StackBounds::leaves_room(int section) const {
  return context_->sections.lowest[at(section)] + context_->sections.sum[at(section)] < context_->problem.capacity;
}

void StackBounds::list_tiles() {
  const std::vector<int>& lowest = context_->sections.lowest;
  context_->tiles.clear();
  std::fill(context_->first_tile.begin(), context_->first_tile.end(), -1);
  for (const int i : context_->waiting) {
    const int low = context_->low[at(i)];
    for (const Sections& own : context_->problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) {
        if (lowest[at(s)] != low) continue;
        const int first = s;
        while (s + 1 < own.end && lowest[at(s) + 1] == low) ++s;
        context_->tiles.push_back({s + 1, i, context_->first_tile[at(first)]});
        context_->first_tile[at(first)] = static_cast<int>(context_->tiles.size()) - 1;
      }
    }
  }
}

bool StackBounds::cover_floors(bool& changed) {
  // The sections' sums and lowest starts are those of fill_sections.
  list_tiles();
  const int count = context_->problem.section_count;
  const auto level = [&](int s) { return context_->sections.lowest[at(s)]; };
  for (Sections floor; floor.first < count; floor.first = floor.end) {
    floor.end = floor.first + 1;
    while (floor.end < count && level(floor.end) == level(floor.first)) ++floor.end;
    if (level(floor.first) != kHigh && !cover_floor(floor, changed)) return false;
  }
  return true;
}

bool StackBounds::cover_floor(Sections floor, bool& changed) {
  const auto& tiles = context_->tiles;
  std::vector<char>& from_first = context_->from_first;
  std::vector<char>& to_end = context_->to_end;
  for (int s = floor.first; s <= floor.end; ++s) from_first[at(s)] = to_end[at(s)] = 0;
  from_first[at(floor.first)] = to_end[at(floor.end)] = 1;
  for (int s = floor.first; s < floor.end; ++s) {
    if (from_first[at(s)] == 0) continue;
    if (leaves_room(s)) from_first[at(s) + 1] = 1;
    for (int t = context_->first_tile[at(s)]; t >= 0; t = tiles[at(t)].next) from_first[at(tiles[at(t)].end)] = 1;
  }
  if (from_first[at(floor.end)] == 0) return false;
  const int level = context_->sections.lowest[at(floor.first)];
  for (int s = floor.end - 1; s >= floor.first; --s) {
    if (leaves_room(s)) to_end[at(s)] = to_end[at(s) + 1];
    for (int t = context_->first_tile[at(s)]; t >= 0; t = tiles[at(t)].next) {
      const bool leads_on = to_end[at(tiles[at(t)].end)] != 0;
      if (leads_on) to_end[at(s)] = 1;
      if (leads_on && from_first[at(s)] != 0) continue;
      if (!raise(tiles[at(t)].item, level + 1, changed)) return false;
    }
  }
  return true;
}

bool StackBounds::fill_gaps() {
  const StackProblem& problem = context_->problem;
  for (const int s : context_->fixed_sections) context_->members[at(s)].clear();
  for (const int i : context_->gap_order) {
    if (context_->low[at(i)] == kHigh) continue;
    for (const Sections& own : problem.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) context_->members[at(s)].push_back(i);
    }
  }
  for (const int s : context_->fixed_sections) {
    const std::vector<int>& members = context_->members[at(s)];
    const auto others = std::find_if(members.begin(), members.end(), [&](int i) { return problem.fixed[at(i)] < 0; });
    if (others == members.begin()) continue;
    // Most sections are as they were when they were last found to be all right.
    std::uint64_t known = members.size();
    for (const int i : members) {
      for (const int part : {i, context_->low[at(i)], context_->high[at(i)]}) {
        known = (known ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
        known ^= known >> 29U;
      }
    }
    if (context_->filled[at(s)] == known) continue;
    int floor = kHigh;
    int slack = problem.capacity;
    for (const int i : members) {
      floor = std::min(floor, context_->low[at(i)]);
      slack -= problem.size[at(i)];
    }
    slack -= floor;
    int begin = floor;
    for (auto lid = members.begin(); lid != others; ++lid) {
      const int end = problem.fixed[at(*lid)];
      if (!can_fill(s, begin, end, slack)) return false;
      begin = end + problem.size[at(*lid)];
    }
    if (!can_fill(s, begin, problem.capacity, slack)) return false;
    context_->filled[at(s)] = known;
  }
  return true;
}

bool StackBounds::can_fill(int section, int from, int end, int slack) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& sums = context_->sums;
  std::vector<int>& next = context_->next_sums;
  const int room = end - from;
  sums.assign(1, 0);
  for (const int i : context_->members[at(section)]) {
    if (sums.back() >= room - slack) return true;
    const int size = problem.size[at(i)];
    if (problem.fixed[at(i)] >= 0 || std::max(context_->low[at(i)], from) + size > end ||
        context_->high[at(i)] < from) {
      continue;
    }
    // More than these fill nearly everything.
    constexpr std::size_t kMaxSums = 250;
    if (sums.size() > kMaxSums) return true;
    next.clear();
    for (std::size_t without = 0, with = 0; with < sums.size();) {
      const int larger = sums[with] + size;
      const bool keeps = without < sums.size() && sums[without] <= larger;
      const int sum = keeps ? sums[without] : larger;
      if (sum > room) break;
      if (keeps) ++without;
      if (sum == larger) ++with;
      next.push_back(sum);
    }
    sums.swap(next);
  }
  return sums.back() >= room - slack;
}

Gecode::ExecStatus StackBounds::propagate(Gecode::Space& home, const Gecode::ModEventDelta&) {
  auto& space = static_cast<StackSpace&>(home);
  const StackInferences& inferences = context_->settings.inferences;
  const bool has_fixed = !context_->fixed_sections.empty();
  context_->waiting.clear();
  context_->moved.clear();
  std::fill(context_->has_moved.begin(), context_->has_moved.end(), char{0});
  context_->has_risen = true;
  // For items that are placed: no bound of another item refers to them.
  std::fill(context_->low.begin(), context_->low.end(), kHigh);
  std::fill(context_->high.begin(), context_->high.end(), kHigh);
  for (int i = 0; i < x.size(); ++i) {
    if (space.place(i) != StackSpace::Place::waiting) continue;
    context_->waiting.push_back(i);
    context_->low[at(i)] = x[i].min();
    context_->high[at(i)] = x[i].max();
    const StackSpace::Bounds known = space.at_fixpoint(i);
    if (known.low != x[i].min() || known.high != x[i].max()) note_moved(i);
  }
  for (bool changed = true; changed;) {
    changed = false;
    if (!lift_to_floor(space, changed)) return Gecode::ES_FAILED;
    if ((inferences.supports || inferences.blockers) && !rest_floating(space, changed)) return Gecode::ES_FAILED;
    if (inferences.orders && !order_pairs(changed)) return Gecode::ES_FAILED;
    if (inferences.sections && !fill_sections(changed)) return Gecode::ES_FAILED;
    // These cost more than they tell as long as others have something to say.
    if (inferences.sections && inferences.floors && !changed && !cover_floors(changed)) return Gecode::ES_FAILED;
    if (inferences.hanging && has_fixed && !changed && !hang_sections(changed)) return Gecode::ES_FAILED;
  }
  if (inferences.gaps && has_fixed && !fill_gaps()) return Gecode::ES_FAILED;
  for (const int i : context_->waiting) {
    GECODE_ME_CHECK(x[i].gq(home, context_->low[at(i)]));
    GECODE_ME_CHECK(x[i].lq(home, context_->high[at(i)]));
    space.at_fixpoint(i) = {.low = context_->low[at(i)], .high = context_->high[at(i)]};
  }
  return Gecode::ES_FIX;
}

}  // namespace remora::placement
