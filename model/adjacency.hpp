// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace remora {

/// Rows of varying length in one block of memory (compressed sparse rows). Rows are appended in order and never change.
template <class Key, class Value>
class Adjacency {
 public:
  void reserve(std::size_t rows, std::size_t values) {
    first_.reserve(rows + 1);
    values_.reserve(values);
  }

  /// Appends to the row that is being built.
  void push(Value value) { values_.push_back(value); }
  /// Ends the row that is being built; the next push starts the next one.
  void end_row() { first_.push_back(static_cast<std::int32_t>(values_.size())); }

  [[nodiscard]] std::span<const Value> operator[](Key row) const {
    const std::int32_t index = row;
    const auto begin = static_cast<std::size_t>(first_[static_cast<std::size_t>(index)]);
    const auto end = static_cast<std::size_t>(first_[static_cast<std::size_t>(index) + 1]);
    return std::span<const Value>(values_).subspan(begin, end - begin);
  }

 private:
  std::vector<std::int32_t> first_{0};
  std::vector<Value> values_;
};

}  // namespace remora
