// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace remora {

/// A set of sets of nodes, each a row of words of one length, by open addressing; nothing is ever taken out.
class NodeSets {
 public:
  /// `width`: words a set.
  explicit NodeSets(std::size_t width) : width_(width), slots_(1024, kEmpty) {}

  [[nodiscard]] std::size_t bytes() const { return 8 * words_.size() + 4 * slots_.size(); }

  [[nodiscard]] bool contains(std::span<const std::uint64_t> set) const { return slots_[find(set)] != kEmpty; }

  void insert(std::span<const std::uint64_t> set) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const std::size_t slot = find(set);
    if (slots_[slot] != kEmpty) return;
    slots_[slot] = static_cast<std::uint32_t>(count_++);
    words_.insert(words_.end(), set.begin(), set.end());
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xffffffffU;

  /// Its slot, or the empty one where it belongs.
  [[nodiscard]] std::size_t find(std::span<const std::uint64_t> set) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash(set) & mask;
    while (slots_[slot] != kEmpty) {
      const std::span<const std::uint64_t> other = at(slots_[slot]);
      if (std::equal(set.begin(), set.end(), other.begin())) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  [[nodiscard]] std::span<const std::uint64_t> at(std::size_t index) const {
    return std::span<const std::uint64_t>(words_).subspan(index * width_, width_);
  }

  static std::size_t hash(std::span<const std::uint64_t> set) {
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : set) {
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ULL;
      mixed ^= mixed >> 29U;
    }
    return static_cast<std::size_t>(mixed);
  }

  void grow() {
    slots_.assign(2 * slots_.size(), kEmpty);
    for (std::size_t i = 0; i < count_; ++i) slots_[find(at(i))] = static_cast<std::uint32_t>(i);
  }

  std::size_t width_;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint64_t> words_;
};

}  // namespace remora
