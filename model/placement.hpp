// SPDX-License-Identifier: Apache-2.0
//
// Buffers with lifetimes that get addresses in one arena: what a static allocator is asked, and when an answer is right
// (dynamic storage allocation; google/minimalloc, Moffitt 2023). How answers are found is engine/placement/place.hpp.
//
//     offset                              a lives in [0, 3), b in [1, 4), c in [3, 4)
//       3 +-------+
//         |   b   |                       No two buffers that live at one time share a byte, so a and b lie apart,
//     2 +-+---+---+                       and c may lie where a was. The load at a time is the sum of the sizes alive;
//       |  a  | c |                       no arena is smaller than the largest load.
//     0 +-----+---+
//       0 1   3   4  time
//
// The checks here share nothing with the searches: they read the buffers and compare.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/types.hpp"

namespace remora {

/// A stretch of time [lower, upper), in steps of a schedule or any other unit.
struct Lifespan {
  std::int64_t lower = 0;
  std::int64_t upper = 0;

  friend bool operator==(const Lifespan&, const Lifespan&) = default;
};

/// Memory that one value holds.
struct Buffer {
  std::string id{};
  Lifespan lifespan{};
  Bytes size{};
  /// Its offset is a multiple of this, at least 1.
  Bytes alignment{1};
  /// Where it has to lie; none if that is free.
  std::optional<Bytes> offset{};
  /// Stretches inside the lifespan when it holds no memory, in order and apart; afterwards it is at its offset again.
  std::vector<Lifespan> gaps{};

  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// Throws InputError that names the buffer: a lifespan or gap that ends before it begins, gaps out of order or outside
/// the lifespan, a negative size or offset, an alignment below 1, a fixed offset that is not aligned, a sum of all sizes
/// and alignments or an end of a fixed buffer beyond 2^62. Empty lifespans and sizes of 0 are allowed.
REMORA_API void check_buffers(std::span<const Buffer> buffers);

/// Offsets become multiples of `alignment`, too: of the least common one, saturating.
REMORA_API void align(std::vector<Buffer>& buffers, Bytes alignment);

/// The stretches in which it holds memory, in order; none for a size of 0.
REMORA_API std::vector<Lifespan> alive(const Buffer& buffer);

/// The largest sum of sizes alive at one time. O(n log n).
REMORA_API Bytes largest_load(std::span<const Buffer> buffers);

/// The end of the highest buffer that ever holds memory, or 0. `offsets` has one for each buffer.
REMORA_API Bytes arena_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets);

/// Describes what is wrong with the offsets, in one line: a negative or not aligned one, one that is not what the
/// buffer demands, an end beyond `capacity`, or two buffers that share bytes. Empty if nothing is. O(n log n): a sweep
/// over time that keeps live buffers sorted by offset.
REMORA_API std::string placement_fault(std::span<const Buffer> buffers, std::span<const Bytes> offsets,
                                       Bytes capacity = Bytes::max());

}  // namespace remora
