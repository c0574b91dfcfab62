// SPDX-License-Identifier: Apache-2.0
//
// Chooses how each stage of a pipeline runs its microbatches (model/pipeline.hpp): the least makespan within each device's memory.
//
// A constraint program on Gecode: a variable for each stage and class of microbatches, whose values are the stage's modes, fastest first.
// One propagator knows both sides. Memory: with the least that every variable can still take, no moment of a device may exceed its budget.
// Time: with the fastest that every variable can still be, the longest path through all tasks must be below the best makespan known. Either
// takes out the values that fail by themselves. Branch and bound from the best uniform choice; that the search ends is the proof.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/pipeline.hpp"
#include "model/schedule.hpp"

namespace remora {

struct PipelinePlan {
  /// `optimal`, `feasible`, `infeasible` or `unknown`.
  Status status = Status::unknown;
  /// Of modes as the pipeline numbers them; empty without a plan. Likewise below.
  ModeChoice choice{};
  Duration makespan{};
  /// No choice within the budgets is faster.
  Duration lower_bound{};
  std::vector<Bytes> peak{};
  /// The best choice of one mode for all stages and classes, by its number; nothing where none holds the budgets, or stages have
  /// different numbers of modes.
  std::optional<int> uniform{};
  Duration uniform_makespan{};
  /// Why nothing holds the budgets: a device and what it needs at least.
  std::string reason{};
  /// Nodes of the search, which the work limit counts.
  std::int64_t work = 0;
  double seconds = 0;
};

/// Of the options time_limit and work_limit count. Throws InputError for a pipeline that is not valid.
REMORA_API PipelinePlan solve(const Pipeline& pipeline, const SolveOptions& options,
                              const std::atomic<bool>* cancel = nullptr);

}  // namespace remora
