// SPDX-License-Identifier: Apache-2.0
//
// Periods: the stages of an input order cut into consecutive stretches. Each but the last ends in a checkpoint, a first
// compute whose memory the period relaxation counts (period_program.hpp).
//
//     stages        0 1 2 3 4 5 6 7 8 9       checkpoints 3 and 7
//     periods       [0,3]   [4,7]   [8,9]
#pragma once

#include <set>
#include <vector>

#include "model/instance.hpp"

namespace remora {

class Periods {
 public:
  /// `ends`: the last stages of all periods but the last; others than 0 .. stages - 2 are left out.
  Periods(int stages, const std::set<Stage>& ends);

  [[nodiscard]] int count() const { return static_cast<int>(last_.size()); }
  [[nodiscard]] int of(Stage stage) const { return period_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] Stage first(int period) const { return period == 0 ? Stage{0} : last(period - 1) + 1; }
  [[nodiscard]] Stage last(int period) const { return last_[static_cast<std::size_t>(period)]; }

 private:
  std::vector<Stage> last_;
  std::vector<int> period_;
};

/// Every stage there is: one a first compute, and one more at the end where something must be kept.
int stages_of(const Instance& instance);

}  // namespace remora
