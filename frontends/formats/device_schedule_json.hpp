// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing remora-schedule 2, of graphs with several devices (docs/formats.md).
#pragma once

#include <iosfwd>

#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/devices/device_schedule.hpp"

namespace remora::json {

/// The schedule in `text`, its names looked up in `graph`. As read_schedule; of `solver` the limits, the version and what it
/// took are read.
REMORA_API DeviceSchedule read_device_schedule(Text text, const DeviceGraph& graph);

/// As write_schedule.
REMORA_API void write_device_schedule(std::ostream& out, const DeviceSchedule& schedule, const DeviceGraph& graph);

}  // namespace remora::json
