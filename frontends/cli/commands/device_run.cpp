// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "engine/devices/device_solve.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/device_json.hpp"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;

namespace {

constexpr std::array<std::string_view, 3> kOwn = {"objective", "duration-limit", "energy-limit"};
constexpr std::array<std::string_view, 10> kShared = {"files", "budget",     "max-computes", "order",  "time-limit",
                                                      "seed",  "work-limit", "threads",      "output", "quiet"};

template <std::size_t count>
bool is_among(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_others(const Arguments& arguments) {
  for (const auto& [name, value] : arguments.values()) {
    if (value.defaulted() || is_among(name, kShared) || is_among(name, kOwn)) continue;
    throw UsageError("--" + name + ": not for graphs with devices");
  }
}

DeviceProblem read_device_problem(const Arguments& arguments, const DeviceGraph& graph) {
  const ProblemRequest request = read_problem(arguments, SolveOptions{}.strategy);
  if (request.order == OrderRequest::automatic) throw UsageError("--order auto: not for graphs with devices");
  refuse_more_computes(request, "graphs with devices");
  DeviceProblem problem{.budget = read_device_budgets(arguments.get<std::string>("budget"), graph),
                        .max_computes = request.max_computes,
                        .order = request.order == OrderRequest::free ? OrderMode::free : OrderMode::input};
  constexpr std::array<std::pair<const char*, Objective>, 2> kObjectives{
      {{"duration", Objective::duration}, {"energy", Objective::energy}}};
  if (arguments.has("objective")) {
    problem.objective = choose("objective", arguments.get<std::string>("objective"), kObjectives);
  }
  const auto limit = [&](const char* name) {
    const auto amount = arguments.get<std::int64_t>(name);
    if (amount < 0) throw UsageError(std::string("--") + name + ": must not be negative");
    return amount;
  };
  if (arguments.has("duration-limit")) problem.duration_limit = Duration(limit("duration-limit"));
  if (arguments.has("energy-limit")) problem.energy_limit = Energy(limit("energy-limit"));
  return problem;
}

}  // namespace

OptionGroup device_options() {
  OptionGroup group("Graphs with devices");
  group.add_options()("objective", po::value<std::string>()->value_name("WHAT"),
                      "what to minimise: duration (default) or energy")(
      "duration-limit", po::value<std::int64_t>()->value_name("T"), "upper limit on the duration")(
      "energy-limit", po::value<std::int64_t>()->value_name("E"), "upper limit on the energy");
  return group;
}

void refuse_device_options(const Arguments& arguments) {
  for (const std::string_view name : kOwn) {
    if (arguments.has(std::string(name))) throw UsageError("--" + std::string(name) + ": only for graphs with devices");
  }
}

int solve_devices(const Arguments& arguments, const LoadedDeviceGraph& loaded) {
  refuse_others(arguments);
  const DeviceGraph& graph = loaded.graph;
  const DeviceProblem problem = read_device_problem(arguments, graph);
  const SolveOptions shared = read_solve_options(arguments);
  SignalGuard signals;
  signals.heed_memory();
  DeviceSchedule schedule = solve(graph, problem,
                                  {.time_limit = shared.time_limit,
                                   .work_limit = shared.work_limit,
                                   .seed = static_cast<std::uint64_t>(shared.seed),
                                   .threads = shared.threads,
                                   .cancel = &signals.flag()});
  schedule.graph_sha256 = loaded.sha256;
  if (schedule.has_schedule()) ensure(verify(graph, schedule).valid(), "solve: the schedule found does not verify");
  arguments.files().write(arguments.output("output"),
                          [&](std::ostream& out) { json::write_device_schedule(out, schedule, graph); });
  if (!arguments.has("quiet")) {
    print_device_summary(std::cerr, graph, schedule);
    std::cerr << "search      " << schedule.solver.seconds << " s, " << schedule.solver.work << " plans and nodes\n";
  }
  return solve_exit_code(schedule.status);
}

}  // namespace remora::cli
