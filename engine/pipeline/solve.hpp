// SPDX-License-Identifier: Apache-2.0
//
// Chooses how each stage of a pipeline runs its microbatches (model/pipeline.hpp): the least makespan within each device's memory.
//
// First each device is taken by itself: modes with which it stays within its budget, or its minimum (minimum.hpp). Then a constraint program
// on Gecode: a variable for each stage and class of microbatches, whose values are the stage's modes, fastest first. One propagator checks
// memory and time. Memory: with the mode that is smallest there for every variable, no moment of a device may exceed its budget. Time: with
// the fastest mode of every variable, the longest path through all tasks must be below the best makespan known. Either removes the values
// that fail by themselves. Branch and bound from the best choice known; that the search ends is the proof.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/pipeline.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Needs of a device that is not known to stay within its budget; its modes do not matter to the other devices.
struct DeviceNeed {
  std::size_t device = 0;
  /// No choice of modes has a lower peak; equal to `enough` unless a limit ended the search.
  Bytes least{};
  /// The peak with `modes`: of the device's stages by class, row by row.
  Bytes enough{};
  ModeChoice modes{};
};

/// By class: "mode 1", "modes 1 0 0"; only the first of many.
REMORA_API std::string modes_text(std::span<const int> modes);
/// In words: "device 0 needs at least 14 bytes (mode 1), and has 13". The device has a budget.
REMORA_API std::string need_text(const Pipeline& pipeline, const DeviceNeed& need);

struct PipelinePlan {
  /// `optimal`, `feasible`, `infeasible` or `unknown`.
  Status status = Status::unknown;
  /// Modes as the pipeline numbers them; empty without a plan. Likewise below.
  ModeChoice choice{};
  Duration makespan{};
  /// No choice within the budgets is faster.
  Duration lower_bound{};
  std::vector<Bytes> peak{};
  /// The best choice of one mode for all stages and classes, by its number; nothing where none holds the budgets, or stages have
  /// different numbers of modes.
  std::optional<int> uniform{};
  Duration uniform_makespan{};
  /// Without a plan: by number, each device that is not known to stay within its budget.
  std::vector<DeviceNeed> needs{};
  /// The same in words.
  std::string reason{};
  /// Nodes of the search, which the work limit counts.
  std::int64_t work = 0;
  double seconds = 0;
};

/// Only time_limit and work_limit of the options count. Throws InputError for a pipeline that is not valid.
REMORA_API PipelinePlan solve(const Pipeline& pipeline, const SolveOptions& options,
                              const std::atomic<bool>* cancel = nullptr);

}  // namespace remora
