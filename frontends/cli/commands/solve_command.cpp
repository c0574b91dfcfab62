// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/exit_code.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/schedule_json.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup solve_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file("-"), "where the schedule goes, - for standard output");
  add_display_options(group);
  return group;
}

}  // namespace

int solve_command(const Words& words) {
  Arguments arguments("solve", "Schedules GRAPH under a memory budget: which ops run again, what is released when.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {problem_options(true), search_options(), graph_options(), solve_output()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best schedule so far; a second one kills.\n"
      "Exit: 0 a schedule was written, 20 proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  const bool quiet = arguments.has("quiet");
  const SolveOptions options = read_solve_options(arguments);
  const ProblemRequest problem = read_problem(arguments, options.strategy);
  const std::string& output = arguments.output("output");
  json::check_writable(output);
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, quiet);
  const Schedule schedule = solve_as_asked(arguments, loaded, options, problem);
  arguments.files().write(output, [&](std::ostream& out) { json::write_schedule(out, schedule, *loaded.graph); });
  if (!quiet) print_summary(std::cerr, *loaded.graph, schedule);
  return solve_exit_code(schedule);
}

}  // namespace remora::cli
