// SPDX-License-Identifier: Apache-2.0
//
// Memory over the steps of a sequence, of which stretches rise and fall: a segment tree for additions to ranges and the
// largest value of all.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "model/types.hpp"

namespace remora {

class MemoryProfile {
 public:
  /// O(steps).
  explicit MemoryProfile(std::span<const Bytes> memory) : steps_(std::bit_ceil(memory.size())), nodes_(2 * steps_) {
    for (std::size_t i = 0; i < memory.size(); ++i) nodes_[steps_ + i] = {memory[i], Bytes(0)};
    for (std::size_t i = steps_; i-- > 1;) refresh(i);
  }

  /// Adds to the steps [first, last], none where last < first. O(log steps).
  void add(int first, int last, Bytes amount) {
    if (last < first) return;
    std::size_t begin = steps_ + static_cast<std::size_t>(first);
    std::size_t end = steps_ + static_cast<std::size_t>(last) + 1;
    const std::size_t leftmost = begin;
    const std::size_t rightmost = end - 1;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) raise(begin++, amount);
      if (end % 2 == 1) raise(--end, amount);
    }
    for (std::size_t i = leftmost / 2; i >= 1; i /= 2) refresh(i);
    for (std::size_t i = rightmost / 2; i >= 1; i /= 2) refresh(i);
  }

  /// The largest memory of all steps, not negative; of none, 0.
  [[nodiscard]] Bytes largest() const { return nodes_[1].largest; }

 private:
  struct Node {
    /// Of the steps below, with what was added at this node and below it, but not above.
    Bytes largest{};
    Bytes added{};
  };

  void raise(std::size_t i, Bytes amount) {
    nodes_[i].largest += amount;
    nodes_[i].added += amount;
  }
  void refresh(std::size_t i) {
    nodes_[i].largest = std::max(nodes_[2 * i].largest, nodes_[2 * i + 1].largest) + nodes_[i].added;
  }

  /// A power of two; those beyond the sequence hold nothing. Step i is node steps_ + i; the children of node i are 2 i
  /// and 2 i + 1, the root is node 1.
  std::size_t steps_;
  std::vector<Node> nodes_;
};

}  // namespace remora
