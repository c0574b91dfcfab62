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
#include "model/devices/device_graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

/// What a solve minimises.
enum class Objective { duration, energy };

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

  [[nodiscard]] bool is_copy() const { return !op.valid(); }

  friend bool operator==(const DeviceStep&, const DeviceStep&) = default;
};

struct DeviceSchedule {
  std::string graph{};
  std::string graph_sha256{};
  Status status = Status::unknown;
  OrderMode order = OrderMode::input;
  Objective objective = Objective::duration;
  /// By device; nothing where there is no limit.
  Table<DeviceId, std::optional<Bytes>> budget{};
  Duration duration{};
  Energy energy{};
  std::optional<Duration> duration_limit{};
  std::optional<Energy> energy_limit{};
  /// Of the best schedule without any memory limit, or, if that is not known, the best lower bound's; and in the
  /// objective's unit.
  Duration baseline_duration{};
  std::int64_t baseline_cost = 0;
  bool baseline_is_exact = false;
  Table<DeviceId, Bytes> peak_memory{};
  Table<DeviceId, Bytes> baseline_peak_memory{};
  /// Of the objective, in its unit.
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
/// each device's budget; and that duration, energy and peaks are what the replay gives, within the limits stated.
REMORA_API DeviceVerdict verify(const DeviceGraph& graph, const DeviceSchedule& schedule);

// What a sequence of runs and copies takes: releases, memory on each device, duration and energy.
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

}  // namespace remora
