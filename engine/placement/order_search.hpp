// SPDX-License-Identifier: Apache-2.0
//
// Local search on orders, for parts that are too large for the constraint program: place from below (valley_fit.hpp),
// blame what ends above the goal, let it choose earlier next time (squeaky wheel optimisation: Joslin and Clements 1999).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/placement/part.hpp"
#include "engine/placement/valley_fit.hpp"
#include "model/random.hpp"

namespace remora::placement {

class OrderSearch {
 public:
  /// `part` must outlive this.
  OrderSearch(const Part& part, Choice choice, std::uint64_t seed);

  /// One placement by the present order, which is then changed for the next one; empty if `stopped` says so on the way.
  /// `goal`: what the arena should be.
  std::vector<Units> next(Bytes goal, const std::function<bool()>& stopped);

 private:
  const Part& part_;
  Random random_;
  std::vector<Worth> first_;
  std::vector<Worth> worth_;
  /// The smallest arena since the order was begun anew, and how many placements ago that was.
  Bytes best_ = Bytes::max();
  int since_ = 0;
};

}  // namespace remora::placement
