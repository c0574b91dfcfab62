// SPDX-License-Identifier: Apache-2.0
//
// A graph over several devices (remora-graph 2 with `devices`): where ops may run, what that costs, and what copies cost.
//
//     gpu  A 1, B 1        x at home on the CPU, 4 bytes            copy x (3), A, B on the GPU       5, 6 bytes there
//     cpu  A 3             links: 1 + ceil(size * 1 / 2)            A on the CPU (3), copy a (2), B   6, 5 bytes
//
// One thing happens at a time (XEngine's model, Schuler et al. 2022): a step is a run of an op on one device, which needs
// its inputs resident there, or a copy of one tensor over one link. Memory is counted for each device. A device on which
// no op can run is a store: host memory, flash.
//
// A device may have lanes (remora-graph 3): streams over its one memory, which run concurrently, as kernels do with the
// collectives of training on many devices.
//
// `graph` holds names, tensors and dependencies; its own durations, workspaces and fixed memory are zero. Like Graph it
// is plain data without guarantees; `validate` checks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// A device's number: its position in the graph's list, from 0; the first is the default.
using DeviceId = Id<struct DeviceTag>;

/// In any one unit for the whole graph.
using Energy = Quantity<struct EnergyTag>;

/// A lane's number on its device: its position in the device's list, from 0; the first is the default.
using LaneId = Id<struct LaneTag>;

struct Device {
  std::string name{};
  /// Always resident there.
  Bytes fixed_memory{};
  /// Their names. Empty: the device has one, without a name.
  std::vector<std::string> lanes{};
  /// Keys of the file that the project does not use, as the text of a JSON object; empty if there are none. Likewise
  /// below.
  std::string extra{};

  friend bool operator==(const Device&, const Device&) = default;
};

/// A copy of size s takes `latency` + ceil(s * per / bytes). Without a link nothing is copied that way.
struct Link {
  DeviceId from{};
  DeviceId to{};
  Duration latency{};
  /// At least 1.
  Bytes bytes{1};
  Duration per{};
  Energy energy{};
  std::string extra{};

  friend bool operator==(const Link&, const Link&) = default;
};

/// Costs of one copy.
struct CopyCost {
  Duration duration{};
  Energy energy{};

  friend bool operator==(const CopyCost&, const CopyCost&) = default;
};

/// Measured figures for a tensor, which go before the link's.
struct MeasuredCopy {
  DeviceId from{};
  DeviceId to{};
  CopyCost cost{};

  friend bool operator==(const MeasuredCopy&, const MeasuredCopy&) = default;
};

/// Properties of a tensor in addition to the graph's own figures.
struct TensorPlaces {
  std::vector<MeasuredCopy> copies{};
  /// Devices of an input of the graph: where it is permanently resident; at least one. For a tensor that must be kept:
  /// the one device where it must be resident at the end; empty for any.
  std::vector<DeviceId> home{};

  friend bool operator==(const TensorPlaces&, const TensorPlaces&) = default;
};

/// Costs of a run of an op on one device.
struct RunCost {
  DeviceId device{};
  Duration duration{};
  Bytes workspace{};
  Energy energy{};
  /// Name of the device.
  LaneId lane{0};

  friend bool operator==(const RunCost&, const RunCost&) = default;
};

struct DeviceGraph {
  Graph graph{};
  /// At least one.
  Table<DeviceId, Device> devices{};
  /// One at most for each ordered pair.
  std::vector<Link> links{};
  Table<TensorId, TensorPlaces> places{};
  /// By op, in the order of the devices, each once: the op may run there and nowhere else. At least one.
  Table<OpId, std::vector<RunCost>> runs{};

  friend bool operator==(const DeviceGraph&, const DeviceGraph&) = default;
};

/// A graph for one device as one over devices: the only one is called "device", and all inputs are at home there.
REMORA_API DeviceGraph on_one_device(Graph graph);

/// The other way round, where one device alone runs ops, has all inputs of the graph from the beginning, and no other has to have
/// anything in the end: that device's graph. Nothing otherwise. What several lanes take beside each other is not in it.
REMORA_API std::optional<Graph> of_one_device(const DeviceGraph& graph);

/// The graph with its ops in another order (model/graph.hpp).
REMORA_API DeviceGraph reordered(const DeviceGraph& graph, const Order& order);

/// The op's figures on the device; null where it cannot run there.
REMORA_API const RunCost* run_cost(const DeviceGraph& graph, OpId op, DeviceId device);

/// Cost of copying the tensor; none without a link.
REMORA_API std::optional<CopyCost> copy_cost(const DeviceGraph& graph, TensorId tensor, DeviceId from, DeviceId to);

/// True if a device has lanes: then steps run concurrently, whatever is asked of copies.
REMORA_API bool has_lanes(const DeviceGraph& graph);

/// Numbers for all streams of a graph, from 0: the lanes, by device, then the ways from device to device, linked or not.
class StreamNumbers {
 public:
  REMORA_API explicit StreamNumbers(const DeviceGraph& graph);

  [[nodiscard]] std::size_t size() const { return lanes_ + first_.size() * first_.size(); }
  [[nodiscard]] std::size_t of_run(const RunCost& run) const { return first_[run.device] + run.lane.index(); }
  [[nodiscard]] std::size_t of_copy(DeviceId from, DeviceId to) const {
    return lanes_ + from.index() * first_.size() + to.index();
  }

 private:
  /// By device: its first lane; and how many lanes there are.
  Table<DeviceId, std::size_t> first_;
  std::size_t lanes_ = 0;
};

/// Size of all tensors, and fixed memory: more than the graph can fill on one device. The graph is valid.
REMORA_API Bytes all_memory(const DeviceGraph& graph);

/// By tensor: whether some op produces it.
REMORA_API Table<TensorId, bool> produced_tensors(const Graph& graph);

/// Checks what `validate(const Graph&)` does and what the devices demand: names that are unique and not empty, known
/// devices and lanes, one link a pair and none to itself, measured copies where there is a link, homes as said above, ops that can
/// run somewhere, amounts that are not negative; and sums within 64 bits: of each device's memory, and of
/// kComputesWithin64Bits times all durations, or energies, of each op's longest run and each copy. Throws InputError
/// with the path of the first fault ("ops[3].on.gpu.duration").
REMORA_API void validate(const DeviceGraph& graph);

}  // namespace remora
