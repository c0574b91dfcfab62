// SPDX-License-Identifier: Apache-2.0
//
// What a sequence of runs and copies takes: releases, memory on each device, duration and energy.
//
// A run, or a copy to a device, begins a residence of a tensor there; what reads the tensor on that device is served by the
// latest residence begun before, and so is a copy from there. A residence ends with the last use that it serves. A tensor
// that must be kept stays to the end where its home is; without a home, where its latest residence ends last. Sequences
// have no releases of their own: for a given sequence, and given where kept tensors end, no other choice needs less memory.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/devices/device_schedule.hpp"

namespace remora {

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
