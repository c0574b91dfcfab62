// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/ask.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/devices/reporter.hpp"
#include "engine/devices/solve.hpp"
#include "model/error.hpp"

namespace remora::devices {
namespace {

/// Throws InputError.
Problem problem_of(const Request& request) {
  if (!request.graph) throw InputError("graph", "there is none");
  check_options(request.options);
  Problem problem{.budget = request.budget,
                  .objective = request.objective,
                  .copies = copies_asked(request),
                  .duration_limit = request.duration_limit,
                  .energy_limit = request.energy_limit,
                  .max_computes = request.max_computes.value_or(Problem().max_computes),
                  .order = request.order};
  if (problem.budget.empty()) problem.budget.assign(request.graph->devices.size(), std::nullopt);
  return problem;
}

Options options_of(const Request& request, const std::atomic<bool>* cancel) {
  return {.time_limit = request.options.time_limit,
          .work_limit = request.options.work_limit,
          .seed = static_cast<std::uint64_t>(request.options.seed),
          .threads = request.options.threads,
          .cancel = cancel,
          .start = request.warm_start};
}

/// The reason of a limit is said in no schedule.
Stop stop_of(const Request& request, const SolverReport& report) {
  if (Work(report.work) >= work_limit(request.options.work_limit)) return Stop::work;
  return report.seconds >= request.options.time_limit ? Stop::time : Stop::unknown;
}

void check_answer(const DeviceGraph& graph, const DeviceSchedule& schedule) {
  ensure(!schedule.has_schedule() || verify(graph, schedule).valid(), "devices: a schedule found does not verify");
}

}  // namespace

CopyMode copies_asked(const Request& request) {
  const CopyMode usual = has_lanes(*request.graph) ? CopyMode::overlap : CopyMode::sequential;
  return request.copies.value_or(usual);
}

Answer solve(const Request& request, const Callbacks& callbacks) {
  const Problem problem = problem_of(request);
  const DeviceGraph& graph = *request.graph;
  Options options = options_of(request, callbacks.cancel);
  Reporter reporter(graph, callbacks);
  if (reporter.listens()) options.reporter = &reporter;
  Answer answer =
      request.max_computes ? solve(graph, problem, options) : solve_with_more_computes(graph, problem, options);
  const SolverReport& report = answer.schedule.solver;
  check_answer(graph, answer.schedule);
  answer.order.mode = request.order;
  if (answer.schedule.has_schedule()) return answer;
  Refusal& refusal = answer.refusal;
  if (refusal.cause == Refusal::Cause::none) refusal.cause = Refusal::Cause::limits;
  refusal.max_computes = report.max_computes;
  advise({.order = request.order,
          .limits_computes = request.max_computes && *request.max_computes < kComputesWithin64Bits,
          .stop = stop_of(request, report),
          .has_devices = true},
         refusal);
  if (std::ranges::none_of(problem.budget, [](const auto& budget) { return budget.has_value(); }))
    std::erase(refusal.help, Refusal::Help::larger_budget);
  return answer;
}

Curve baseline(const Request& request, DeviceId device) {
  const Problem problem = problem_of(request);
  const DeviceGraph& graph = *request.graph;
  if (!device.valid() || device.index() >= graph.devices.size())
    throw InputError("device", "the graph has no such device");
  const DeviceSchedule known = baseline(graph, problem, past_limit(options_of(request, nullptr)));
  return {.graph = graph.graph.name,
          .device = graph.devices[device].name,
          .fixed_memory = graph.devices[device].fixed_memory,
          .baseline_duration = known.baseline_duration,
          .baseline_peak_memory = known.baseline_peak_memory[device]};
}

SweepResult sweep(const Request& request, DeviceId device, std::vector<Bytes> budgets,
                  const SweepCallbacks& callbacks) {
  const Problem problem = problem_of(request);
  SweepResult result = sweep(*request.graph, problem, device, std::move(budgets), options_of(request, callbacks.cancel),
                             callbacks.progress);
  for (const DeviceSchedule& schedule : result.schedules) check_answer(*request.graph, schedule);
  return result;
}

}  // namespace remora::devices
