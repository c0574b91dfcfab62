// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/cost.hpp"

#include <algorithm>
#include <array>
#include <bit>
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

/// The share of the multiprocessors' time that a product's tiles fill. Where one side is short, narrower tiles are taken;
/// long sums are divided among multiprocessors.
double filled(const Shape& made, std::int64_t operations, int multiprocessors) {
  constexpr std::int64_t kTile = 128;
  constexpr std::int64_t kNarrowest = 16;
  constexpr std::int64_t kDepth = 512;
  constexpr double kLeast = 0.02;
  const std::int64_t elements = element_count(made);
  if (multiprocessors <= 1 || made.size() < 2 || elements == 0) return 1;
  const auto side = [&](std::int64_t extent) {
    const auto shorter = static_cast<std::uint64_t>(std::min(extent, kTile));
    return std::max(static_cast<std::int64_t>(std::bit_ceil(shorter)), kNarrowest);
  };
  const std::int64_t rows = made[made.size() - 2];
  const std::int64_t columns = made.back();
  const std::int64_t height = side(rows);
  const std::int64_t width = side(columns);
  const auto pieces = [](std::int64_t extent, std::int64_t part) {
    return extent / part + (extent % part == 0 ? 0 : 1);
  };
  const std::int64_t products = elements / rows / columns;
  double tiles = static_cast<double>(products * pieces(rows, height) * pieces(columns, width));
  const double covered = static_cast<double>(elements) / (tiles * static_cast<double>(height * width));
  tiles *= std::max(1.0, std::floor(static_cast<double>(operations) / 2 / static_cast<double>(elements) / kDepth));
  const double rounds = std::ceil(tiles / multiprocessors);
  return std::max(kLeast, covered * tiles / (rounds * multiprocessors));
}

/// The node's first result that is a value; null without one.
const Value* first_result(const Network& network, const Node& node) {
  for (const ValueId output : node.outputs) {
    if (output.valid()) return &value_of(network, output);
  }
  return nullptr;
}

/// Seconds for the node's arithmetic.
double computing(const Network& network, NodeId id, const Device& device) {
  const std::int64_t operations = flops(network, id);
  const auto count = static_cast<double>(operations);
  if (!device.rates || operations == 0) return count / device.peak_flops;
  const Node& node = network.nodes[id];
  const Value* const made = first_result(network, node.backward_of.valid() ? network.nodes[node.backward_of] : node);
  const bool is_wide = made == nullptr || !made->type.floating || made->type.bits > 16;
  const OpClass of = op_class(network, id);
  const double seconds = count / (*device.rates)[is_wide ? 1 : 0][static_cast<std::size_t>(of)];
  return of == OpClass::product && made != nullptr ? seconds / filled(made->shape, operations, device.multiprocessors)
                                                   : seconds;
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
  const double moving = static_cast<double>(bytes_moved(network, id).count()) / device.bandwidth;
  return nanoseconds(std::max(computing(network, id, device), moving) + device.launch_overhead);
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
