// SPDX-License-Identifier: Apache-2.0
//
// From a schedule of a chain of blocks to a plan of ops: the first run of a block's forward part is its ops' first
// computes, every further run, forward only, recomputes the ops that may run again, in the stage of the next backward
// op. Between two backward blocks a schedule's forward runs ascend, so that the plan is of the staged form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// Without recomputes that nobody reads. O(steps of the plan + their inputs and outputs).
RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks, std::span<const ChainStep> steps);

/// No more than `most` blocks: as many neighbours at a time joined to one as that takes.
std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most);

/// Of the plans offered, the shortest that holds the budget; while none does, the one with the least peak.
class PlanChoice {
 public:
  explicit PlanChoice(const Instance& instance) : instance_(instance) {}

  /// Whether the plan holds the budget. One evaluation.
  bool offer(const RecomputePlan& plan);

  /// Whether any plan held the budget.
  [[nodiscard]] bool holds() const { return offers_ > 0 && peak_ <= instance_.budget(); }
  /// The best plan's sequence; empty before the first offer.
  [[nodiscard]] const std::vector<OpId>& best() const { return best_; }
  [[nodiscard]] std::int64_t offers() const { return offers_; }

 private:
  const Instance& instance_;
  std::vector<OpId> best_;
  Duration duration_{};
  Bytes peak_{};
  std::int64_t offers_ = 0;
};

}  // namespace remora
