// SPDX-License-Identifier: Apache-2.0
//
// From a .onnx file to a graph over several devices (remora-graph 2).
//
// The model is lowered once for each device: durations by the device's roofline or its measured costs. An op runs on every
// device that is no store. Energy is power times duration, in nanojoules: watts times nanoseconds, rounded up.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/devices/graph.hpp"

namespace remora::onnx_frontend {

struct DeviceModel {
  std::string name{};
  /// Nothing runs there.
  bool store = false;
  Machine machine{};
  /// Measured, instead of the roofline, as far as they go.
  std::optional<interchange::CostTable> costs{};
};

struct JoinedLink {
  DeviceId first{};
  DeviceId second{};
  LinkModel model{};
};

struct DevicesRequest {
  std::vector<DeviceModel> devices{};
  std::vector<JoinedLink> links{};
  /// Where inputs of the graph are, and weights that move.
  DeviceId home{0};
  /// Weights are inputs of the graph, at home on that device, and copied to where an op reads them. Else they, and what else
  /// is fixed, are on each device that is no store.
  bool move_weights = false;
};

struct DeviceOnnxResult {
  DeviceGraph graph{};
  /// A line each.
  std::vector<std::string> messages{};
};

/// `options.machine` and `options.costs` are not used. Throws as read_onnx does, and where the request makes no valid graph.
DeviceOnnxResult read_onnx(std::string_view content, const std::string& source, const OnnxOptions& options,
                           const DevicesRequest& request);

}  // namespace remora::onnx_frontend
