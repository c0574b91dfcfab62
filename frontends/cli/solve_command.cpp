// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "engine/bound/cover_mip.hpp"
#include "engine/options.hpp"
#include "engine/solve.hpp"
#include "engine/strategies/method.hpp"
#include "frontends/cli/amounts.hpp"
#include "frontends/cli/arguments.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/exit_code.hpp"
#include "frontends/cli/graph_source.hpp"
#include "frontends/cli/progress_bar.hpp"
#include "frontends/cli/progress_table.hpp"
#include "frontends/cli/schedule_source.hpp"
#include "frontends/cli/signals.hpp"
#include "frontends/cli/summary.hpp"
#include "frontends/cli/table_options.hpp"
#include "frontends/json/file.hpp"
#include "frontends/json/schedule_json.hpp"
#include "model/ensure.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup problem_options() {
  OptionGroup group("The problem");
  group.add_options()(
      "budget,b", po::value<std::string>()->required()->value_name("B"),
      "memory budget: bytes (12GiB, 1500MB, 123456; fixed memory included) or a percentage of the input "
      "order's no-recompute peak above fixed memory (80%)")(
      "max-computes", po::value<int>()->value_name("C"),
      "how often an op may run, the first time included (default 2; 64 for rotor and twremat)")(
      "order", po::value<std::string>()->value_name("MODE"),
      "input: first computes follow the file's order (default); free: any order, for the methods that do not search "
      "(default for twremat)");
  return group;
}

OptionGroup output_options() {
  OptionGroup group("Output");
  group.add_options()("output,o", po::value<std::string>()->default_value("-")->value_name("FILE"),
                      "where the schedule goes, - for standard output")(
      "progress", "on a terminal one line that is written anew, in place of the progress table")(
      "quiet,q", "no progress table, no summary, no warnings");
  return group;
}

OptionGroup search_options() {
  OptionGroup group("The search");
  group.add_options()(
      "strategy", po::value<std::string>()->default_value("auto")->value_name("NAME"),
      "auto: all workers, each as it pays; cp: the constraint program's, complete search and neighbourhoods; "
      "local: ruin and annealing; or one kind alone: complete, lns, ruin, anneal; hierarchical: groups of the graph "
      "solved for several budgets and composed, then as auto, which does so itself where it pays. The literature's "
      "methods: "
      "none, the order as it is; greedy, XLA's heuristic; sqrt, checkpoints at segments' ends, and rotor, the dynamic "
      "program for chains, both for training graphs; twremat, tree decomposition; checkmate, the mixed integer program "
      "by CBC; checkmate-lp, its relaxation, rounded")("warm-start", po::value<std::string>()->value_name("FILE"),
                                                       "start from this schedule of the graph, of any budget");
  add_grouping(group);
  add_table_options(group, option_rows());
  return group;
}

SolveOptions read_options(const Arguments& arguments) {
  SolveOptions options;
  try {
    options.strategy = strategy_from_name(arguments.get<std::string>("strategy"));
    options.grouping = grouping_of(arguments);
    set_table_options(arguments, option_rows(), options);
    // A work limit is there for reproducibility, which the default time limit would spoil on a slow machine.
    if (arguments.has("work-limit") && !arguments.has("time-limit")) options.time_limit = kNoTimeLimit;
    check_options(options);
    // What a user asks for in vain must not pass in silence.
    const bool counts_work = is_search(options.strategy) || options.strategy == Strategy::checkmate;
    const std::string name = strategy_name(options.strategy);
    if (!counts_work && arguments.has("work-limit")) throw UsageError("--work-limit: " + name + " has none");
    if (!is_search(options.strategy) && arguments.has("warm-start")) {
      throw UsageError("--warm-start: " + name + " does not start from a schedule");
    }
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return options;
}

/// The strategy's usual problem, or what the user says.
InstanceOptions read_problem(const Arguments& arguments, Strategy strategy) {
  InstanceOptions problem = default_problem(strategy);
  if (arguments.has("max-computes")) problem.max_computes = arguments.get<int>("max-computes");
  if (problem.max_computes < 1) throw UsageError("--max-computes: must be at least 1");
  if (!arguments.has("order")) return problem;
  const std::string& order = arguments.get<std::string>("order");
  if (order != "input" && order != "free") throw UsageError("--order: '" + order + "' is none of input, free");
  problem.order = order == "free" ? OrderMode::free : OrderMode::input;
  if (problem.order == OrderMode::free && is_search(strategy)) {
    throw UsageError("--order: free is not available for strategies that search, only input is");
  }
  return problem;
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

/// The sequence of the schedule that --warm-start names; empty without the option.
std::vector<OpId> read_warm_start(const Arguments& arguments, const Graph& graph) {
  std::vector<OpId> sequence;
  if (!arguments.has("warm-start")) return sequence;
  const std::string& path = arguments.get<std::string>("warm-start");
  for (const Step& step : load_schedule(path, graph).steps) sequence.push_back(step.op);
  if (sequence.empty()) throw InputError(path, "holds no schedule to start from");
  return sequence;
}

/// How a solve shows what it does.
enum class Display { none, table, bar };

Display display_of(const Arguments& arguments) {
  if (arguments.has("quiet")) return Display::none;
  return arguments.has("progress") && isatty(STDERR_FILENO) == 1 ? Display::bar : Display::table;
}

Schedule run(const Instance& instance, const SolveOptions& options, std::span<const OpId> warm_start, Display display) {
  if (display != Display::none && options.covering_bound && options.covering_mip && !cover_mip_available()) {
    std::cerr << "remora: built without COIN-OR CBC: the lower bound is weaker\n";
  }
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
  for (const OptionGroup& group : {problem_options(), search_options(), graph_options(), output_options()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best schedule so far; a second one kills.\n"
      "Exit: 0 a schedule was written, 20 proved infeasible, 21 none found within the limits.");
  if (!arguments.parse(words)) return kSuccess;
  const bool quiet = arguments.has("quiet");
  const SolveOptions options = read_options(arguments);
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
