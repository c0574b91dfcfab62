// SPDX-License-Identifier: Apache-2.0
//
// The modes of a pipeline's stage, from the training step of one microbatch: for several amounts of memory saved between the forward and
// the backward part, the fastest schedule.
//
// A stand-in op at the border between both parts takes so much workspace that only the amount in question is left beside it. The budget is
// the step's own peak without recompute, so that memory while the parts run is as without it at most.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/pipeline.hpp"

namespace remora {

/// Fastest first; none saves more and takes longer than another. Inputs of the graph are saved for each microbatch, its fixed memory is the
/// stage's. The options' limits are for all modes together, `modes` of them at most, at least 2. Throws InputError for a graph without
/// backward ops, or with forward ops behind the first of them.
REMORA_API PipelineStage stage_of(const std::shared_ptr<const Graph>& graph, int modes, const SolveOptions& options,
                                  const std::atomic<bool>* cancel = nullptr);

/// Where a stage comes from: its modes, or the graph of which they are made.
struct StageSource {
  /// Place in messages: a file, an argument.
  std::string place{};
  PipelineStage stage{};
  /// Null where `stage` has the modes. Two sources of one graph are one stage, made once.
  std::shared_ptr<const Graph> graph{};
};

/// The stages of a pipeline. What is made may take seven tenths of what the allowance has left, each graph an equal share; the rest is for
/// `solve`. Throws InputError with the source's place.
REMORA_API Table<StageId, PipelineStage> stages_of(const std::vector<StageSource>& sources, int modes,
                                                   const SolveOptions& options, const Allowance& allowance);

}  // namespace remora
