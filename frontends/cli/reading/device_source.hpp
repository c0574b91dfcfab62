// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "frontends/cli/reading/arguments.hpp"
#include "model/devices/device_schedule.hpp"

namespace remora::cli {

struct LoadedDeviceGraph {
  DeviceGraph graph{};
  /// Of the file's bytes, in lower-case hexadecimal.
  std::string sha256{};
};

/// The graph of the file if it names devices. Throws InputError with the file's name.
std::optional<LoadedDeviceGraph> load_device_graph(const FileText& file);

/// Reads a remora-schedule of the graph. Throws InputError with the file's name.
DeviceSchedule load_device_schedule(const std::string& path, const DeviceGraph& graph);

/// Budgets as DEVICE=BYTES, several with commas between, 12GiB as well as 12884901888; a device without one has no limit. Throws UsageError.
Table<DeviceId, std::optional<Bytes>> read_device_budgets(const std::string& text, const DeviceGraph& graph);

}  // namespace remora::cli
