// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/onnx/read/device_model.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

// Models for several devices.

constexpr std::array kDeviceOptions{"links", "weights", "home"};

OptionGroup several_devices_options() {
  OptionGroup group("Several devices");
  group.add_options()(
      "devices", po::value<std::string>()->value_name("LIST"),
      "[NAME=]DEVICE,...: make an ONNX model a graph over these devices. DEVICE is a device file, a device that "
      "'remora fit --devices' prints, a table of measured costs (.csv), or the word store, for memory that "
      "computes nothing")(
      "links", po::value<std::string>()->value_name("LIST"),
      "NAME:NAME=LINK,...: between these two devices, both ways. LINK is a link file or a link that 'remora fit "
      "--devices' prints, such as pcie-4-x16")(
      "weights", po::value<std::string>()->value_name("WHERE"),
      "home (default): on each device that computes; move: on the home device, copied to where they are "
      "read")("home", po::value<std::string>()->value_name("NAME"),
              "where the model's inputs are, and weights that move (default: the first device)");
  return group;
}

/// The parts of LEFT=RIGHT,LEFT=RIGHT; without a sign, the left part is empty.
std::vector<std::pair<std::string, std::string>> read_list(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> parts;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    const auto sign = part.find('=');
    parts.emplace_back(sign == std::string::npos ? "" : part.substr(0, sign),
                       sign == std::string::npos ? part : part.substr(sign + 1));
  }
  return parts;
}

using onnx_frontend::DeviceModel;
using onnx_frontend::DevicesRequest;

DeviceModel read_device_model(const Arguments& arguments, std::string name, const std::string& what) {
  DeviceModel model{.name = std::move(name), .store = what == "store"};
  if (model.name.empty()) model.name = std::filesystem::path(what).stem().string();
  if (!model.store && !is_known_device(what)) arguments.files().will_read(what, "a file of --devices");
  if (what.ends_with(".csv")) {
    model.costs = interchange::read_costs(json::read_file(what), what);
  } else if (!model.store) {
    model.machine = read_device(what);
  }
  return model;
}

DeviceId named_device(const DevicesRequest& request, const std::string& name, const std::string& option) {
  for (std::size_t d = 0; d < request.devices.size(); ++d) {
    if (request.devices[d].name == name) return DeviceId(d);
  }
  throw UsageError(option + ": '" + name + "' is not one of --devices");
}

DevicesRequest read_devices_request(const Arguments& arguments) {
  DevicesRequest request;
  for (const auto& [name, what] : read_list(arguments.get<std::string>("devices"))) {
    request.devices.push_back(read_device_model(arguments, name, what));
  }
  if (request.devices.empty()) throw UsageError("--devices: names no device");
  if (arguments.has("links")) {
    for (const auto& [ends, what] : read_list(arguments.get<std::string>("links"))) {
      const auto colon = ends.find(':');
      if (colon == std::string::npos) throw UsageError("--links: expected NAME:NAME=LINK, got '" + ends + "'");
      if (find_link(what) == nullptr) arguments.files().will_read(what, "a file of --links");
      request.links.push_back({named_device(request, ends.substr(0, colon), "--links"),
                               named_device(request, ends.substr(colon + 1), "--links"), read_link_option(what)});
    }
  }
  if (arguments.has("home")) request.home = named_device(request, arguments.get<std::string>("home"), "--home");
  constexpr std::array<std::pair<const char*, bool>, 2> kWeights{{{"home", false}, {"move", true}}};
  if (arguments.has("weights")) {
    request.move_weights = choose("weights", arguments.get<std::string>("weights"), kWeights);
  }
  return request;
}

void refuse_without_devices(const Arguments& arguments) {
  for (const char* option : kDeviceOptions) {
    if (arguments.has(option)) throw UsageError(std::string("--") + option + " needs --devices");
  }
}

void convert_for_devices(const Arguments& arguments) {
  for (const char* option : {"device", "costs", "schedule", "axes"}) {
    if (arguments.has(option)) throw UsageError(std::string("--") + option + ": not with --devices");
  }
  const onnx_frontend::OnnxOptions options = read_onnx_options(arguments);
  if (options.cost != onnx_frontend::CostModel::roofline) throw UsageError("--devices needs --cost roofline");
  if (options.allow_unknown) throw UsageError("--allow-unknown: not with --devices, which needs every size to copy it");
  const DevicesRequest request = read_devices_request(arguments);
  const FileText file = read_once(arguments.file("GRAPH"));
  if (!onnx_frontend::looks_like_onnx(file.content))
    throw InputError(file.path, "is not an ONNX model, which --devices needs");
  note_data_files(file.content, file.path, arguments.files());
  const auto result = onnx_frontend::read_onnx(file.content, file.path, options, request);
  for (const std::string& message : result.messages) {
    if (!arguments.has("quiet")) std::cerr << "remora: " << message << "\n";
  }
  arguments.files().write(arguments.output("output"), [&](std::ostream& out) { json::write_graph(out, result.graph); });
}

}  // namespace

int convert_command(const Words& words) {
  Arguments arguments("convert", "Writes GRAPH as remora-graph JSON, also over several devices.",
                      {{"GRAPH", kGraphHelp}});
  OptionGroup group = graph_output_options();
  group.add_options()("axes", "with axes of an ONNX model's ops, for slices")(
      "schedule", input_file(), "write GRAPH in the slices that this schedule of it states")("quiet,q", "no warnings");
  arguments.add(several_devices_options());
  arguments.add(group);
  arguments.add(graph_options());
  if (!arguments.parse(words)) return kSuccess;
  if (arguments.has("devices")) {
    convert_for_devices(arguments);
    return kSuccess;
  }
  refuse_without_devices(arguments);
  std::optional<FileText> schedule;
  if (arguments.has("schedule")) {
    schedule = read_once(arguments.input("schedule"));
    adopt_reading(arguments, *schedule, arguments.has("quiet"));
  }
  const FileText graph = read_once(arguments.file("GRAPH"));
  if (const auto devices = load_device_graph(graph, arguments)) {
    if (schedule) throw UsageError("--schedule: not for graphs with devices");
    arguments.files().write(arguments.output("output"),
                            [&](std::ostream& out) { json::write_graph(out, *devices->graph); });
    return kSuccess;
  }
  const bool is_quiet = arguments.has("quiet");
  LoadedGraph loaded =
      schedule ? load_graph_of(*schedule, graph, arguments, is_quiet) : load_graph(graph, arguments, is_quiet);
  if (schedule) loaded.graph = scheduled_graph(*schedule, loaded).graph;
  write_graph_output(arguments, *loaded.graph);
  return kSuccess;
}

}  // namespace remora::cli
