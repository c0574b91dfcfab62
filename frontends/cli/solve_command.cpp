// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "engine/solve.hpp"
#include "frontends/cli/amounts.hpp"
#include "frontends/cli/arguments.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/exit_code.hpp"
#include "frontends/cli/graph_source.hpp"
#include "frontends/cli/progress_bar.hpp"
#include "frontends/cli/progress_table.hpp"
#include "frontends/cli/schedule_source.hpp"
#include "frontends/cli/signals.hpp"
#include "frontends/cli/solve_options.hpp"
#include "frontends/cli/summary.hpp"
#include "frontends/json/file.hpp"
#include "frontends/json/schedule_json.hpp"
#include "model/ensure.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup output_options() {
  OptionGroup group("Output");
  group.add_options()("output,o", po::value<std::string>()->default_value("-")->value_name("FILE"),
                      "where the schedule goes, - for standard output")(
      "progress", "on a terminal one line that is written anew, in place of the progress table")(
      "quiet,q", "no progress table, no summary, no warnings");
  return group;
}

int exit_code(const Schedule& schedule) {
  switch (schedule.status) {
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

/// Before the work, not after it: can the schedule be written, and not over the graph?
void check_output(const std::string& graph, const std::string& output) {
  std::error_code none;
  if (std::filesystem::equivalent(graph, output, none))
    throw UsageError("--output: " + output + " is the graph itself");
  json::check_writable(output);
}

/// How a solve shows what it does.
enum class Display { none, table, bar };

Display display_of(const Arguments& arguments) {
  if (arguments.has("quiet")) return Display::none;
  return arguments.has("progress") && isatty(STDERR_FILENO) == 1 ? Display::bar : Display::table;
}

Schedule run(const Instance& instance, const SolveOptions& options, std::span<const OpId> warm_start, Display display) {
  if (display != Display::none) warn_of_weaker_bound(options);
  const SignalGuard signals;
  ProgressTable table(instance, std::cerr);
  ProgressBar bar(instance, options, std::cerr);
  SolveCallbacks callbacks;
  callbacks.cancel = &signals.flag();
  if (display == Display::table) callbacks.progress = [&](const Progress& progress) { table.add(progress); };
  if (display == Display::bar) callbacks.heartbeat = [&](const Progress& progress) { bar.show(progress); };
  return solve(instance, options, callbacks, warm_start);
}

}  // namespace

int solve_command(const Words& words) {
  Arguments arguments("solve", "Schedules GRAPH under a memory budget: which ops run again, what is released when.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {problem_options(true), search_options(), graph_options(), output_options()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best schedule so far; a second one kills.\n"
      "Exit: 0 a schedule was written, 20 proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  const bool quiet = arguments.has("quiet");
  const SolveOptions options = read_solve_options(arguments);
  const InstanceOptions problem = read_problem(arguments, options.strategy);
  const std::string& output = arguments.get<std::string>("output");
  check_output(arguments.file("GRAPH"), output);
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, quiet);

  const Instance unlimited(loaded.graph, problem);
  const Bytes budget =
      parse_budget(arguments.get<std::string>("budget"), loaded.graph->fixed_memory, baseline_peak(unlimited));
  const auto warm_start = read_warm_start(arguments, *loaded.graph);
  Schedule schedule = run(unlimited.with_budget(budget), options, warm_start, display_of(arguments));
  schedule.graph_sha256 = loaded.sha256;
  if (exit_code(schedule) == kSuccess) {
    const Verdict verdict = verify(*loaded.graph, schedule);
    ensure(verdict.valid(), "solve: the schedule found does not verify");
  }
  json::write_file(output, [&](std::ostream& out) { json::write_schedule(out, schedule, *loaded.graph); });
  if (!quiet) print_summary(std::cerr, *loaded.graph, schedule);
  return exit_code(schedule);
}

}  // namespace remora::cli
