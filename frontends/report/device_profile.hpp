// SPDX-License-Identifier: Apache-2.0
//
// What a schedule over several devices does: when each step runs and where, what each device holds then, what crosses each
// link, and what it costs.
//
//     gpu         |  A  |  B  |      a row for each lane of a device, below them its memory over time, and its budget
//     cpu -> gpu  x                  a row for each link that is used
#pragma once

#include <string>
#include <vector>

#include "model/devices/device_schedule.hpp"

namespace remora::report {

/// What began a stay of a tensor on a device.
enum class Begun { first_run, recompute, copy };

struct DeviceStay {
  TensorId tensor{};
  DeviceId device{};
  /// In steps, both ends included.
  int first_step = 0;
  int last_step = 0;
  Begun begun = Begun::first_run;
};

/// What runs, or copies, of one kind take together.
struct Spent {
  int times = 0;
  Duration duration{};
  Energy energy{};
};

/// The copies of a tensor over one link.
struct Transfer : Spent {
  TensorId tensor{};
  DeviceId from{};
  DeviceId to{};
  /// Of all of them.
  Bytes bytes{};
};

/// The runs of an op on one device.
struct OpRuns : Spent {
  OpId op{};
  DeviceId device{};
  /// Of these runs, those that were not the op's first.
  int again = 0;
};

/// All runs on one lane; a device without lanes is one.
struct LaneUse : Spent {
  DeviceId device{};
  LaneId lane{};
  int again = 0;
};

/// All copies over one link.
struct LinkUse : Spent {
  DeviceId from{};
  DeviceId to{};
  Bytes bytes{};
};

struct DeviceProfile {
  /// The schedule's, by when they begin; all that follows tells of steps in this order.
  std::vector<DeviceStep> steps{};
  /// When each step begins; one more: when the last one has ended.
  std::vector<Duration> times{};
  /// When each step ends: where copies overlap, others may have begun before.
  std::vector<Duration> ends{};
  /// Of every step, whether it runs an op that has run before.
  std::vector<bool> again{};
  /// On each device, at every step: the most from its start to the next one's.
  Table<DeviceId, std::vector<Bytes>> memory{};
  /// Fixed memory and what is at home there.
  Table<DeviceId, Bytes> base{};
  Table<DeviceId, Bytes> peak{};
  /// The first step that reaches it, or -1.
  Table<DeviceId, int> peak_step{};
  /// By first step.
  std::vector<DeviceStay> stays{};
  /// Those that take longest first.
  std::vector<Transfer> transfers{};
  std::vector<OpRuns> runs{};
  /// Of all devices, in the order of the graph.
  std::vector<LaneUse> lanes{};
  /// Of the links that are used, in the order of the graph.
  std::vector<LinkUse> links{};
  /// Of every step: the place of its lane among `lanes`, or, counted on behind these, that of its link among `links`.
  std::vector<std::size_t> stream{};
};

/// The steps must be such that `verify` finds no fault but perhaps with budgets. O(steps * (devices + outputs + releases)).
DeviceProfile profile_of(const DeviceGraph& graph, const DeviceSchedule& schedule);

/// "gpu -> cpu".
std::string link_name(const DeviceGraph& graph, DeviceId from, DeviceId to);

/// Of the lanes ("gpu"; where the device has several, "gpu: gather"), then of the links, as `DeviceProfile::stream` numbers them.
std::vector<std::string> stream_names(const DeviceGraph& graph, const DeviceProfile& profile);

}  // namespace remora::report
