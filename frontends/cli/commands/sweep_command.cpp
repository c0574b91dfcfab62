// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "engine/baselines/method.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

/// The default time limit of a sweep, in time limits of a solve.
constexpr double kSolvesOfTime = 3;

OptionGroup sweep_options() {
  OptionGroup group("The sweep");
  group.add_options()("budgets", po::value<std::string>()->value_name("LIST"),
                      "budgets and ranges FROM:TO:STEP, separated by commas: 100%:40%:5%, or 12GiB,10GiB:6GiB:1GiB")(
      "points", po::value<int>()->value_name("N"),
      "choose up to N budgets by bisection, each where the points so far leave the curve most room (default: 20)")(
      "resolution", po::value<double>()->value_name("R"),
      "bisection: smallest distance between budgets, as a fraction of their range (default: 0.005)")(
      "batch-size", po::value<std::string>()->value_name("DIM"),
      "instead of a curve: the largest value of this dimension of an ONNX model that fits --budget, in bytes")(
      "overhead", po::value<std::string>()->value_name("P"), "batch size: maximum overhead (default: 10%)");
  group.make_expert({"resolution"});
  return group;
}

OptionGroup sweep_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file("-"), "where to write the curve as JSON, - for standard output")(
      "csv", output_file(), "also write the curve as a table, one line per budget")(
      "svg", output_file(), "also write the curve as a picture")(
      "schedules", po::value<std::string>()->value_name("DIR"), "also write each budget's schedule into this folder")(
      "quiet,q", "no progress table, no summary, no warnings");
  return group;
}

void check_usage(const Arguments& arguments) {
  const auto exclude = [&](const char* one, const char* other) {
    if (arguments.has(one) && arguments.has(other)) {
      throw UsageError(std::string("--") + one + " and --" + other + " exclude each other");
    }
  };
  exclude("budgets", "points");
  exclude("budgets", "resolution");
  for (const char* of_curve : {"budgets", "points", "resolution", "csv", "svg"}) exclude("batch-size", of_curve);
  if (arguments.has("warm-start")) throw UsageError("--warm-start: a sweep starts from schedules of its own");
  const bool batch_size = arguments.has("batch-size");
  if (arguments.has("overhead") && !batch_size) throw UsageError("--overhead needs --batch-size");
  if (batch_size && !arguments.has("budget")) throw UsageError("--batch-size needs --budget");
}

SweepOptions read_sweep_options(const Arguments& arguments, const Instance& instance) {
  SweepOptions options;
  if (arguments.has("budgets")) {
    options.budgets = read_budgets("--budgets", arguments.get<std::string>("budgets"), instance.graph().fixed_memory,
                                   baseline_peak(instance));
  }
  if (arguments.has("points")) options.points = arguments.get<int>("points");
  if (options.points < 2) throw UsageError("--points: must be at least 2");
  if (arguments.has("resolution")) options.resolution = arguments.get<double>("resolution");
  if (!(options.resolution >= 0 && options.resolution <= 1)) throw UsageError("--resolution: must be from 0 to 1");
  return options;
}

constexpr const char* kPointName = "budget-";

std::string file_of(const std::string& folder, Bytes budget) {
  return (fs::path(folder) / (kPointName + std::to_string(budget.count()) + ".json")).string();
}

/// The curve names its schedules' files relative to its own.
void name_schedules(const std::string& folder, const std::string& output, Curve& curve) {
  const fs::path home = output == "-" ? fs::current_path() : fs::absolute(output).parent_path();
  for (CurvePoint& point : curve.points) {
    if (point.has_schedule()) point.schedule_file = fs::proximate(file_of(folder, point.budget), home).string();
  }
}

const Graph& graph_of(const SweepResult& result, std::size_t point, const Graph& graph) {
  return result.graph_of(point, graph);
}
const DeviceGraph& graph_of(const auto& /*result*/, std::size_t /*point*/, const DeviceGraph& graph) {
  return graph;
}

