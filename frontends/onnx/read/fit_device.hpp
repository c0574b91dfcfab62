// SPDX-License-Identifier: Apache-2.0
//
// Devices that training and inference are planned for without having them: the table that remora.torch has, too
// (`frontends/python/remora/torch/fit/devices.json`, format remora-devices), and files of single ones.
#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/read/cost.hpp"
#include "model/types.hpp"

namespace remora::onnx_frontend {

struct FitDevice {
  /// Rates by class of op; bandwidth is what large copies reach.
  Device roofline{};
  std::vector<std::string> aliases{};
  /// What the driver reports in all.
  Bytes memory{};
  /// What the driver's context takes; what cuBLAS and cuDNN keep.
  Bytes context{};
  Bytes workspaces{};
  /// Seconds that the host takes to launch one op, beside what the device does.
  double host = 0;
  /// Measured time over predicted time, the least and the most, where they were compared.
  double least_ratio = 0.5;
  double most_ratio = 2;
  /// On what the rates were fitted; empty if on nothing.
  std::string fitted{};
  bool is_cpu = false;
};

/// Reads a remora-devices file, all of whose devices take what they leave out from its "common". Throws InputError with the
/// file and the key.
std::vector<FitDevice> read_fit_devices(const std::string& path);

/// Reads a file of one device, as measure_device of remora.torch writes it. Throws InputError.
FitDevice read_fit_device(const std::string& path);

}  // namespace remora::onnx_frontend
