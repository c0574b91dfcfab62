// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/device_json.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::cli {

std::optional<LoadedDeviceGraph> load_device_graph(const FileText& file, const Arguments& arguments) {
  if (!json::names_devices(json::Text(file.content))) return std::nullopt;
  refuse_model_options(arguments, file.path);
  if (arguments.has("costs")) throw UsageError("--costs: not for graphs with devices, whose ops say what they take");
  try {
    return LoadedDeviceGraph{json::read_device_graph(json::Text(file.content)), text::sha256_hex(file.content)};
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
}

DeviceSchedule load_device_schedule(const FileText& file, const DeviceGraph& graph) {
  try {
    return json::read_device_schedule(json::Text(file.content), graph);
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
}

void expect_valid(const std::string& path, const DeviceGraph& graph, const DeviceSchedule& schedule) {
  if (const DeviceVerdict verdict = verify(graph, schedule); !verdict.valid()) {
    throw InputError(path, "not a valid schedule of this graph: " + printable(verdict.errors.front()));
  }
}

Table<DeviceId, std::optional<Bytes>> read_device_budgets(const std::string& text, const DeviceGraph& graph) {
  Table<DeviceId, std::optional<Bytes>> budgets(graph.devices.size());
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto sign = one.rfind('=');
    const std::string_view name = one.substr(0, sign);
    const auto device = std::find_if(graph.devices.begin(), graph.devices.end(),
                                     [&](const Device& candidate) { return candidate.name == name; });
    if (sign == std::string_view::npos || device == graph.devices.end()) {
      throw UsageError("--budget: of a graph with devices it is DEVICE=BYTES, separated by commas; '" +
                       std::string(one) + "' names none of its devices");
    }
    const std::string amount(one.substr(sign + 1));
    if (amount.find('%') != std::string::npos) {
      throw UsageError("--budget: of a graph with devices it is bytes, not a percentage: '" + std::string(one) + "'");
    }
    try {
      budgets[DeviceId(static_cast<std::size_t>(device - graph.devices.begin()))] =
          parse_budget(amount, Bytes(0), Bytes(0));
    } catch (const InputError& error) {
      throw UsageError(std::string("--budget: ") + error.what());
    }
  }
  return budgets;
}

}  // namespace remora::cli
