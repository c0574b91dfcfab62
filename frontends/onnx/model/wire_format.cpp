// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/model/wire_format.hpp"

#include <map>

#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

constexpr std::uint64_t kGraphField = 7;

/// Whether a part of GraphProto parses by itself. Parts of other kinds are taken to.
bool parses(std::uint64_t field, std::string_view payload) {
  const auto parse = [&](auto message) {
    return message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  };
  switch (field) {
    case 1:
      return parse(onnx::NodeProto());
    case 5:
      return parse(onnx::TensorProto());
    case 11:
    case 12:
    case 13:
      return parse(onnx::ValueInfoProto());
    default:
      return true;
  }
}

const char* graph_part(std::uint64_t field) {
  switch (field) {
    case 1:
      return "graph.node";
    case 5:
      return "graph.initializer";
    case 11:
      return "graph.input";
    case 12:
      return "graph.output";
    case 13:
      return "graph.value_info";
    default:
      return nullptr;
  }
}

/// The first part of the graph that does not parse, or where its fields stop making sense.
std::string damage_in_graph(std::string_view graph, std::size_t& place) {
  std::map<std::uint64_t, int> counts;
  WireReader reader(graph);
  std::size_t start = 0;
  while (!reader.at_end()) {
    start = reader.place();
    const auto field = reader.next();
    if (!field) break;
    const int position = counts[field->number]++;
    if (!field->cut && parses(field->number, field->payload)) continue;
    place += start;
    const char* const part = graph_part(field->number);
    return part == nullptr ? "graph" : part + ("[" + std::to_string(position) + "]");
  }
  place += reader.place();
  return "graph";
}

}  // namespace

std::optional<std::uint64_t> WireReader::varint() {
  constexpr unsigned kMostVarintBytes = 10;
  std::uint64_t number = 0;
  for (unsigned k = 0; k < kMostVarintBytes && place_ < content_.size(); ++k) {
    const auto byte = static_cast<unsigned char>(content_[place_++]);
    number |= std::uint64_t{byte & 0x7fU} << (7 * k);
    if ((byte & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

std::optional<WireField> WireReader::next() {
  WireField field{.start = place_};
  const auto fail = [&] {
    place_ = field.start;
    return std::nullopt;
  };
  const auto tag = varint();
  if (!tag) return fail();
  field.number = *tag >> 3U;
  field.type = static_cast<int>(*tag & 7U);
  std::uint64_t length = 0;
  switch (field.type) {
    case 0:
    case 2: {
      const auto number = varint();
      if (!number) return fail();
      length = field.type == 2 ? *number : 0;
      break;
    }
    case 1:
      length = 8;
      break;
    case 5:
      length = 4;
      break;
    default:
      return fail();
  }
  if (field.number == 0) return fail();
  field.payload = content_.substr(place_, length);
  field.cut = length > content_.size() - place_;
  place_ += field.payload.size();
  return field;
}

std::string damage_place(std::string_view content) {
  WireReader reader(content);
  std::size_t place = 0;
  std::string part = "model";
  while (!reader.at_end()) {
    place = reader.place();
    const auto field = reader.next();
    if (!field) break;
    if (field->number == kGraphField && field->type == 2) {
      onnx::GraphProto graph;
      if (!field->cut && graph.ParseFromArray(field->payload.data(), static_cast<int>(field->payload.size()))) continue;
      place = static_cast<std::size_t>(field->payload.data() - content.data());
      part = damage_in_graph(field->payload, place);
      break;
    }
    if (field->cut) break;
  }
  return part + ", byte " + std::to_string(place) + " of " + std::to_string(content.size());
}

}  // namespace remora::onnx_frontend
