// SPDX-License-Identifier: Apache-2.0
//
// Placing from below, for problems of any size: the outline of what is placed is kept as a row of
// terraces; the lowest one takes the item that fits in it and lives longest, and where none fits it is filled up to its
// lower neighbour (the best fit of two-dimensional packing: Burke, Kendall and Whitwell 2004, with places in time given).
//
//     outline   __          __          the valley between takes c, which fits, then is filled up to b
//              |a |___   __|b |
//              |______| |_____|   ->
//                     |_|
//
// Lives that are nested, as those of a training step's activations are, stack without loss.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/placement/part.hpp"

namespace remora::placement {

/// What decides between the items that fit in a valley: the largest is taken.
using Worth = std::pair<double, double>;

enum class Choice {
  longest,  ///< the one that lives longest; of these the largest
  largest,  ///< the largest; of these the one that lives longest
};

/// For every item.
std::vector<Worth> worth_by(const Part& part, Choice choice);

/// Gaps count as life, and all that is free lies above all that is fixed. O(n log n) for lives that are nested; in general
/// a search among those that begin in the valley. Nothing if `stopped` says so on the way.
std::optional<std::vector<Units>> valley_fit(const Part& part, const std::vector<Worth>& worth,
                                             const std::function<bool()>& stopped);

}  // namespace remora::placement
