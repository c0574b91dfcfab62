// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/json.hpp"
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
    return LoadedDeviceGraph{std::make_shared<const DeviceGraph>(json::read_device_graph(json::Text(file.content))),
                             text::sha256_hex(file.content)};
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

namespace {

/// `visit(name, bytes, part)` for each part of the text, name=bytes. `most`: as of remora::parse_bytes.
template <class Visit>
void for_each_budget(const std::string& text, Bytes most, const Visit& visit) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto sign = one.rfind('=');
    if (sign == std::string_view::npos) {
      throw UsageError("--budget: of a graph with devices it is DEVICE=BYTES, separated by commas; '" +
                       std::string(one) + "' names none of its devices");
    }
    const std::string amount(one.substr(sign + 1));
    Bytes bytes;
    try {
      bytes = parse_bytes(amount, most);
    } catch (const InputError& error) {
      throw UsageError("--budget: " + std::string(one.substr(0, sign)) + ": " + error.what());
    }
    visit(one.substr(0, sign), bytes, one);
  }
}

}  // namespace

Table<DeviceId, std::optional<Bytes>> read_device_budgets(const std::string& text, const DeviceGraph& graph) {
  Table<DeviceId, std::optional<Bytes>> budgets(graph.devices.size());
  for_each_budget(text, all_memory(graph), [&](std::string_view name, Bytes bytes, std::string_view one) {
    const auto device = std::find_if(graph.devices.begin(), graph.devices.end(),
                                     [&](const Device& candidate) { return candidate.name == name; });
    if (device == graph.devices.end()) {
      throw UsageError("--budget: of a graph with devices it is DEVICE=BYTES, separated by commas; '" +
                       std::string(one) + "' names none of its devices");
    }
    budgets[DeviceId(static_cast<std::size_t>(device - graph.devices.begin()))] = bytes;
  });
  return budgets;
}

void check_device_budgets(const std::string& text) {
  for_each_budget(text, Bytes(0), [](std::string_view, Bytes, std::string_view) {});
}

namespace po = boost::program_options;

namespace {

constexpr std::array<std::string_view, 4> kOwn = {"objective", "copies", "duration-limit", "energy-limit"};
constexpr std::array<std::string_view, 12> kShared = {"files",      "budget", "max-computes", "order",
                                                      "time-limit", "seed",   "work-limit",   "threads",
                                                      "output",     "quiet",  "warm-start",   "memory-limit"};

template <class Names>
bool is_among(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_others(const Arguments& arguments, const std::vector<std::string>& others) {
  for (const auto& [name, value] : arguments.values()) {
    if (value.defaulted() || is_among(name, kShared) || is_among(name, kOwn) || is_among(name, others)) continue;
    throw UsageError("--" + name + ": not for graphs with devices");
  }
}

}  // namespace

OptionGroup device_options() {
  OptionGroup group("Graphs with devices");
  group.add_options()("objective", po::value<std::string>()->value_name("WHAT"),
                      "what to minimise: duration (default) or energy")(
      "copies", po::value<std::string>()->value_name("HOW"),
      "sequential: one thing at a time; overlap: copies run beside computing, each link on its own, and lanes beside "
      "each "
      "other. Default: overlap for graphs with lanes, else sequential")(
      "duration-limit", po::value<std::int64_t>()->value_name("T"), "upper limit on the duration")(
      "energy-limit", po::value<std::int64_t>()->value_name("E"), "upper limit on the energy");
  return group;
}

void refuse_device_options(const Arguments& arguments) {
  for (const std::string_view name : kOwn) {
    if (arguments.has(std::string(name))) throw UsageError("--" + std::string(name) + ": only for graphs with devices");
  }
}

devices::Request read_device_request(const Arguments& arguments, std::shared_ptr<const DeviceGraph> graph,
                                     const std::vector<std::string>& others) {
  refuse_others(arguments, others);
  const Request asked = read_request(arguments);
  if (asked.order == OrderRequest::automatic) throw UsageError("--order auto: not for graphs with devices");
  const std::string budgets = arguments.has("budget") ? arguments.get<std::string>("budget") : "";
  devices::Request request{.graph = std::move(graph),
                           .max_computes = asked.max_computes,
                           .order = asked.order == OrderRequest::free ? OrderMode::free : OrderMode::input,
                           .options = asked.options};
  request.budget = read_device_budgets(budgets, *request.graph);
  constexpr std::array<std::pair<const char*, Objective>, 2> kObjectives{
      {{"duration", Objective::duration}, {"energy", Objective::energy}}};
  if (arguments.has("objective")) {
    request.objective = choose("objective", arguments.get<std::string>("objective"), kObjectives);
  }
  constexpr std::array<std::pair<const char*, CopyMode>, 2> kCopies{
      {{"sequential", CopyMode::sequential}, {"overlap", CopyMode::overlap}}};
  if (arguments.has("copies")) {
    request.copies = choose("copies", arguments.get<std::string>("copies"), kCopies);
  }
  const auto limit = [&](const char* name) {
    const auto amount = arguments.get<std::int64_t>(name);
    if (amount < 0) throw UsageError(std::string("--") + name + ": must not be negative");
    return amount;
  };
  if (arguments.has("duration-limit")) request.duration_limit = Duration(limit("duration-limit"));
  if (arguments.has("energy-limit")) request.energy_limit = Energy(limit("energy-limit"));
  if (arguments.has("warm-start")) {
    const std::string& path = arguments.input("warm-start");
    request.start = load_device_schedule(read_once(path), *request.graph).steps;
    if (request.start.empty()) throw InputError(path, "holds no schedule to start from");
  }
  return request;
}

}  // namespace remora::cli
