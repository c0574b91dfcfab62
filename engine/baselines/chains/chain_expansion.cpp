// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/chain_expansion.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Strikes out the recomputes that nobody reads before the op's next compute. Pinned tensors are served by their first
/// compute, so that reading them is no reason to recompute. One pass from the end, over what is still to be read.
RecomputePlan without_unread(const Instance& instance, const RecomputePlan& plan) {
  Table<TensorId, bool> to_read(instance.tensor_count(), false);
  const auto run = [&](OpId op) {
    for (const TensorId t : instance.outputs(op)) to_read[t] = false;
    for (const TensorId t : instance.inputs(op)) to_read[t] = !is_pinned(instance, t);
  };
  RecomputePlan kept;
  auto next = plan.rbegin();
  for (Stage stage = instance.op_count(); stage >= 0; --stage) {
    if (stage < instance.op_count()) run(OpId(stage));
    for (; next != plan.rend() && next->stage == stage; ++next) {
      const auto outputs = instance.outputs(next->op);
      const auto is_read = [&](TensorId t) { return to_read[t]; };
      if (std::none_of(outputs.begin(), outputs.end(), is_read)) continue;
      run(next->op);
      kept.push_back(*next);
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks,
                     std::span<const ChainStep> steps) {
  RecomputePlan plan;
  std::vector<bool> ran(blocks.size(), false);
  /// Of the next backward block.
  Stage stage = blocks.back().forward.end;
  for (const ChainStep& step : steps) {
    const auto b = at(step.block);
    if (step.kind == ChainStep::Kind::backward) {
      stage = blocks[b].backward.end;
      continue;
    }
    for (int op = blocks[b].forward.first; ran[b] && op < blocks[b].forward.end; ++op) {
      if (instance.max_computes(OpId(op)) > 1) plan.push_back({stage, OpId(op)});
    }
    ran[b] = true;
  }
  return without_unread(instance, plan);
}

std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most) {
  const std::size_t parts = std::min(most, blocks.size());
  // Part k has the blocks b with b * parts / blocks = k, rounded down: all parts are as even as can be.
  const auto part = [&](std::size_t b) { return b * parts / blocks.size(); };
  std::vector<TrainingBlock> joined;
  joined.reserve(most);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (b == 0 || part(b) != part(b - 1)) {
      joined.push_back(blocks[b]);
      continue;
    }
    joined.back().forward.end = blocks[b].forward.end;
    joined.back().backward.first = blocks[b].backward.first;
  }
  return joined;
}

bool PlanChoice::offer(const RecomputePlan& plan) {
  auto sequence = sequence_of(instance_, plan);
  const Evaluation evaluation = evaluate(instance_, sequence);
  if (offers_++ == 0 || better(instance_, evaluation.peak, evaluation.duration, peak_, duration_)) {
    best_ = std::move(sequence);
    duration_ = evaluation.duration;
    peak_ = evaluation.peak;
  }
  return evaluation.peak <= instance_.budget();
}

}  // namespace remora
