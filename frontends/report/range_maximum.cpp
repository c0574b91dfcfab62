// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/range_maximum.hpp"

#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace remora::report {

RangeMaximum::RangeMaximum(std::vector<Bytes> amounts) : amounts_(std::move(amounts)) {
  const std::size_t count = amounts_.size();
  largest_.emplace_back(count);
  std::iota(largest_[0].begin(), largest_[0].end(), 0);
  for (std::size_t half = 1; 2 * half <= count; half *= 2) {
    const std::vector<int>& shorter = largest_.back();
    std::vector<int> longer(count - 2 * half + 1);
    for (std::size_t i = 0; i < longer.size(); ++i) longer[i] = larger(shorter[i], shorter[i + half]);
    largest_.push_back(std::move(longer));
  }
}

int RangeMaximum::at(int first, int last) const {
  const auto length = static_cast<unsigned>(last - first + 1);
  const auto level = static_cast<std::size_t>(std::bit_width(length) - 1);
  const std::vector<int>& row = largest_[level];
  const auto begin = static_cast<std::size_t>(first);
  return larger(row[begin], row[begin + length - (std::size_t{1} << level)]);
}

}  // namespace remora::report
