// SPDX-License-Identifier: Apache-2.0
//
// A placement problem as the searches see it: cut into parts that share no time, each in grains instead of bytes.
//
// Where nothing lives the problem falls apart, and the arena is the largest of the parts'. Inside a part time is cut into
// sections, the stretches in which the same buffers are alive.
//
// A solution in which no buffer can sink has offsets that are sums of sizes, aligned. So if every size is a multiple of
// some amount, and every alignment a multiple or a divisor of it, every offset of such a solution is one, too: the grain.
// Where all alignments are multiples of an amount, sizes may be rounded up to it, for whatever lies above begins there;
// only the end of the highest buffer is not rounded, which `ends` and `highest` keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/placement.hpp"
#include "model/types.hpp"

namespace remora::placement {

/// Bytes divided by the part's grain.
using Grains = std::int64_t;

/// The number of an item or a section as an index.
constexpr std::size_t at(int number) {
  return static_cast<std::size_t>(number);
}

/// Sections [first, end) of a part.
struct Sections {
  int first = 0;
  int end = 0;
};

/// One buffer of a part. It is alive in one section at least and has a size above 0.
struct Item {
  /// Its number in the whole problem.
  std::size_t buffer = 0;
  /// Rounded up.
  Grains size = 0;
  /// At least 1.
  Grains alignment = 1;
  /// Where it has to lie, or kFree.
  Grains fixed = -1;
  Bytes bytes{};
  /// When it is alive, in order; sections between two of them are its gaps.
  std::vector<Sections> alive{};

  [[nodiscard]] bool is_fixed() const { return fixed >= 0; }
  [[nodiscard]] int first() const { return alive.front().first; }
  [[nodiscard]] int end() const { return alive.back().end; }
};

struct Part {
  Bytes grain{1};
  std::vector<Item> items{};
  int sections = 0;
  /// No arena of this part is smaller: the largest load, that of items of one alignment with sizes rounded up to it, or the
  /// end of a fixed item.
  Bytes lower_bound{};

  [[nodiscard]] int count() const { return static_cast<int>(items.size()); }
  [[nodiscard]] Bytes bytes(Grains grains) const { return Bytes(grains * grain.count()); }
  /// The smallest multiple of the item's alignment that is not below.
  [[nodiscard]] Grains aligned(int item, Grains offset) const {
    const Grains a = items[at(item)].alignment;
    return a == 1 ? offset : (offset + a - 1) / a * a;
  }
  /// The highest offset at which the item ends within so many bytes, aligned; negative if there is none.
  [[nodiscard]] Grains highest(int item, Bytes capacity) const;
  /// The end of the highest item.
  [[nodiscard]] Bytes arena(std::span<const Grains> offsets) const;
};

/// The parts of a checked problem (check_buffers), in the order of time. Buffers that never hold memory are in none.
/// O(n log n).
std::vector<Part> parts_of(std::span<const Buffer> buffers);

/// For every item those that are alive at a time when it is, in ascending order.
std::vector<std::vector<int>> overlaps_of(const Part& part);

/// How many entries these have, if gaps count as life: what they would cost.
std::int64_t overlap_count(const Part& part);

/// The load of every section.
std::vector<Grains> loads_of(const Part& part);

}  // namespace remora::placement
