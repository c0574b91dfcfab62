// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/periods.hpp"

#include <algorithm>

namespace remora {

Periods::Periods(int stages, const std::set<Stage>& ends) {
  int period = 0;
  for (Stage k{0}; k < stages; ++k) {
    period_.push_back(period);
    if (k + 1 == stages || ends.contains(k)) {
      last_.push_back(k);
      ++period;
    }
  }
}

int stages_of(const Instance& instance) {
  const auto tensors = instance.tensors();
  const bool keeps = std::any_of(tensors.begin(), tensors.end(), [&](TensorId t) { return instance.keep(t); });
  return instance.op_count() + (keeps ? 1 : 0);
}

}  // namespace remora