/// The curve, and, by point, the schedules of a graph for one device or for several.
template <class AnyResult, class AnyGraph>
void write_files(const Arguments& arguments, AnyResult& result, const AnyGraph& graph) {
  Curve& curve = result.curve;
  const auto& schedules = result.schedules;
  const std::string& output = arguments.output("output");
  const bool keeps = arguments.has("schedules");
  if (keeps) name_schedules(arguments.get<std::string>("schedules"), output, curve);
  // First what is worth most, should the disk fill up.
  arguments.files().write(output, [&](std::ostream& out) { json::write_curve(out, curve); });
  for (std::size_t i = 0; keeps && i < schedules.size(); ++i) {
    if (!schedules[i].has_schedule()) continue;
    arguments.files().write(
        file_of(arguments.get<std::string>("schedules"), curve.points[i].budget),
        [&](std::ostream& out) { json::write_schedule(out, schedules[i], graph_of(result, i, graph)); });
  }
  if (arguments.has("csv")) {
    arguments.files().write(arguments.output("csv"), [&](std::ostream& out) { report::write_curve_csv(out, curve); });
  }
  if (arguments.has("svg")) {
    arguments.files().write(arguments.output("svg"),
                            [&](std::ostream& out) { out << report::svg(report::curve_figure(curve)); });
  }
}

/// Before the work, not after it.
void check_files(const Arguments& arguments) {
  for (const char* option : {"output", "csv", "svg"}) {
    if (arguments.has(option)) json::check_writable(arguments.output(option));
  }
  if (!arguments.has("schedules")) return;
  const std::string& folder = arguments.get<std::string>("schedules");
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) throw InputError(folder, "cannot be made: " + error.message());
  json::check_writable(file_of(folder, Bytes(0)));
  arguments.files().will_write_in(folder, kPointName, "--schedules");
}

int exit_code(const Curve& curve) {
  if (curve.smallest_feasible()) return kSuccess;
  return curve.points.back().status == Status::infeasible ? kInfeasible : kNoSchedule;
}

/// A device's budgets: "gpu=12GiB:6GiB:1GiB" as the device and the list behind it.
std::pair<DeviceId, std::string> swept_device(const Arguments& arguments, const DeviceGraph& graph) {
  const std::string text = arguments.has("budgets") ? arguments.get<std::string>("budgets") : "";
  const auto sign = text.find('=');
  for (const DeviceId d : graph.devices.ids()) {
    if (sign != std::string::npos && text.substr(0, sign) == graph.devices[d].name) return {d, text.substr(sign + 1)};
  }
  throw UsageError("--budgets: of a graph with devices it is DEVICE=LIST, of one of its devices");
}

const Graph& names_of(const Graph& graph) {
  return graph;
}

const Graph& names_of(const DeviceGraph& graph) {
  return graph.graph;
}

/// Runs a sweep of a graph for one device or for several, writes what it finds and shows it. `baseline`: what of the curve does not
/// depend on budgets.
template <class AnyLoaded, class Run>
int sweep_on(const Arguments& arguments, const AnyLoaded& loaded, const Curve& baseline, const Run& run) {
  check_files(arguments);
  SignalGuard signals;
  signals.watch_memory();
  const int width = text::terminal_width(STDERR_FILENO, kSummaryWidth);
  SweepTable table(baseline, std::cerr, width);
  SweepCallbacks callbacks;
  callbacks.cancel = &signals.flag();
  const bool quiet = arguments.has("quiet");
  if (!quiet) callbacks.progress = [&](const SweepProgress& progress) { table.add(progress); };
  auto result = run(callbacks);
  result.curve.graph_sha256 = loaded.sha256;
  for (auto& schedule : result.schedules) schedule.graph_sha256 = loaded.sha256;
  write_files(arguments, result, *loaded.graph);
  if (!quiet) {
    print_curve(std::cerr, names_of(*loaded.graph), result.curve, width);
  } else if (!result.curve.smallest_feasible()) {
    std::cerr << "remora: no budget of the sweep has a schedule\n";
  }
  return exit_code(result.curve);
}

