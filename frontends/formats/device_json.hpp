// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing graphs of several devices, remora-graph 2 with `devices`, and their schedules, remora-schedule 2
// (docs/reference/formats.md).
#pragma once

#include <iosfwd>

#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/devices/device_graph.hpp"
#include "model/devices/device_schedule.hpp"

namespace remora::json {

/// Whether the text is a graph, or a schedule, that names devices. False for what is no JSON object; whoever reads it then says
/// what is wrong.
REMORA_API bool names_devices(Text text);

/// As read_graph, for a graph with `devices`.
REMORA_API DeviceGraph read_device_graph(Text text);

/// As write_graph. An op that runs on the first device alone is written without `on`.
REMORA_API void write_device_graph(std::ostream& out, const DeviceGraph& graph);

/// The schedule in `text`, its names looked up in `graph`. As read_schedule; of `solver` the limits, the version and what it
/// took are read.
REMORA_API DeviceSchedule read_device_schedule(Text text, const DeviceGraph& graph);

/// As write_schedule.
REMORA_API void write_device_schedule(std::ostream& out, const DeviceSchedule& schedule, const DeviceGraph& graph);

}  // namespace remora::json
