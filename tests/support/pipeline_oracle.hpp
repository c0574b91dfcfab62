// SPDX-License-Identifier: Apache-2.0
//
// Pipelines by docs/guide/pipeline.md alone: the order of the tasks, their times, the memory, and all choices of modes. Shares nothing with
// `replay` (model/pipeline.hpp) or the search; of its header the data alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/pipeline.hpp"

namespace remora::test {

struct PipelineOutcome {
  std::int64_t makespan = 0;
  /// By device.
  std::vector<std::int64_t> peak{};
};

/// What a device runs, in its order: "F0 F1 B0 ..." with microbatches, in interleaved order "F0.1" with microbatch and stage.
std::string pipeline_order_by_the_page(const Pipeline& pipeline, int device);

PipelineOutcome pipeline_by_the_page(const Pipeline& pipeline, const ModeChoice& choice);

struct PipelineTruth {
  /// The least of all choices that stay within the budgets; nothing where none does.
  std::optional<std::int64_t> makespan{};
  /// By device: the lowest peak of all choices.
  std::vector<std::int64_t> minimum{};
};

/// O(modes ^ (stages * classes)).
PipelineTruth enumerate_choices(const Pipeline& pipeline);

}  // namespace remora::test
