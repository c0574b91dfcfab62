// SPDX-License-Identifier: Apache-2.0
//
// Queries of a profile about many ranges of a row: the number of its elements, and the greatest.
#pragma once

#include <vector>

#include "model/types.hpp"

namespace remora::report {

/// How many amounts of [first, last] of a row are above `most`? None where last < first; else both in the row.
struct CountQuery {
  int first = 0;
  int last = -1;
  Bytes most{};
};

/// The answers to all queries in their order, in O((n + q) log(n + q)) time whatever the stretches' lengths: amounts
/// are entered from the largest down into prefix sums that can grow (Fenwick 1994, "A new data structure for cumulative
/// frequency tables"), and each query is answered when just those above its `most` are there.
std::vector<int> count_above(const std::vector<Bytes>& row, const std::vector<CountQuery>& queries);

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
