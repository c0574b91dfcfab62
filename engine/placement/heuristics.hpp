// SPDX-License-Identifier: Apache-2.0
//
// Placing items one after the other, each at the lowest place that is free during all its life: the heuristics that
// runtimes and compilers use, by area, size, or start. Every placement in which no item can sink comes out of some order.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/placement/part.hpp"

namespace remora::placement {

/// Keys of an order; each breaks ties by the next ones.
enum class Key {
  area,    ///< size times life, largest first
  size,    ///< largest first
  life,    ///< longest first
  start,   ///< earliest first
  crowded  ///< the largest load that the item meets, largest first
};

/// The items in the order of the keys.
std::vector<int> order_by(const Part& part, const std::vector<Key>& keys);

/// The orders worth trying, best first on most problems.
std::vector<std::vector<Key>> usual_keys();

/// Which place of those that are free an item takes.
enum class Fit {
  lowest,   ///< the lowest that is large enough
  smallest  ///< the smallest that is large enough, the lowest of these
};

/// Places items by an order, over and over without new memory.
class FirstFit {
 public:
  /// `overlaps`: of the part (overlaps_of). Both must outlive this.
  FirstFit(const Part& part, const std::vector<std::vector<int>>& overlaps);

  /// Fixed items lie where they have to, the others are placed in this order, which has every item once. Looks at as
  /// many items as `overlaps` has entries, and sorts. The result is good until the next call.
  const std::vector<Grains>& place(const std::vector<int>& order, Fit fit = Fit::lowest);

 private:
  struct Taken {
    Grains begin;
    Grains end;
  };
  Grains offset_for(int item, Fit fit);

  const Part& part_;
  const std::vector<std::vector<int>>& overlaps_;
  std::vector<Grains> offsets_;
  std::vector<Taken> taken_;
};

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

/// Priority of the items that fit in a valley: the largest is taken.
using Worth = std::pair<double, double>;

enum class Choice {
  longest,  ///< the one that lives longest; of these the largest
  largest,  ///< the largest; of these the one that lives longest
};

/// For every item.
std::vector<Worth> worth_by(const Part& part, Choice choice);

/// Each above all others, and all above what is fixed: a placement that takes no time to find.
std::vector<Grains> pile(const Part& part);

/// Gaps count as life, and all that is free lies above all that is fixed. O(n log n) for lives that are nested; in general
/// a search among those that begin in the valley. Nothing if `stopped` says so on the way.
std::optional<std::vector<Grains>> valley_fit(const Part& part, const std::vector<Worth>& worth,
                                              const std::function<bool()>& stopped);

}  // namespace remora::placement
