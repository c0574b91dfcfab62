// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "model/instance.hpp"
#include "model/random.hpp"

namespace remora {

/// Whether there is anything to decide about the op: when it runs, whether it runs again, or by which option.
inline bool has_decision(const Instance& instance, OpId op) {
  return instance.options().order == OrderMode::free || instance.max_computes(op) > 1 || instance.option_count(op) > 1;
}

/// Collects ops that have a decision to make, each once, up to a size.
class OpSelection {
 public:
  OpSelection(const Instance& instance, int size)
      : instance_(instance), size_(size), chosen_(static_cast<std::size_t>(instance.op_count()), false) {}

  [[nodiscard]] bool full() const { return static_cast<int>(ops_.size()) >= size_; }

  void add(OpId op) {
    if (full() || !has_decision(instance_, op) || chosen_[static_cast<std::size_t>(op)]) return;
    chosen_[static_cast<std::size_t>(op)] = true;
    ops_.push_back(op);
  }
  void add_at_random(std::vector<OpId> ops, Random& random, std::size_t most) {
    random.shuffle(ops);
    for (std::size_t i = 0; i < std::min(most, ops.size()); ++i) add(ops[i]);
  }

  std::vector<OpId> sorted() && {
    std::sort(ops_.begin(), ops_.end());
    return std::move(ops_);
  }

 private:
  const Instance& instance_;
  int size_;
  std::vector<bool> chosen_;
  std::vector<OpId> ops_;
};

}  // namespace remora
