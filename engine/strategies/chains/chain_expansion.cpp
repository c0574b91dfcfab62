// SPDX-License-Identifier: Apache-2.0
#include "engine/strategies/chains/chain_expansion.hpp"

#include <algorithm>
#include <vector>

namespace remora {

RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks,
                     std::span<const ChainStep> steps) {
  RecomputePlan plan;
  std::vector<bool> ran(blocks.size(), false);
  /// Of the next backward block.
  Stage stage = blocks.back().forward.end;
  for (const ChainStep& step : steps) {
    const auto b = static_cast<std::size_t>(step.block);
    if (step.kind == ChainStep::Kind::backward) {
      stage = blocks[b].backward.end;
      continue;
    }
    for (int op = blocks[b].forward.first; ran[b] && op < blocks[b].forward.end; ++op) {
      if (instance.max_computes(OpId(op)) > 1) plan.push_back({stage, OpId(op)});
    }
    ran[b] = true;
  }
  return without_useless(instance, std::move(plan));
}

std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most) {
  const std::size_t together = (blocks.size() + most - 1) / most;
  std::vector<TrainingBlock> joined;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (b % together == 0) {
      joined.push_back(blocks[b]);
      continue;
    }
    joined.back().forward.end = blocks[b].forward.end;
    joined.back().backward.first = blocks[b].backward.first;
  }
  return joined;
}

}  // namespace remora
