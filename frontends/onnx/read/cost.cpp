// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

const Value& value_of(const Network& network, ValueId id) {
  return network.values[id];
}

Bytes size_of(const Network& network, ValueId id) {
  const Value& value = value_of(network, id);
  return byte_size(value.shape, value.type);
}

bool looks_up(const Node& node) {
  constexpr std::array<std::string_view, 4> kLookups{"Gather", "GatherElements", "GatherND", "Slice"};
  return std::find(kLookups.begin(), kLookups.end(), node.type) != kLookups.end();
}

/// Whole nanoseconds, rounded up, within 64 bits. A rounding error of the sum is not worth a nanosecond more.
Duration nanoseconds(double seconds) {
  constexpr double kMost = 4e18;
  constexpr double kRelativeError = 1e-12;
  return Duration(static_cast<std::int64_t>(std::min(std::ceil(seconds * 1e9 * (1 - kRelativeError)), kMost)));
}

Duration base_duration(const Network& network, NodeId id, CostModel model, const Device& device) {
  switch (model) {
    case CostModel::unit:
      return Duration(1);
    case CostModel::flops:
      return Duration(flops(network, id));
    case CostModel::roofline:
      break;
  }
  const double computing = static_cast<double>(flops(network, id)) / device.peak_flops;
  const double moving = static_cast<double>(bytes_moved(network, id).count()) / device.bandwidth;
  return nanoseconds(std::max(computing, moving) + device.launch_overhead);
}

}  // namespace

std::string cost_model_name(CostModel model) {
  switch (model) {
    case CostModel::flops:
      return "flops";
    case CostModel::unit:
      return "unit";
    case CostModel::roofline:
      break;
  }
  return "roofline";
}

std::string duration_unit(CostModel model) {
  switch (model) {
    case CostModel::flops:
      return "flop";
    case CostModel::unit:
      return "op";
    case CostModel::roofline:
      break;
  }
  return "ns";
}

Bytes bytes_moved(const Network& network, NodeId id) {
  const Node& node = network.nodes[id];
  const std::string place = "node " + printable(node.name);
  Bytes written(node.attributes.get(kBytesWrittenInPlace, std::int64_t{0}));
  for (const ValueId output : node.outputs) {
    if (output.valid()) written = sum_of(written, size_of(network, output), place);
  }
  Bytes read;
  std::set<ValueId> seen;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId input = node.inputs[k];
    if (!input.valid() || !seen.insert(network.storage(input)).second) continue;
    const Bytes size = size_of(network, input);
    read = sum_of(read, k == 0 && looks_up(node) ? std::min(size, written) : size, place);
  }
  const Bytes moved = sum_of(read, written, place);
  return node.inner ? sum_of(moved, node.inner->moved, place) : moved;
}

Duration duration(const Network& network, NodeId id, CostModel model, const Device& device) {
  const Node& node = network.nodes[id];
  const std::int64_t factor = node.attributes.get("duration_factor", std::int64_t{0});
  if (factor <= 0 || !node.backward_of.valid()) return base_duration(network, id, model, device);
  const std::int64_t forward = base_duration(network, node.backward_of, model, device).count();
  return Duration(forward > Duration::max().count() / factor ? Duration::max().count() : forward * factor);
}

// read_device of cost.hpp.

namespace {

using remora::json::Document;

Document read_object(const std::string& path) {
  const std::string text = remora::json::read_file(path);
  Document object;
  try {
    object = remora::json::parse(text);
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
  if (!object.is_object()) throw InputError(path + ": $", std::string("is ") + object.type_name() + ", not an object");
  return object;
}

/// The key's number, at least 0, and above 0 unless `zero_allowed`.
double read_number(const Document& object, const std::string& path, const char* key, bool zero_allowed) {
  const std::string place = path + ": $." + key;
  const auto found = object.find(key);
  if (found == object.end())
    throw InputError(
        place, "missing; a device file has peak_flops, bandwidth, launch_overhead; a link file bandwidth, latency");
  if (!found->is_number()) throw InputError(place, std::string("is ") + found->type_name() + ", not a number");
  const double number = found->get<double>();
  if (!std::isfinite(number) || number < 0 || (!zero_allowed && number <= 0)) {
    throw InputError(place, found->dump() + " is not " + (zero_allowed ? "0 or more" : "positive"));
  }
  return number;
}

}  // namespace

Device read_device(const std::string& path) {
  const Document object = read_object(path);
  Device device;
  device.name = path;
  if (const auto name = object.find("name"); name != object.end()) {
    if (!name->is_string())
      throw InputError(path + ": $.name", std::string("is ") + name->type_name() + ", not a string");
    device.name = name->get<std::string>();
  }
  device.peak_flops = read_number(object, path, "peak_flops", false);
  device.bandwidth = read_number(object, path, "bandwidth", false);
  device.launch_overhead = read_number(object, path, "launch_overhead", true);
  if (object.contains("power")) device.power = read_number(object, path, "power", true);
  return device;
}

LinkModel read_link(const std::string& path) {
  const Document object = read_object(path);
  LinkModel link;
  link.bandwidth = link.bandwidth_back = read_number(object, path, "bandwidth", false);
  link.latency = read_number(object, path, "latency", true);
  if (object.contains("bandwidth_back")) link.bandwidth_back = read_number(object, path, "bandwidth_back", false);
  if (object.contains("power")) link.power = read_number(object, path, "power", true);
  return link;
}

}  // namespace remora::onnx_frontend
