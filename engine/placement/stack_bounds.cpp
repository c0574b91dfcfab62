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

bool StackBounds::order_pairs(bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& low = context_->low;
  std::vector<int>& high = context_->high;
  for (const int i : context_->waiting) {
    for (const int k : problem.overlaps[at(i)]) {
      // k above i has no room: i is above k. The other way round is k's turn.
      if (low[at(i)] + problem.size[at(i)] <= high[at(k)]) continue;
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

bool StackBounds::hang_sections(bool& changed) {
  const StackProblem& problem = context_->problem;
  std::vector<int>& waiting = context_->waiting;
  const auto end = [&](int i) { return context_->high[at(i)] + problem.size[at(i)]; };
  // Here `second` is the highest end but one, and the item the one with the highest.
  for (auto& section : context_->sections) section = {0, kHigh, -1, -1};
  for (const int i : waiting) {
    for (const int s : problem.sections_of[at(i)]) {
      context_->sections[at(s)].lowest = std::min(context_->sections[at(s)].lowest, context_->low[at(i)]);
    }
  }
  std::sort(waiting.begin(), waiting.end(), [&](int a, int b) { return end(a) < end(b); });
  for (const int i : waiting) {
    for (const int s : problem.sections_of[at(i)]) {
      StackContext::Section& section = context_->sections[at(s)];
      section.sum += problem.size[at(i)];
      if (section.lowest + section.sum > end(i)) return false;
      section.second = section.lowest_item < 0 ? -1 : end(section.lowest_item);
      section.lowest_item = i;
    }
  }
  for (const int i : waiting) {
    for (const int s : problem.sections_of[at(i)]) {
      const StackContext::Section& section = context_->sections[at(s)];
      if (section.second < 0 || section.lowest + section.sum <= section.second) continue;
      const int last = section.lowest_item;
      if (last == i) {
        if (!raise(i, section.lowest + section.sum - problem.size[at(i)], changed)) return false;
      } else if (!lower(i, context_->high[at(last)] - problem.size[at(i)], changed)) {
        return false;
      }
    }
  }
  return true;
}

bool StackBounds::leaves_room(int section) const {
  const StackContext::Section& that = context_->sections[at(section)];
  return that.lowest + that.sum < context_->problem.capacity;
}

void StackBounds::list_tiles() {
  const auto& sections = context_->sections;
  context_->tiles.clear();
  std::fill(context_->first_tile.begin(), context_->first_tile.end(), -1);
  for (const int i : context_->waiting) {
    const std::vector<int>& own = context_->problem.sections_of[at(i)];
    const auto lies_at = [&](std::size_t k) { return sections[at(own[k])].lowest == context_->low[at(i)]; };
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (!lies_at(k)) continue;
      const int first = own[k];
      while (k + 1 < own.size() && own[k + 1] == own[k] + 1 && lies_at(k + 1)) ++k;
      context_->tiles.push_back({own[k] + 1, i, context_->first_tile[at(first)]});
      context_->first_tile[at(first)] = static_cast<int>(context_->tiles.size()) - 1;
    }
  }
}

bool StackBounds::cover_floors(bool& changed) {
  // The sections' sums and lowest starts are those of fill_sections.
  list_tiles();
  const int count = context_->problem.section_count;
  const auto level = [&](int s) { return context_->sections[at(s)].lowest; };
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
  const int level = context_->sections[at(floor.first)].lowest;
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
    for (const int s : problem.sections_of[at(i)]) context_->members[at(s)].push_back(i);
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
    constexpr std::size_t kMostSums = 250;
    if (sums.size() > kMostSums) return true;
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
  const auto& space = static_cast<const StackSpace&>(home);
  const StackInferences& inferences = context_->settings.inferences;
  const bool has_fixed = !context_->fixed_sections.empty();
  context_->waiting.clear();
  // Of what does not wait: no bound of another item refers to it.
  std::fill(context_->low.begin(), context_->low.end(), kHigh);
  std::fill(context_->high.begin(), context_->high.end(), kHigh);
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
  }
  return Gecode::ES_FIX;
}

}  // namespace remora::placement
