// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/solve_run.hpp"

#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <string>

#include <unistd.h>

#include "engine/ask/ask.hpp"
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
#include "model/verify.hpp"

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
  ProgressLines lines(instance, std::cerr);
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
  if (display == Display::lines) callbacks.progress = [&](const Progress& progress) { lines.add(progress); };
  Answer answer = solve(request, callbacks);
  if (display == Display::lines) lines.end(answer.schedule);
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

Answer solve_as_asked(const Arguments& arguments, const LoadedGraph& loaded, Request request) {
  request.alignment = alignment_asked(arguments);
  request.graph = loaded.graph;
  request.start = read_warm_start(arguments, *loaded.graph);
  const Display display = display_of(arguments);
  if (says_more(display)) warn_of_weaker_bound(request.options);
  SignalGuard signals;
  signals.watch_memory();
  request.budget = budget_asked(arguments.get<std::string>("budget"), request);
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
  group.add_options()("output,o", output_file("-"),
                      "where to write the schedule; - is standard output, the default unless that is a terminal");
  add_display_options(group);
  return group;
}

}  // namespace

namespace {

DeviceSchedule run(const devices::Request& request, bool quiet, const SignalGuard& signals) {
  devices::Callbacks callbacks{.cancel = &signals.flag()};
  if (quiet) return devices::solve(request, callbacks);
  ProgressTable table(request.objective, std::cerr, isatty(STDERR_FILENO) != 1 ? kPauseInLogs : 0);
  callbacks.progress = [&](const Progress& progress) { table.add(progress); };
  callbacks.heartbeat = [&](const Progress& progress) { table.beat(progress); };
  return devices::solve(request, callbacks);
}

}  // namespace

int solve_devices(const Arguments& arguments, const LoadedDeviceGraph& loaded) {
  const DeviceGraph& graph = *loaded.graph;
  const devices::Request request = read_device_request(arguments, loaded.graph);
  SignalGuard signals;
  signals.watch_memory();
  DeviceSchedule schedule = run(request, arguments.has("quiet"), signals);
  schedule.graph_sha256 = loaded.sha256;
  arguments.files().write(arguments.output("output"),
                          [&](std::ostream& out) { json::write_device_schedule(out, schedule, graph); });
  if (!arguments.has("quiet")) {
    print_device_summary(std::cerr, graph, schedule);
    std::cerr << "search      " << schedule.solver.seconds << " s, " << schedule.solver.work << " plans and nodes\n";
  }
  return solve_exit_code(schedule.status);
}

int solve_command(const Words& words) {
  Arguments arguments("solve",
                      "Schedules GRAPH under a memory budget: which ops run again, and when tensors are released.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {problem_options(true), address_options(), search_options(), device_options(),
                                   graph_options(), solve_output()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best schedule so far; a second signal ends the program at once.\n"
      "Exit: 0 a schedule was written, 20 proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  const bool quiet = is_quiet(arguments);
  const Request request = read_request(arguments);
  const std::string& output = arguments.output("output");
  json::check_writable(output);
  const FileText file = read_once(arguments.file("GRAPH"));
  if (const auto devices = load_device_graph(file, arguments)) {
    if (arguments.has("addresses")) throw UsageError("--addresses: a graph with devices gets none");
    return solve_devices(arguments, *devices);
  }
  refuse_device_options(arguments);
  const LoadedGraph loaded = load_graph(file, arguments, quiet);
  const Answer answer = solve_as_asked(arguments, loaded, request);
  const Schedule& schedule = answer.schedule;
  // A terminal shows the summary; the schedule itself where it is asked for.
  const bool is_wanted = !arguments.values()["output"].defaulted() || isatty(STDOUT_FILENO) != 1;
  if (is_wanted) {
    arguments.files().write(output, [&](std::ostream& out) { json::write_schedule(out, schedule, *loaded.graph); });
  }
  const int width = text::terminal_width(STDERR_FILENO, kSummaryWidth);
  if (!quiet) print_summary(std::cerr, *loaded.graph, schedule, width, answer.refusal);
  const bool is_inference = onnx_frontend::looks_like_onnx(file.content) && !arguments.has("training");
  if (!quiet && is_inference && !schedule.has_schedule()) {
    std::cerr << "read as     inference; --training plans a training step of this model\n";
  }
  return solve_exit_code(schedule.status);
}

}  // namespace remora::cli
