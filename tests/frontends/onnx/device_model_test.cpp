// SPDX-License-Identifier: Apache-2.0
//
// From a model to a graph over several devices.
#include "frontends/onnx/read/device_model.hpp"

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

/// A product of x and the weights w, of 256 bytes each, and what it writes halved.
std::string two_layers() {
  ModelBuilder model;
  model.input("x", {8, 8}).weight("w", {8, 8});
  model.node("MatMul", {"x", "w"}, {"h"}, "product").node("Relu", {"h"}, {"y"}, "relu").output("y");
  return model.bytes();
}

DevicesRequest request_of_three() {
  DevicesRequest request;
  // 1024 operations take 1024 ns, or half; 768 bytes take less.
  request.devices.push_back({.name = "gpu", .machine = {"gpu", 1e12, 0, 3.5, {{"fp32", 2e9}}}});
  request.devices.push_back({.name = "cpu", .machine = {"cpu", 1e12, 1e-6, 0, {{"fp32", 1e9}}}});
  request.devices.push_back({.name = "host", .store = true});
  request.links.push_back({DeviceId(0), DeviceId(2), {.bandwidth = 2e9, .bandwidth_back = 1e9, .latency = 1e-6}});
  request.links.push_back({DeviceId(0), DeviceId(1), {.bandwidth = 1e9, .bandwidth_back = 1e9, .power = 2}});
  return request;
}

TEST(DeviceModel, HasDurationsEnergiesAndLinksComputedByHand) {
  const DeviceGraph graph = read_onnx(two_layers(), "small", {}, request_of_three()).graph;
  ASSERT_EQ(graph.devices.size(), 3U);
  // The weights are on both devices that compute, and not in the store.
  EXPECT_EQ(graph.devices[DeviceId(0)].fixed_memory, Bytes(256));
  EXPECT_EQ(graph.devices[DeviceId(1)].fixed_memory, Bytes(256));
  EXPECT_EQ(graph.devices[DeviceId(2)].fixed_memory, Bytes(0));
  ASSERT_EQ(graph.runs[OpId(0)].size(), 2U);
  EXPECT_EQ(graph.runs[OpId(0)][0].duration, Duration(512));
  EXPECT_EQ(graph.runs[OpId(0)][0].energy, Energy(1792));
  EXPECT_EQ(graph.runs[OpId(0)][1].duration, Duration(2024));
  EXPECT_EQ(graph.runs[OpId(0)][1].energy, Energy(0));
  const TensorId x(0);
  EXPECT_EQ(graph.places[x].home, std::vector<DeviceId>{DeviceId(0)});
  EXPECT_EQ(copy_cost(graph, x, DeviceId(0), DeviceId(2)), (CopyCost{Duration(1128), Energy(0)}));
  EXPECT_EQ(copy_cost(graph, x, DeviceId(2), DeviceId(0)), (CopyCost{Duration(1256), Energy(0)}));
  EXPECT_EQ(copy_cost(graph, x, DeviceId(1), DeviceId(0)), (CopyCost{Duration(256), Energy(512)}));
  EXPECT_EQ(copy_cost(graph, x, DeviceId(1), DeviceId(2)), std::nullopt);
}

TEST(DeviceModel, WeightsThatMoveAreInputsOfTheGraph) {
  DevicesRequest request = request_of_three();
  request.move_weights = true;
  request.home = DeviceId(2);
  const DeviceGraph graph = read_onnx(two_layers(), "small", {}, request).graph;
  EXPECT_EQ(graph.devices[DeviceId(0)].fixed_memory, Bytes(0));
  ASSERT_EQ(graph.graph.tensors.size(), 4U);
  const TensorId weight(3);
  EXPECT_EQ(graph.graph[weight].size, Bytes(256));
  EXPECT_EQ(graph.places[weight].home, std::vector<DeviceId>{DeviceId(2)});
  EXPECT_EQ(graph.graph[OpId(0)].inputs, (std::vector<TensorId>{TensorId(0), weight}));
}

TEST(DeviceModel, MeasuredCostsStandForTheirDevice) {
  DevicesRequest request = request_of_three();
  request.devices[1].costs = interchange::read_costs("name,duration,energy\nproduct,77,5\n", "costs.csv");
  const DeviceGraph graph = read_onnx(two_layers(), "small", {}, request).graph;
  EXPECT_EQ(graph.runs[OpId(0)][0].duration, Duration(512));
  EXPECT_EQ(graph.runs[OpId(0)][1].duration, Duration(77));
  EXPECT_EQ(graph.runs[OpId(0)][1].energy, Energy(5));
}

TEST(DeviceModel, RefusesDevicesOfWhichNoneComputes) {
  DevicesRequest request;
  request.devices.push_back({.name = "host", .store = true});
  EXPECT_THROW(read_onnx(two_layers(), "small", {}, request), InputError);
}

}  // namespace
}  // namespace remora::onnx_frontend::test
