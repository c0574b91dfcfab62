// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "model/types.hpp"

namespace remora {

/// A set of stages that finds its next member fast: one bit a stage.
class StageSet {
 public:
  explicit StageSet(int stages) : stages_(stages), words_(static_cast<std::size_t>(stages) / 64 + 1, 0) {}

  void set(Stage stage) { word(stage) |= bit(stage); }
  void clear(Stage stage) { word(stage) &= ~bit(stage); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  /// The first member that is not before `stage`, or the number of stages.
  [[nodiscard]] Stage next(Stage stage) const {
    std::size_t i = static_cast<std::size_t>(stage) / 64;
    std::uint64_t bits = words_[i] & ~(bit(stage) - 1);
    while (bits == 0) {
      if (++i == words_.size()) return stages_;
      bits = words_[i];
    }
    return static_cast<Stage>(i * 64) + std::countr_zero(bits);
  }

 private:
  static std::uint64_t bit(Stage stage) { return std::uint64_t{1} << (static_cast<unsigned>(stage) % 64); }
  std::uint64_t& word(Stage stage) { return words_[static_cast<std::size_t>(stage) / 64]; }

  int stages_;
  std::vector<std::uint64_t> words_;
};

}  // namespace remora
