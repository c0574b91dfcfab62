// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/solve_run.hpp"

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>

#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/progress.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;

namespace {

/// How a solve shows what it does.
enum class Display { none, table, bar, lines };

/// A log gets a line every few seconds.
constexpr double kPauseInLogs = 5;

Display display_of(const Arguments& arguments) {
  if (arguments.has("json-progress")) return Display::lines;
  if (arguments.has("quiet")) return Display::none;
  return arguments.has("progress") && isatty(STDERR_FILENO) == 1 ? Display::bar : Display::table;
}

bool says_more(Display display) {
  return display == Display::table || display == Display::bar;
}

Answer run(const Request& request, Display display, const SignalGuard& signals) {
  if (display == Display::none) return solve(request, {.cancel = &signals.flag()});
  const Instance instance(request.graph, {.budget = request.budget});
  const bool is_log = isatty(STDERR_FILENO) != 1;
  const int width = text::terminal_width(STDERR_FILENO, ProgressTable::kWideTable);
  ProgressTable table(instance, std::cerr, width, is_log ? kPauseInLogs : 0);
  ProgressBar bar(instance, request.options, std::cerr, width);
  SolveCallbacks callbacks;
  callbacks.cancel = &signals.flag();
  if (says_more(display))
    callbacks.order_chosen = [](const std::string& order) { std::cerr << "remora: " << order << "\n"; };
  if (display == Display::table) {
    callbacks.progress = [&](const Progress& progress) {
      bar.wipe();
      table.add(progress);
    };
    callbacks.heartbeat = [&](const Progress& progress) { is_log ? table.beat(progress) : bar.show(progress); };
  }
  if (display == Display::bar) callbacks.heartbeat = [&](const Progress& progress) { bar.show(progress); };
  if (display == Display::lines)
    callbacks.progress = [&](const Progress& progress) { write_event(std::cerr, instance, progress); };
  Answer answer = solve(request, callbacks);
  if (display == Display::lines)
    write_end(std::cerr, answer.schedule,
              refused_line(answer.sliced ? *answer.sliced : *request.graph, answer.schedule, answer.refusal));
  return answer;
}

/// Throws UsageError.
std::optional<Bytes> alignment_asked(const Arguments& arguments) {
  if (!arguments.has("addresses")) {
    if (arguments.has("alignment")) throw UsageError("--alignment needs --addresses");
    return std::nullopt;
  }
  constexpr std::int64_t kUsual = 64;
  return read_alignment(arguments, kUsual);
}

}  // namespace

void add_display_options(OptionGroup& group) {
  group.add_options()("progress", "on a terminal, show only a single updating status line")(
      "json-progress", "progress on standard error as JSON, one line per event, instead of table and summary")(
      "quiet,q", "no progress table, no summary, no warnings");
  group.make_expert({"progress", "json-progress"});
}

bool is_quiet(const Arguments& arguments) {
  return arguments.has("quiet") || arguments.has("json-progress");
}

Answer solve_as_asked(const Arguments& arguments, const LoadedGraph& loaded, Request request, Bytes withheld,
                      std::optional<Bytes> budget) {
  request.alignment = alignment_asked(arguments);
  request.graph = loaded.graph;
  request.slices.run = loaded.slice_run;
  request.warm_start = read_warm_start(arguments, *loaded.graph);
  const Display display = display_of(arguments);
  if (says_more(display)) warn_of_weaker_bound(request.options);
  SignalGuard signals;
  signals.watch_memory();
  request.budget = budget ? *budget : budget_asked(arguments.get<std::string>("budget"), request);
  request.budget = std::max(Bytes(1), request.budget - withheld);
  Answer answer = run(request, display, signals);
  answer.schedule.graph_sha256 = loaded.sha256;
  answer.schedule.reading = reading_of(arguments);
  return answer;
}

int solve_exit_code(Status status) {
  switch (status) {
    case Status::optimal:
    case Status::feasible:
      return kSuccess;
    case Status::infeasible:
      return kInfeasible;
    case Status::unknown:
      return kNoSchedule;
  }
  return kInternalError;
}

namespace {

OptionGroup address_options() {
  OptionGroup group("Addresses");
  group.add_options()(
      "addresses",
      "also give tensors and workspaces offsets in one arena within the budget; a percentage then refers to the "
      "input order's memory with addresses")("alignment", po::value<std::int64_t>()->value_name("N"),
                                             "offsets are multiples of N (default 64; CUDA aligns to 512)");
  group.make_expert({"addresses", "alignment"});
  return group;
}

OptionGroup solve_output() {
  OptionGroup group("Output");
  group.add_options()(
      "output,o", output_file("-"),
      "where to write the schedule; - is standard output, the default unless that is a terminal; for a range "
      "of sizes FILE-SIZE.json for each schedule, by its largest size");
  add_display_options(group);
  return group;
}

}  // namespace

