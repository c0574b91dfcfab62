// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/read_answer.hpp"

#include <cmath>
#include <filesystem>

#include "frontends/formats/file.hpp"
#include "frontends/formats/schedule_json.hpp"
#include "model/error.hpp"
#include "model/verify.hpp"

namespace remora::bench {
namespace {

// The exit codes of `remora solve`, which peers share.
constexpr int kScheduleWritten = 0;
constexpr int kProvedInfeasible = 20;
constexpr int kNoneFound = 21;

std::optional<Schedule> fail(Result& result, const std::string& why) {
  result.status = "failed";
  result.note = why;
  return std::nullopt;
}

std::string how_it_ended(const ProcessOutcome& outcome) {
  std::string text = outcome.late ? "did not end in time" : "ended with " + std::to_string(outcome.code);
  if (!outcome.last_error.empty()) text += ": " + outcome.last_error;
  return text;
}

/// Why the figures that the contender states cannot be; empty if they can.
std::string wrong_figures(const Schedule& schedule, const Result& result) {
  if (schedule.budget.count() != result.budget_bytes) return "solved for another budget";
  if (schedule.baseline_duration.count() != result.baseline_duration) return "states another baseline duration";
  if (!std::isfinite(schedule.solver.seconds)) return "states seconds that are no number";
  if (!schedule.has_schedule()) return "";
  if (schedule.lower_bound > schedule.duration) return "states a bound above its schedule";
  const bool is_optimal = schedule.status == Status::optimal;
  return is_optimal && schedule.lower_bound != schedule.duration ? "calls optimal what its bound is below" : "";
}

void take_figures(const Schedule& schedule, Result& result) {
  result.order = schedule.order == OrderMode::input ? "input" : "free";
  result.max_computes = schedule.solver.max_computes;
  result.lower_bound = schedule.lower_bound.count();
  result.version = schedule.solver.version;
  result.note = schedule.solver.note;
  result.statistics = schedule.solver.statistics;
  result.reached = schedule.solver.seconds;
}

void take_schedule(const Schedule& schedule, Result& result) {
  result.status = schedule.status == Status::optimal ? "optimal" : "feasible";
  result.duration = schedule.duration.count();
  result.peak_memory = schedule.peak_memory.count();
  for (const Incumbent& incumbent : schedule.solver.history) {
    if (incumbent.peak > schedule.budget || !std::isfinite(incumbent.seconds)) continue;
    result.history.emplace_back(incumbent.seconds, incumbent.duration.count());
    result.reached = incumbent.seconds;
  }
}

}  // namespace

std::optional<Schedule> read_answer(const ProcessOutcome& outcome, const std::string& path, const Graph& graph,
                                    Result& result) {
  const bool answered =
      outcome.code == kScheduleWritten || outcome.code == kProvedInfeasible || outcome.code == kNoneFound;
  if (!answered || outcome.late || !std::filesystem::exists(path)) return fail(result, how_it_ended(outcome));
  Schedule schedule;
  try {
    schedule = json::read_schedule(json::Text(json::read_file(path)), graph);
  } catch (const InputError& error) {
    return fail(result, std::string("wrote no schedule: ") + error.what());
  }
  const std::string wrong = wrong_figures(schedule, result);
  if (!wrong.empty()) return fail(result, wrong);
  if (outcome.code != kScheduleWritten) {
    take_figures(schedule, result);
    result.status = outcome.code == kProvedInfeasible ? "infeasible" : "unknown";
    return std::nullopt;
  }
  const Verdict verdict = verify(graph, schedule);
  if (!verdict.valid()) return fail(result, "does not verify: " + verdict.errors.front());
  take_figures(schedule, result);
  take_schedule(schedule, result);
  return schedule;
}

std::optional<BestKnown> best_known_of(const SuiteInstance& instance, const Schedule& schedule,
                                       const std::shared_ptr<const Graph>& graph, const Result& result) {
  if (schedule.order != OrderMode::input || schedule.solver.max_computes < 1) return std::nullopt;
  const Instance problem(graph, {.budget = schedule.budget, .max_computes = schedule.solver.max_computes});
  std::vector<OpId> sequence;
  sequence.reserve(schedule.steps.size());
  for (const Step& step : schedule.steps) sequence.push_back(step.op);
  return BestKnown{.instance = instance,
                   .graph_sha256 = result.graph_sha256,
                   .budget = result.key.budget,
                   .budget_bytes = result.budget_bytes,
                   .max_computes = schedule.solver.max_computes,
                   .baseline_duration = result.baseline_duration,
                   .duration = result.duration,
                   .lower_bound = result.lower_bound,
                   .who = result.key.contender + " (" + result.version + ")",
                   .when = result.when.substr(0, result.when.find('T')),
                   .plan = plan_of(problem, sequence)};
}

}  // namespace remora::bench
