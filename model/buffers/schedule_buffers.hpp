// SPDX-License-Identifier: Apache-2.0
//
// A schedule as buffers with lifespans: what has to be placed so that it can run in one arena.
//
//     steps   A      B      C, frees a   D, frees b c        buffer  lifespan
//     a       |--------------|                               a#0     [0, 3)     step i is [i, i + 1)
//     b              |---------------------|                 b#0     [1, 4)
//     ...
//
// The steps are followed as they are written, by the rules of remora-schedule: a tensor's buffer begins with the step
// that computes it while it is not resident and ends with the step that releases it, or with the last step. So a
// schedule that releases late has longer buffers than the evaluator would give it. Graph inputs last from the first to
// the last step; an op's workspace is a buffer of one step; buffers of size 0 are left out, for they need no place; the
// fixed memory is no buffer, for it is never placed anew. Hence, of a schedule with steps,
//
//     peak_memory = fixed_memory + the largest sum of sizes over all buffers alive at one time.
//
// Not so where an output takes over an input's storage (`in_place`): it is a separate buffer next to the input's, and
// their sum may then be the larger one. Where a run allocates all its outputs anew (`recompute_allocates`), the older
// copy of one lasts until the step is over, and the new one begins with it.
//
// The k-th buffer of a tensor is TENSOR#k, the workspace of an op's k-th compute OP#k workspace, k from 0: no two are
// alike.
#pragma once

#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Whose memory a buffer is.
struct Holder {
  /// The step that allocates it, or -1 for an input of the graph.
  int step = -1;
  /// None for the workspace of the step's op.
  TensorId tensor{};
};

struct ScheduleBuffers {
  /// By their first step, those of one step by their end.
  std::vector<Buffer> buffers{};
  /// One for each buffer.
  std::vector<Holder> holders{};
};

/// The schedule must be one that `verify` finds valid for the graph. O(steps + their outputs and releases + tensors), and
/// sorting.
REMORA_API ScheduleBuffers buffers_of(const Graph& graph, const Schedule& schedule, Bytes alignment = Bytes(1));

/// The same by device, for a graph over several. Where steps overlap, lifespans count steps, too: memory that comes back at some time
/// is alive up to the first step from then on that takes memory on the device. So the largest sum of a device's sizes alive at one time
/// is, with its fixed memory, `peak_memory` there.
REMORA_API std::vector<ScheduleBuffers> buffers_of(const DeviceGraph& graph, const DeviceSchedule& schedule,
                                                   Bytes alignment = Bytes(1));

/// The offsets of these buffers as the schedule has them. `offsets`: one for each buffer, a placement.
REMORA_API Arena make_arena(const Schedule& schedule, const ScheduleBuffers& buffers, std::span<const Bytes> offsets,
                            Bytes alignment);

/// The other way round: an offset for each of the schedule's buffers, of an arena that verify() finds right.
REMORA_API std::vector<Bytes> offsets_in(const Arena& arena, const ScheduleBuffers& buffers);

}  // namespace remora