namespace {

/// The same of a graph with devices.
devices::Answer solve_as_asked(const Arguments& arguments, const LoadedDeviceGraph& loaded) {
  if (arguments.has("addresses"))
    throw UsageError("--addresses: not for graphs with devices; 'remora place' gives their schedules addresses");
  const devices::Request request = read_device_request(arguments, loaded.graph, {"json-progress"});
  SignalGuard signals;
  signals.watch_memory();
  devices::Callbacks callbacks{.cancel = &signals.flag()};
  ProgressTable table(request.objective, std::cerr, isatty(STDERR_FILENO) != 1 ? kPauseInLogs : 0);
  const Display display = display_of(arguments);
  if (says_more(display)) {
    callbacks.progress = [&](const Progress& progress) { table.add(progress); };
    callbacks.heartbeat = [&](const Progress& progress) { table.beat(progress); };
  }
  if (display == Display::lines)
    callbacks.progress = [&](const Progress& progress) { write_event(std::cerr, request.objective, progress); };
  devices::Answer answer = devices::solve(request, callbacks);
  if (display == Display::lines)
    write_end(std::cerr, answer.schedule, refused_line(*request.graph, answer.schedule, answer.refusal));
  answer.schedule.graph_sha256 = loaded.sha256;
  return answer;
}

void print_search(const Schedule& /*schedule*/) {}
void print_search(const DeviceSchedule& schedule) {
  std::cerr << "search      " << text::fixed(schedule.solver.seconds, 2) << " s, " << schedule.solver.work
            << " plans and nodes\n";
}

const Graph& scheduled(const LoadedGraph& loaded, const Answer& answer) {
  return answer.sliced ? *answer.sliced : *loaded.graph;
}
const DeviceGraph& scheduled(const LoadedDeviceGraph& loaded, const devices::Answer& /*answer*/) {
  return *loaded.graph;
}

/// Writes the schedule and says what it is. Of a graph for one device or for several.
template <class AnyLoaded, class AnyAnswer>
int finish(const Arguments& arguments, const AnyLoaded& loaded, const AnyAnswer& answer, const std::string& hint = "") {
  const auto& schedule = answer.schedule;
  const auto& graph = scheduled(loaded, answer);
  // A terminal shows the summary; the schedule itself where it is asked for.
  const bool is_wanted = !arguments.values()["output"].defaulted() || isatty(STDOUT_FILENO) != 1;
  if (is_wanted) {
    arguments.files().write(arguments.output("output"),
                            [&](std::ostream& out) { json::write_schedule(out, schedule, graph); });
  }
  if (!is_quiet(arguments)) {
    const int width = text::terminal_width(STDERR_FILENO, kSummaryWidth);
    print_summary(std::cerr, graph, schedule, width, answer.refusal);
    print_search(schedule);
    if (!schedule.has_schedule()) std::cerr << hint;
  } else if (!arguments.has("json-progress") && !schedule.has_schedule()) {
    std::cerr << "remora: " << refused_line(graph, schedule, answer.refusal) << "\n";
  }
  return solve_exit_code(schedule.status);
}

}  // namespace

int solve_command(const Words& words) {
  Arguments arguments("solve",
                      "Schedules GRAPH under a memory budget: which ops run again, and when tensors are released.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {problem_options(true), address_options(), search_options(), device_options(),
                                   graph_options(), size_options(), solve_output()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best schedule so far; a second signal ends the program at once.\n"
      "Exit: 0 a schedule was written, 20 proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  const Request request = read_request(arguments);
  if (const auto range = dimension_range(arguments)) return solve_for_sizes(arguments, request, *range);
  json::check_writable(arguments.output("output"));
  const FileText file = read_once(arguments.file("GRAPH"));
  if (const auto devices = load_device_graph(file, arguments))
    return finish(arguments, *devices, solve_as_asked(arguments, *devices));
  refuse_device_options(arguments);
  const LoadedGraph loaded = load_graph(file, arguments, is_quiet(arguments));
  const bool is_inference = onnx_frontend::looks_like_onnx(file.content) && !arguments.has("training");
  return finish(arguments, loaded, solve_as_asked(arguments, loaded, request),
                is_inference ? "read as     inference; --training plans a training step of this model\n" : "");
}

}  // namespace remora::cli
