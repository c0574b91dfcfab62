// SPDX-License-Identifier: Apache-2.0
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

}  // namespace remora::report
