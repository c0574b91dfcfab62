// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/types.hpp"

namespace remora::report {

/// Finds the largest of any stretch of a fixed row of amounts in constant time, after O(n log n) of preparation (a
/// sparse table: the maxima of all stretches whose length is a power of two).
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<Bytes> amounts);

  /// Where the first largest amount of [first, last] stands; first <= last, both in the row.
  [[nodiscard]] int at(int first, int last) const;
  [[nodiscard]] Bytes amount(int i) const { return amounts_[static_cast<std::size_t>(i)]; }

 private:
  [[nodiscard]] int larger(int a, int b) const { return amount(b) > amount(a) ? b : a; }

  std::vector<Bytes> amounts_;
  /// largest_[k][i]: where the largest of the 2^k amounts from i on stands.
  std::vector<std::vector<int>> largest_{};
};

}  // namespace remora::report