int sweep_budgets(const Arguments& arguments, const LoadedDeviceGraph& loaded) {
  devices::Request request = read_device_request(arguments, loaded.graph, {"budgets", "csv", "svg", "schedules"});
  refuse_more_computes(arguments, "sweeps of graphs with devices");
  if (request.objective != Objective::duration) {
    throw UsageError("--objective: the curve of a sweep is of the duration");
  }
  const auto [swept, list] = swept_device(arguments, *loaded.graph);
  const DeviceId device = swept;  // Clang 14 takes no structured binding into a lambda
  if (request.budget[device]) throw UsageError("--budget: it has the device that is swept, too");
  if (!arguments.has("time-limit") && !arguments.has("work-limit")) request.options.time_limit *= kSolvesOfTime;
  const Curve baseline = devices::baseline(request, device);
  const std::vector<Bytes> budgets =
      read_budgets("--budgets", list, baseline.fixed_memory, baseline.baseline_peak_memory);
  return sweep_on(arguments, loaded, baseline,
                  [&](const SweepCallbacks& callbacks) { return devices::sweep(request, device, budgets, callbacks); });
}

int sweep_budgets(const Arguments& arguments, const Request& request, const LoadedGraph& loaded) {
  if (arguments.has("budget")) throw UsageError("--budget: a sweep takes --budgets");
  const Instance instance(loaded.graph, {});
  const SweepOptions sweep_options = read_sweep_options(arguments, instance);
  if (!arguments.has("quiet")) warn_of_weaker_bound(request.options);
  const Curve baseline{.fixed_memory = instance.graph().fixed_memory,
                       .baseline_duration = instance.baseline_duration(),
                       .baseline_peak_memory = baseline_peak(instance)};
  return sweep_on(arguments, loaded, baseline, [&](const SweepCallbacks& callbacks) {
    SweepResult result = sweep(request, sweep_options, callbacks);
    result.curve.reading = reading_of(arguments);
    for (Schedule& schedule : result.schedules) schedule.reading = result.curve.reading;
    return result;
  });
}

}  // namespace

int sweep_command(const Words& words) {
  Arguments arguments("sweep", "The curve of memory against time: schedules of GRAPH for many budgets, with bounds.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group :
       {sweep_options(), problem_options(false), search_options(), device_options(), graph_options(), sweep_output()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "For a graph with devices, the sweep covers the budgets of one device: --budgets gpu=12GiB:6GiB:1GiB; --budget\n"
      "cpu=32GiB sets those of the others.\n"
      "The time limit (default: 180 seconds) and the work limit hold for the whole sweep. SIGINT and SIGTERM end it "
      "with\nthe points found so far; a second signal ends the program at once.\n"
      "Exit: 0 some budget has a schedule, 20 all proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  check_usage(arguments);
  Request request = read_request(arguments);
  if (request.options.stall > 0) throw UsageError("--stall: a sweep has none; --gap ends each of its budgets");
  if (!arguments.has("time-limit") && !arguments.has("work-limit")) request.options.time_limit *= kSolvesOfTime;
  const FileText file = read_once(arguments.file("GRAPH"));
  if (const auto devices = load_device_graph(file, arguments)) {
    if (arguments.has("batch-size")) throw UsageError("--batch-size: not for graphs with devices");
    return sweep_budgets(arguments, *devices);
  }
  refuse_device_options(arguments);
  const OrderRequest order = order_asked(request);
  if (order == OrderRequest::automatic) {
    throw UsageError(
        "--order: auto chooses for one budget; a sweep keeps to the input order (free is for --batch-size and for "
        "methods that do not search)");
  }
  if (arguments.has("batch-size")) {
    refuse_slices(arguments, "--batch-size");
    return find_batch_size(arguments, request);
  }
  if (order == OrderRequest::free && is_search(request.options.strategy)) {
    throw UsageError(
        "--order: a curve is searched in input order only; sweep the graph that 'remora order' writes, or "
        "solve each budget with --order free");
  }
  const LoadedGraph loaded = load_graph(file, arguments, arguments.has("quiet"));
  request.graph = loaded.graph;
  request.slices.run = loaded.slice_run;
  return sweep_budgets(arguments, request, loaded);
}

}  // namespace remora::cli
