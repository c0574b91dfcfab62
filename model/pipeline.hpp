// SPDX-License-Identifier: Apache-2.0
//
// A training pipeline: stages on devices, each with several ways to run a microbatch, and the order in which each device runs them.
//
//     1f1b, 3 devices, 4 microbatches       F forward, B backward
//     device 0   F0 F1 F2 .. .. B0 F3 .. B1 .. .. B2 .. .. B3      in flight: at most 3
//     device 1      F0 F1 .. B0 F2 B1 F3 .. B2 .. .. B3                       2
//     device 2         F0 B0 F1 B1 F2 B2 F3 B3                                1
//
// A mode that saves less has a longer backward task, since it recomputes. Where a device waits for others anyway (..),
// that costs nothing. Like Graph it is plain data without guarantees; `validate` checks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// A stage's number: its place in the model, from 0.
using StageId = Id<struct StageTag>;

/// A way to run one microbatch through a stage.
struct StageMode {
  std::string name{};
  Duration forward{};
  /// Down to the gradient of the stage's input, all recomputes included.
  Duration backward{};
  /// Duration of the gradients of weights: a separate task in zero-bubble schedules, otherwise a part of the backward
  /// task.
  Duration weight_gradient{};
  /// From the start of the forward task to the end of the backward one.
  Bytes saved{};
  /// From the end of the backward task to the end of the weight gradients', where that is a task of its own.
  Bytes held{};
  /// More, while the task runs. A backward task that includes the weight gradients takes the larger of the last two.
  Bytes forward_transient{};
  Bytes backward_transient{};
  Bytes weight_transient{};

  friend bool operator==(const StageMode&, const StageMode&) = default;
};

struct PipelineStage {
  std::string name{};
  /// Always in use: parameters, gradients, optimizer state.
  Bytes fixed_memory{};
  /// At least one.
  std::vector<StageMode> modes{};

  friend bool operator==(const PipelineStage&, const PipelineStage&) = default;
};

/// Which tasks run in which order (docs/guide/pipeline.md lists them). Narayanan et al. 2021 (1F1B, interleaved), Huang et al. 2019 (GPipe), Qi et al. 2024 (zero bubble, ZB-H1).
enum class PipelineOrder { gpipe, one_f_one_b, interleaved, zero_bubble };

struct Pipeline {
  /// PipelineStage s is on device s modulo the number of devices.
  Table<StageId, PipelineStage> stages{};
  /// Divides the number of stages; all of them but in interleaved order.
  std::size_t devices = 0;
  int microbatches = 1;
  PipelineOrder order = PipelineOrder::one_f_one_b;
  /// From one stage to the next, and of gradients back.
  Duration send{};
  /// By device; nothing for no limit.
  std::vector<std::optional<Bytes>> budget{};
  /// Microbatch m is of class m modulo this; a stage runs all of a class in one mode.
  int classes = 1;
};

/// Throws InputError with the path of the first fault ("stages[1].modes[0].saved"): amounts below zero, sums beyond 64 bits, devices that
/// do not divide the stages, in interleaved order also the microbatches, and more than 2^23 tasks.
REMORA_API void validate(const Pipeline& pipeline);

struct PipelineTask {
  enum class Kind : std::uint8_t { forward, backward, weight_gradient };
  Kind kind = Kind::forward;
  StageId stage{};
  int microbatch = 0;

  friend auto operator<=>(const PipelineTask&, const PipelineTask&) = default;
};

/// Tasks of a device, in its order. The pipeline is valid.
REMORA_API std::vector<PipelineTask> tasks_of(const Pipeline& pipeline, std::size_t device);

/// A task, and what it waits for: others by their places in a list.
struct LinkedTask {
  PipelineTask task{};
  std::size_t device = 0;
  /// The one before on the device; the one whose result it reads, and how long that is under way.
  std::optional<std::size_t> before{};
  std::optional<std::size_t> source{};
  Duration send{};
};

/// The tasks of all devices, in an order in which they can run: each waits for tasks before it.
REMORA_API std::vector<LinkedTask> linked_tasks(const Pipeline& pipeline);

/// By stage and class, row by row: the number of a mode.
using ModeChoice = std::vector<int>;

/// Where in a choice the mode stands in which the stage runs the microbatch; the first microbatches are one of each class.
REMORA_API std::size_t choice_index(const Pipeline& pipeline, StageId stage, int microbatch);
/// Bytes beyond what is saved while a backward task runs in the mode.
REMORA_API Bytes backward_transient_of(const StageMode& mode, PipelineOrder order);
/// How the task is run.
REMORA_API const StageMode& mode_of(const Pipeline& pipeline, const ModeChoice& choice, const PipelineTask& task);

struct TimedTask {
  PipelineTask task{};
  Duration start{};
  Duration end{};
};

struct PipelineRun {
  /// By device, in its order.
  std::vector<std::vector<TimedTask>> tasks{};
  Duration makespan{};
  /// By device.
  std::vector<Bytes> peak{};
};

/// Each task starts once its device has ended the one before and what it reads has arrived. O(tasks).
REMORA_API PipelineRun replay(const Pipeline& pipeline, const ModeChoice& choice);

}  // namespace remora
