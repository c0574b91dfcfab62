// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "model/random.hpp"

namespace remora {

/// One of `count` (at least 1), with a probability in proportion to weight(i).
template <class Weight>
std::size_t draw_weighted(std::size_t count, Random& random, Weight weight) {
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += weight(i);
  double point = random.unit() * total;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    point -= weight(i);
    if (point < 0) return i;
  }
  return count - 1;
}

}  // namespace remora
