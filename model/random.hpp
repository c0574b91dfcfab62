// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace remora {

/// SplitMix64: the same numbers on every platform, which std::uniform_int_distribution does not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  /// In [0, bound); bound > 0. The bias of the remainder is below 2^-32 for the bounds used here.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

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
