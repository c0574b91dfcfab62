// SPDX-License-Identifier: Apache-2.0
//
// A schedule over several devices (remora-schedule 2), and its replay by the format's rules.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/devices/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

/// The quantity that a solve minimises.
enum class Objective { duration, energy };

/// Copies take turns with runs, or run concurrently on links of their own (docs/guide/devices.md, "Copies beside
/// computing").
enum class CopyMode { sequential, overlap };

/// A tensor on a device.
struct Residence {
  TensorId tensor{};
  DeviceId device{};

  friend auto operator<=>(const Residence&, const Residence&) = default;
};

/// Run `op` on `device`, or, without an op, copy `copied` from `device` to `to`; then release `free`.
struct DeviceStep {
  OpId op{};
  TensorId copied{};
  DeviceId device{};
  DeviceId to{};
  std::vector<Residence> free{};
  /// The op's mode; 0 over several devices.
  ModeNumber mode = 0;

  [[nodiscard]] bool is_copy() const { return !op.valid(); }

  friend bool operator==(const DeviceStep&, const DeviceStep&) = default;
};

/// Steps for one device as those of on_one_device(graph).
REMORA_API std::vector<DeviceStep> on_one_device(std::span<const Step> steps);

struct DeviceSchedule {
  std::string graph{};
  std::string graph_sha256{};
  Status status = Status::unknown;
  OrderMode order = OrderMode::input;
  Objective objective = Objective::duration;
  CopyMode copies = CopyMode::sequential;
  /// By device; nothing where there is no limit.
  Table<DeviceId, std::optional<Bytes>> budget{};
  /// Duration of all steps one after the other; of overlapped ones, until the last one has ended.
  Duration duration{};
  Energy energy{};
  std::optional<Duration> duration_limit{};
  std::optional<Energy> energy_limit{};
  /// Values of the best schedule without any memory limit, or, if that is not known, of the best lower bound; the
  /// latter in the objective's unit.
  Duration baseline_duration{};
  std::int64_t baseline_cost = 0;
  bool baseline_is_exact = false;
  Table<DeviceId, Bytes> peak_memory{};
  Table<DeviceId, Bytes> baseline_peak_memory{};
  /// Bound on the objective, in its unit.
  std::int64_t lower_bound = 0;
  std::vector<DeviceStep> steps{};
  SolverReport solver{};

  [[nodiscard]] bool has_schedule() const { return status == Status::optimal || status == Status::feasible; }
  /// The value of the objective.
  [[nodiscard]] std::int64_t cost() const {
    return objective == Objective::duration ? duration.count() : energy.count();
  }
};

struct DeviceVerdict {
  /// At most twenty, each naming the step.
  std::vector<std::string> errors{};
  Duration duration{};
  Energy energy{};
  Table<DeviceId, Bytes> peak{};
  Table<DeviceId, int> peak_step{};
  int recomputes = 0;
  int copies = 0;

  [[nodiscard]] bool valid() const { return errors.empty(); }
};

/// Checks that the steps are right for a valid graph: ops on devices that can run them, with their inputs resident there;
/// copies over links, of what is resident at one end and not at the other; releases of what is resident and not at home
/// throughout; `after`, `keep`, `home`, computes within the limits, every op computed, the stated order mode; memory within
/// each device's budget; and that duration, energy and peaks are what the replay gives, within the limits stated. Where copies
/// overlap, a clock goes from one end of a step to the next, and each step starts when all that it waits for is the case.
REMORA_API DeviceVerdict verify(const DeviceGraph& graph, const DeviceSchedule& schedule);

// Evaluation of a sequence of runs and copies: releases, memory on each device, duration and energy.
//
// A run, or a copy to a device, begins a residence of a tensor there; what reads the tensor on that device is served by the
// latest residence begun before, and so is a copy from there. A residence ends with the last use that it serves. A tensor
// that must be kept stays to the end where its home is; without a home, where its latest residence ends last. Sequences
// have no releases of their own: for a given sequence, and given where kept tensors end, no other choice needs less memory.

/// A stay of a tensor on a device, in steps, both ends included.
struct Stay {
  Residence residence{};
  int first_step = 0;
  int last_step = 0;
  bool to_the_end = false;
  /// It serves a use, or stays to the end.
  bool useful = false;
};

struct DeviceEvaluation {
  /// The first step for which something is not resident, and that; or the number of steps, for what must be kept.
  std::optional<int> unsupplied{};
  /// Only of a sequence that is supplied: by first step; memory on each device at every step; the rest.
  std::vector<Stay> stays{};
  Table<DeviceId, std::vector<Bytes>> memory{};
  Table<DeviceId, Bytes> peak{};
  Duration duration{};
  Energy energy{};
};

/// O(steps * (devices + their inputs and outputs)). The graph must be valid and the steps' ids its own; that each step is possible
/// but for its inputs (links, devices of runs) is the caller's business.
REMORA_API DeviceEvaluation evaluate(const DeviceGraph& graph, std::span<const DeviceStep> steps);

/// The steps with their releases.
REMORA_API std::vector<DeviceStep> with_releases(const DeviceEvaluation& evaluation, std::span<const DeviceStep> steps);

// Copies beside computing: each device, and each link, is a stream, which takes its steps in the order of the schedule. A step
// starts as soon as
//
//   its stream    has ended the step before
//   its inputs    are there: the steps that began their stays have ended (and the first runs of what it must come `after`)
//   its memory    is free. Memory on a device is taken in the order of the schedule, at the start of steps; what is given back by
//                 steps that come before in the schedule may be used. A release is done when its own step and all steps
//                 before that read the stay have ended; a workspace is free when its run has ended. What takes an input's storage
//                 over waits for the steps before that read it.
//
//     gpu           |  A  |  B  |   C   |    D     |      x goes out once A has ended, while B runs; its memory is free for C
//     gpu -> host         |  x out  |                     when it is out. It comes back in beside C: it stands before C in the
//     host -> gpu                   | x in  |             schedule, and finds room beside it
//
// So a step waits for steps before it alone. All of them ended, it finds the memory that it finds where one thing happens at a
// time: such schedules are never longer than that, and one that can never go on is one that breaks a budget there, too. And no
// more can be had: sort the steps of any execution by their starts, and none starts later than it did.

struct StepTime {
  Duration start{};
  Duration end{};

  friend bool operator==(const StepTime&, const StepTime&) = default;
};

/// Memory of a device that is taken at a time, or, below zero, given back.
struct MemoryChange {
  Duration time{};
  Bytes bytes{};

  friend auto operator<=>(const MemoryChange&, const MemoryChange&) = default;
};

struct OverlappedTimes {
  /// Up to the first step that can never start.
  std::vector<StepTime> steps{};
  std::optional<int> stuck{};
  /// When the last step has ended.
  Duration duration{};
  /// The maximum that any step finds held on the device when it starts, plus its own needs.
  Table<DeviceId, Bytes> peak{};
  /// On each device, by the steps that take memory or give it back; not by time.
  Table<DeviceId, std::vector<MemoryChange>> changes{};
};

/// When steps with their releases run; these must be right for the graph but for budgets. Without a budget nothing waits for memory.
/// O(steps * log(steps) + their inputs and outputs).
REMORA_API OverlappedTimes overlapped(const DeviceGraph& graph, std::span<const DeviceStep> steps,
                                      const Table<DeviceId, std::optional<Bytes>>& budget);

}  // namespace remora
