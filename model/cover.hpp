// SPDX-License-Identifier: Apache-2.0
//
// The covering knapsack at one event, which the lower bound and the constraint program share.
//
// At an event that exceeds the budget by `excess` bytes, offers must be taken whose gains reach the excess. The
// fractional relaxation takes them by cost per byte, the last one in part; rounded up, that is a lower bound on any
// choice. All arithmetic is exact: prices are compared as fractions, in 128 bits.
//
// Where several events exceed, their bounds may be added if each offer's cost is split between the events. An event
// needs of an offer's cost only its bytes at the critical price, that of the last offer taken; the rest serves other
// events:
//
//     offers   cost 4 for 4 bytes, cost 9 for 3 bytes, excess 5:  4 + ceil(9 * 1/3) = 7
//     critical price 3 a byte: the first is worth 12 but costs 4, the second is worth 9: 4 and 9 are spent
#pragma once

#include <cstdint>
#include <vector>

#include "model/types.hpp"

namespace remora {

struct CoverOffer {
  /// Whose offer it is; ties in price are broken by it.
  std::int32_t item = 0;
  /// At least 1 byte.
  Bytes gain{};
  Duration cost{};
};

/// A lower bound on the cost of offers whose gains reach `excess` (at least 1 byte), or Duration::max() if all of them
/// don't. Sorts the offers by cost per byte and lowers each one's cost to what the bound needs of it; computed for
/// these lowered costs the bound is the same up to rounding, and valid for them. O(offers log offers).
Duration spend_on_cover(Bytes excess, std::vector<CoverOffer>& offers);

}  // namespace remora
