// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/placement/part.hpp"

namespace remora::placement {

/// What the constraint program may conclude; each can be switched off, and none changes which capacities hold a placement.
struct StackInferences {
  bool supports = true;   ///< an item that floats rests on one that is still to come
  bool blockers = true;   ///< and one of these lies where it would otherwise sink to
  bool orders = true;     ///< of two items one lies above the other, if the other way there is no room
  bool sections = true;   ///< what is still to come in a section has room above its floor
  bool first = true;      ///< an item that alone can come first in a section does
  bool decompose = true;  ///< items that what is placed separates are searched apart
};

/// A part and a capacity for the constraint program (stack_space.hpp): units as int, which Gecode's variables hold up to
/// 2^31 - 2, and the sections of which no other holds all items.
struct StackProblem {
  std::vector<int> size{};
  std::vector<int> alignment{};
  /// Where an item has to lie, or -1.
  std::vector<int> fixed{};
  /// The highest offset that ends within the capacity; negative: there is none.
  std::vector<int> highest{};
  std::vector<std::vector<int>> overlaps{};
  /// Of every item the maximal sections that it is alive in.
  std::vector<std::vector<int>> sections_of{};
  int section_count = 0;
  /// Sections from the first to the last of its life, gaps included; of the part.
  std::vector<Sections> span{};
  int span_count = 0;
  /// Rounded up: what highest allows may end there.
  int capacity = 0;

  [[nodiscard]] int count() const { return static_cast<int>(size.size()); }
  [[nodiscard]] int aligned(int item, int offset) const {
    const int a = alignment[at(item)];
    return a == 1 ? offset : (offset + a - 1) / a * a;
  }
};

/// `overlaps`: overlaps_of(part). Nothing if the capacity has more units than Gecode's variables hold.
std::optional<StackProblem> stack_problem(const Part& part, const std::vector<std::vector<int>>& overlaps,
                                          Bytes capacity);

struct StackSettings {
  /// Of items that can be placed equally low the first in this order is tried first: every item once.
  std::vector<int> order{};
  std::int64_t node_limit = INT64_MAX;
  /// Asked often; true ends the search. May be empty.
  std::function<bool()> interrupted{};
  StackInferences inferences{};
};

struct StackOutcome {
  /// A placement, or empty.
  std::vector<int> offsets{};
  /// Without offsets: there is no placement within the capacity.
  bool complete = false;
  std::int64_t nodes = 0;
};

/// Depth-first search in Gecode for one placement.
StackOutcome search_stack(const StackProblem& problem, const StackSettings& settings);

}  // namespace remora::placement
