// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include <nlohmann/json.hpp>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/keys.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

void print_verdict(const Graph& /*graph*/, const Verdict& verdict, std::size_t steps) {
  const nlohmann::ordered_json text{{"valid", verdict.valid()},
                                    {"errors", verdict.errors},
                                    {"duration", verdict.duration.count()},
                                    {"peak_memory", verdict.peak.count()},
                                    {"peak_step", verdict.peak_step},
                                    {"steps", steps},
                                    {"recomputes", verdict.recomputes}};
  std::cout << json::dump(text, 1) << "\n";
}

/// By device name.
template <class Rows, class Number>
nlohmann::ordered_json by_device(const DeviceGraph& graph, const Rows& rows, Number number) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const DeviceId d : graph.devices.ids()) object[graph.devices[d].name] = number(rows[d]);
  return object;
}

void print_verdict(const DeviceGraph& graph, const DeviceVerdict& verdict, std::size_t steps) {
  const nlohmann::ordered_json text{
      {"valid", verdict.valid()},
      {"errors", verdict.errors},
      {"duration", verdict.duration.count()},
      {"energy", verdict.energy.count()},
      {"peak_memory", by_device(graph, verdict.peak, [](Bytes bytes) { return bytes.count(); })},
      {"peak_step", by_device(graph, verdict.peak_step, [](int step) { return step; })},
      {"steps", steps},
      {"recomputes", verdict.recomputes},
      {"copies", verdict.copies}};
  std::cout << json::dump(text, 1) << "\n";
}

Bytes read_budgets(const std::string& text, const LoadedGraph& loaded) {
  return read_budget(text, loaded.graph->fixed_memory, baseline_peak(Instance(loaded.graph, {})));
}

Table<DeviceId, std::optional<Bytes>> read_budgets(const std::string& text, const LoadedDeviceGraph& loaded) {
  return read_device_budgets(text, *loaded.graph);
}

/// For a graph over one device or several. `graph`: the loaded one, or that in the schedule's slices.
template <class AnyLoaded, class AnyGraph>
int verify_on(const Arguments& arguments, const FileText& file, const AnyLoaded& loaded, const AnyGraph& graph) {
  const bool quiet = arguments.has("quiet");
  auto schedule = load_schedule(file, graph);
  if (arguments.has("budget")) schedule.budget = read_budgets(arguments.get<std::string>("budget"), loaded);
  if (!schedule.has_schedule() && !quiet) {
    const std::string status = json::status_word(schedule.status);
    std::cerr << "remora: the file holds no schedule to verify: its status is " << status << "\n";
    if (schedule.status == Status::infeasible) std::cerr << "remora: what proves it is not replayed\n";
  }
  auto verdict = verify(graph, schedule);
  // That no op is computed says nothing more.
  if (!schedule.has_schedule() && schedule.steps.empty()) verdict.errors = {"there is no schedule"};
  if (!quiet) print_verdict(graph, verdict, schedule.steps.size());
  return verdict.valid() ? kSuccess : kBadInput;
}

}  // namespace

int verify_command(const Words& words) {
  Arguments arguments(
      "verify", "Replays SCHEDULE on GRAPH by the format's rules and prints a verdict as JSON.",
      {{"GRAPH", "the graph that was solved; a model is read as the schedule says, or with the options below"},
       {"SCHEDULE", "a remora-schedule (JSON)"}});
  OptionGroup group("Checking");
  group.add_options()("budget,b", po::value<std::string>()->value_name("B"),
                      "check against this budget instead of the schedule's: bytes or a percentage; for a graph with "
                      "devices DEVICE=BYTES, separated by commas")("quiet,q", "only the exit code");
  arguments.add(group);
  arguments.add(graph_options());
  arguments.set_notes("Exit: 0 valid, 65 not valid.");
  if (!arguments.parse(words)) return kSuccess;
  const FileText graph = read_once(arguments.file("GRAPH"));
  const auto devices = load_device_graph(graph, arguments);
  const FileText file = read_once(arguments.file("SCHEDULE"));
  if (devices) return verify_on(arguments, file, *devices, *devices->graph);
  adopt_reading(arguments, file, arguments.has("quiet"));
  const LoadedGraph loaded = load_graph_of(file, graph, arguments, arguments.has("quiet"));
  return verify_on(arguments, file, loaded, *scheduled_graph(file, loaded).graph);
}

}  // namespace remora::cli
