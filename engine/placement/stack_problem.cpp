// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/stack_problem.hpp"

#include <algorithm>

namespace remora::placement {
namespace {

/// Gecode's largest value, with room for a sum of an offset and a size.
constexpr Units kMostUnits = Units{1} << 29;

/// Sections that begin with somebody's life and end with somebody's: all others are within a neighbour.
std::vector<int> maximal_sections(const Part& part) {
  std::vector<char> begins(at(part.sections) + 1);
  std::vector<char> ends(at(part.sections) + 1);
  for (const Item& item : part.items) {
    for (const Sections& alive : item.alive) {
      begins[at(alive.first)] = 1;
      ends[at(alive.end)] = 1;
    }
  }
  std::vector<int> number(at(part.sections), -1);
  int count = 0;
  for (int s = 0; s < part.sections; ++s) {
    // Since somebody has begun, nobody has ended: the last of such a row is the largest.
    if (!ends[at(s) + 1]) continue;
    int begin = s;
    while (begin > 0 && !ends[at(begin)] && !begins[at(begin)]) --begin;
    if (begins[at(begin)]) number[at(s)] = count++;
  }
  return number;
}

}  // namespace

std::optional<StackProblem> stack_problem(const Part& part, const std::vector<std::vector<int>>& overlaps,
                                          Bytes capacity) {
  const Units units = capacity.count() / part.unit.count() + (capacity.count() % part.unit.count() != 0 ? 1 : 0);
  if (units > kMostUnits) return std::nullopt;
  StackProblem problem;
  problem.capacity = static_cast<int>(units);
  problem.overlaps = overlaps;
  problem.span_count = part.sections;
  const std::vector<int> number = maximal_sections(part);
  problem.section_count = 1 + *std::max_element(number.begin(), number.end());
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    // What does not fit has no place whatever its size, which stays below the limit then.
    problem.size.push_back(static_cast<int>(std::min(item.size, kMostUnits)));
    problem.alignment.push_back(static_cast<int>(std::min(item.alignment, kMostUnits)));
    problem.fixed.push_back(static_cast<int>(std::min(item.fixed, kMostUnits)));
    problem.highest.push_back(static_cast<int>(part.highest(i, capacity)));
    problem.span.push_back({item.first(), item.end()});
    std::vector<int>& sections = problem.sections_of.emplace_back();
    for (const Sections& alive : item.alive) {
      for (int s = alive.first; s < alive.end; ++s) {
        if (number[at(s)] >= 0) sections.push_back(number[at(s)]);
      }
    }
  }
  return problem;
}

}  // namespace remora::placement
