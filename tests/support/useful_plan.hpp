// SPDX-License-Identifier: Apache-2.0
//
// A plan without useless recomputes, found by replaying it from the front until nothing changes.
#pragma once

#include <vector>

#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora::test {

/// The plan without the recomputes that serve no use.
inline RecomputePlan without_useless(const Instance& instance, RecomputePlan plan) {
  for (;;) {
    const std::vector<bool> useful = useful_steps(instance, sequence_of(instance, plan));
    RecomputePlan kept;
    std::size_t step = 0;
    for (const Recompute& recompute : plan) {
      // In stage k, k first computes lie before the stage's recomputes.
      if (useful[step++ + at(recompute.stage)]) kept.push_back(recompute);
    }
    if (kept.size() == plan.size()) return plan;
    plan = std::move(kept);
  }
}

}  // namespace remora::test
