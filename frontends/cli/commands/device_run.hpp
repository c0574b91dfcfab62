// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/device_source.hpp"

namespace remora::cli {

/// The options of `remora solve` that only graphs with devices have.
OptionGroup device_options();

/// Refuses them where the graph has no devices. Throws UsageError.
void refuse_device_options(const Arguments& arguments);

/// `remora solve` of a graph with devices: solves, verifies, writes, tells; the exit code. Throws UsageError for an option
/// that such a solve does not know.
int solve_devices(const Arguments& arguments, const LoadedDeviceGraph& loaded);

}  // namespace remora::cli
