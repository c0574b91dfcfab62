// SPDX-License-Identifier: Apache-2.0
//
// Which tensors may be in memory in a stage: a segment tree over stages. A lifespan is kept at O(log stages) nodes, and
// asking for a stage visits the nodes above it: O(log stages + answers).
#pragma once

#include <vector>

#include "model/types.hpp"

namespace remora {

class LifespanIndex {
 public:
  explicit LifespanIndex(int stages) : leaves_(stages), nodes_(2 * static_cast<std::size_t>(stages)) {}

  /// Stages first .. last, both included; nothing if first > last. Lifespans of one tensor must not overlap.
  void add(Stage first, Stage last, TensorId tensor) {
    int low = first + leaves_;
    int high = last + 1 + leaves_;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) nodes_[static_cast<std::size_t>(low++)].push_back(tensor);
      if (high % 2 == 1) nodes_[static_cast<std::size_t>(--high)].push_back(tensor);
    }
  }

  template <class Visit>
  void visit(Stage stage, Visit visit_tensor) const {
    for (int node = stage + leaves_; node > 0; node /= 2) {
      for (const TensorId tensor : nodes_[static_cast<std::size_t>(node)]) visit_tensor(tensor);
    }
  }

 private:
  int leaves_;
  std::vector<std::vector<TensorId>> nodes_;
};

}  // namespace remora
