// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/task_solver.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "engine/baselines/method.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/formats/schedule_json.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace {

/// Reads the graph. Throws InputError unless it has this digest: it could be another than the one asked for by now.
LoadedGraph load_asked(const batch::Task& task, const Arguments& arguments, const std::string& sha256, bool quiet) {
  LoadedGraph loaded = load_graph(task.graph, arguments, quiet);
  if (loaded.sha256 != sha256) throw InputError(task.graph, "has changed meanwhile: its sha256 is " + loaded.sha256);
  return loaded;
}

/// What an interrupted run used is no more there. A limit of 0 would be none for work, and is one for time.
void subtract(const batch::Begun& begun, SolveOptions& options) {
  if (options.time_limit < kNoTimeLimit) options.time_limit = std::max(0.0, options.time_limit - begun.seconds);
  if (options.work_limit > 0) options.work_limit = std::max<std::int64_t>(1, options.work_limit - begun.work);
}

/// An earlier run of the same question proved its bound for this one, too.
void take_bound(Duration bound, Schedule& schedule) {
  schedule.lower_bound = std::max(schedule.lower_bound, bound);
  if (!schedule.has_schedule()) return;
  ensure(schedule.lower_bound <= schedule.duration, "batch: an interrupted run's bound is above a schedule");
  if (schedule.lower_bound == schedule.duration) schedule.status = Status::optimal;
}

bool has_ended(const Schedule& schedule, const SolveOptions& options) {
  // A method's schedule is all that it has to say.
  if (!is_search(options.strategy) && schedule.has_schedule()) return true;
  return schedule.status == Status::optimal || schedule.status == Status::infeasible ||
         schedule.solver.seconds >= options.time_limit ||
         (options.work_limit > 0 && schedule.solver.work >= options.work_limit);
}

std::string schedule_text(const Schedule& schedule, const Graph& graph) {
  std::ostringstream out;
  json::write_schedule(out, schedule, graph);
  std::string text = std::move(out).str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void check_schedule(const Graph& graph, const Schedule& schedule) {
  if (schedule.has_schedule()) ensure(verify(graph, schedule).valid(), "batch: the schedule found does not verify");
}

/// A process that is killed loses no more seconds of work than about so many.
constexpr double kSecondsBetweenKept = 10;

}  // namespace

batch::Settings TaskSolver::settings(const batch::Task& task) {
  return task_settings(task);
}

std::optional<batch::Answer> TaskSolver::solve(const batch::Request& request) {
  const Arguments arguments = task_arguments(request.task);
  SolveOptions options = read_solve_options(arguments);
  const LoadedGraph loaded = load_asked(request.task, arguments, request.graph_sha256, quiet_);
  const Graph& graph = *loaded.graph;
  ProblemRequest problem = read_problem(arguments, options.strategy);

  Sequence warm_start = read_warm_start(arguments, graph);
  Duration bound;
  // A method has nothing to go on from; only all of its time is of use to it.
  const bool goes_on = request.begun.has_value() && is_search(options.strategy);
  if (goes_on) {
    const Schedule former = json::read_schedule(json::Text(request.begun->schedule), graph);
    if (former.has_schedule()) warm_start = ops_of(former);
    bound = former.lower_bound;
    // Another look might choose another order, of which the bound says nothing.
    problem.order = former.order == OrderMode::free ? OrderRequest::free : OrderRequest::input;
    subtract(*request.begun, options);
  }
  const StatedProblem stated = state_problem(loaded.graph, problem, request.task.budget, options, cancel_);
  if (cancel_ != nullptr && cancel_->load()) return std::nullopt;

  const auto complete = [&](Schedule& schedule) {
    stated.choice.explain(schedule);
    schedule.graph_sha256 = loaded.sha256;
    schedule.reading = reading_of(arguments);
    take_bound(bound, schedule);
    check_schedule(graph, schedule);
  };
  std::optional<Schedule> best;
  double kept = 0;
  SolveCallbacks callbacks{.progress = progress_, .cancel = cancel_, .blocks = blocks_};
  if (request.keep && is_search(options.strategy)) {
    callbacks.incumbent = [&](const Schedule& schedule) { best = schedule; };
    callbacks.heartbeat = [&](const Progress& progress) {
      if (!best || progress.seconds < kept + kSecondsBetweenKept) return;
      complete(*best);
      request.keep({.schedule = schedule_text(*best, graph),
                    .seconds = progress.seconds,
                    .work = progress.work,
                    .threads = best->solver.threads});
      kept = progress.seconds;
      best.reset();
    };
  }
  Schedule schedule = remora::solve(stated.instance, options, callbacks, warm_start);
  complete(schedule);
  const bool interrupted = cancel_ != nullptr && cancel_->load() && !has_ended(schedule, options);
  return batch::Answer{.status = interrupted ? batch::kInterrupted : json::status_word(schedule.status),
                       .schedule = schedule_text(schedule, graph),
                       .seconds = schedule.solver.seconds,
                       .work = schedule.solver.work,
                       .threads = schedule.solver.threads};
}

namespace {

/// What the schedule is of, against what was asked; empty if they agree.
std::string compare_problems(const batch::Task& task, const batch::Record& record, const Schedule& schedule,
                             const std::shared_ptr<const Graph>& graph) {
  const Arguments arguments = task_arguments(task);
  const ProblemRequest problem = read_problem(arguments, read_solve_options(arguments).strategy);
  const Bytes budget = read_budget(record.question.budget, graph->fixed_memory, baseline_peak(Instance(graph, {})));
  if (schedule.budget != budget) return "its schedule is of another budget";
  if (!is_asked(problem, schedule)) {
    return "its schedule is of another problem: order, or computes an op";
  }
  if (schedule.graph_sha256 != record.question.graph_sha256) return "its schedule is of another graph";
  return "";
}

}  // namespace

std::string verify_record(const batch::Task& task, const batch::Record& record) {
  LoadedGraph loaded;
  try {
    loaded = load_asked(task, task_arguments(task), record.question.graph_sha256, true);
  } catch (const InputError& error) {
    // The result may be as good as ever.
    std::cerr << "remora: warning: " << printable(task.id) << ": not verified: " << error.what() << "\n";
    return "";
  }
  const Schedule schedule = json::read_schedule(json::Text(record.schedule), *loaded.graph);
  if (record.status != batch::kInterrupted && record.status != json::status_word(schedule.status)) {
    return "states another status";
  }
  std::string difference = compare_problems(task, record, schedule, loaded.graph);
  if (!difference.empty() || !schedule.has_schedule()) return difference;
  const Verdict verdict = verify(*loaded.graph, schedule);
  return verdict.valid() ? "" : "does not verify: " + verdict.errors.front();
}

}  // namespace remora::cli
