// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/bound/periods/program.hpp"
#include "model/table.hpp"

namespace remora {

/// A sum of multiples of columns and a constant.
class RowSum {
 public:
  explicit RowSum(int columns) : factors_(at(columns), 0) {}

  void add(std::int64_t amount) { constant_ += amount; }
  void add(int column, std::int64_t factor) {
    if (factor == 0) return;
    if (factors_[at(column)] == 0) used_.push_back(column);
    factors_[at(column)] += factor;
  }
  /// The row that says: no more than `most`. Nothing is left here.
  ProgramRow take_row(std::int64_t most) {
    ProgramRow row{.least = std::exchange(constant_, 0) - most};
    std::sort(used_.begin(), used_.end());
    for (const int column : used_) {
      if (const std::int64_t factor = std::exchange(factors_[at(column)], 0); factor != 0)
        row.terms.push_back({column, -factor});
    }
    used_.clear();
    return row;
  }

 private:
  std::int64_t constant_ = 0;
  std::vector<std::int64_t> factors_;
  std::vector<int> used_;
};

}  // namespace remora
