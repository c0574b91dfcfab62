// SPDX-License-Identifier: Apache-2.0
//
// A plan without useless recomputes, found by replaying it from the front until nothing changes.
#pragma once

#include <vector>

#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora::test {

/// For each step, true if a later one, or the end, reads what it computes.
inline std::vector<bool> useful_steps(const Instance& instance, const Sequence& sequence) {
  Table<OpId, std::int32_t> latest(instance.op_count(), -1);
  std::vector<bool> useful(sequence.size(), false);
  const auto use = [&](TensorId t) { useful[at(latest[instance.producer(t)])] = true; };
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    for (const TensorId t : instance.inputs(sequence[step])) use(t);
    latest[sequence[step]] = static_cast<int>(step);
  }
  for (const TensorId t : instance.kept()) use(t);
  return useful;
}

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
