// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/task_solver.hpp"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

#include "engine/ask/ask.hpp"
#include "engine/baselines/method.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace {

/// Reads the file. Throws InputError unless it has this digest: it could be another than the one asked for by now.
FileText read_asked(const batch::Task& task, const std::string& sha256) {
  FileText file = read_once(task.graph);
  const std::string digest = text::sha256_hex(file.content);
  if (digest != sha256) throw InputError(task.graph, "has changed meanwhile: its sha256 is " + digest);
  return file;
}

/// Subtracts the use of an interrupted run. A limit of 0 would mean none for work, but is a limit for time.
template <class Options>
void subtract(const batch::Begun& begun, Options& options) {
  if (options.time_limit < kNoTimeLimit) options.time_limit = std::max(0.0, options.time_limit - begun.seconds);
  if (options.work_limit > 0) options.work_limit = std::max<std::int64_t>(1, options.work_limit - begun.work);
}

/// An earlier run of the same question proved its bound for this one, too, unless more computes an op are allowed now. A bound for any
/// number stays one.
void take_bound(const Schedule& former, Schedule& schedule) {
  SolverReport& solver = schedule.solver;
  const bool is_as_wide = !solver.bound_for_any_number && solver.max_computes <= former.solver.max_computes;
  if (!is_as_wide && !former.solver.bound_for_any_number) return;
  schedule.lower_bound = std::max(schedule.lower_bound, former.lower_bound);
  if (!schedule.has_schedule()) return;
  ensure(schedule.lower_bound <= schedule.duration, "batch: an interrupted run's bound is above a schedule");
  if (schedule.lower_bound < schedule.duration) return;
  schedule.status = Status::optimal;
  if (solver.bound_for_any_number) solver.optimal_for_max_computes = kAnyNumber;
}

/// Nothing is left to search, or to search with.
template <class Found, class Options>
bool has_ended(const Found& schedule, const Options& options) {
  return schedule.status == Status::optimal || schedule.status == Status::infeasible ||
         schedule.solver.seconds >= options.time_limit ||
         (options.work_limit > 0 && schedule.solver.work >= options.work_limit);
}

std::string without_line_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// For a graph over one device or several.
template <class AnySchedule, class AnyGraph>
std::string schedule_text(const AnySchedule& schedule, const AnyGraph& graph) {
  std::ostringstream out;
  json::write_schedule(out, schedule, graph);
  return without_line_end(std::move(out).str());
}

template <class AnySchedule, class AnyGraph>
batch::Answer answer_of(const AnySchedule& schedule, const AnyGraph& graph, bool interrupted, int threads) {
  return {.status = interrupted ? batch::kInterrupted : json::status_word(schedule.status),
          .schedule = schedule_text(schedule, graph),
          .seconds = schedule.solver.seconds,
          .work = schedule.solver.work,
          .threads = threads};
}

/// A process that is killed loses no more seconds of work than about so many.
constexpr double kSecondsBetweenKept = 10;

}  // namespace

batch::Settings TaskSolver::settings(const batch::Task& task) {
  return task_settings(task);
}

std::optional<batch::Answer> TaskSolver::solve(const batch::Request& request) {
  const Arguments arguments = task_arguments(request.task);
  Request asked = read_request(arguments);
  const FileText file = read_asked(request.task, request.graph_sha256);
  if (const auto devices = load_device_graph(file, arguments)) return solve(request, *devices, arguments);
  refuse_device_options(arguments);
  const LoadedGraph loaded = load_graph(file, arguments, quiet_);
  const Graph& graph = *loaded.graph;
  asked.graph = loaded.graph;
  asked.slices.run = loaded.slice_run;
  asked.warm_start = read_warm_start(arguments, graph);
  asked.budget = budget_asked(request.task.budget, asked);
  std::optional<Schedule> former;
  // A method has nothing to go on from; only all of its time is of use to it.
  const bool searches = is_search(asked.options.strategy);
  const bool may_slice = asked.slices.is_allowed;
  if (request.begun && searches && may_slice) {
    // Its slices might be others now: the search begins anew, in what time is left.
    subtract(*request.begun, asked.options);
  } else if (request.begun && searches) {
    former = json::read_schedule(json::Text(request.begun->schedule), graph);
    if (former->has_schedule()) asked.warm_start = computes_of(*former);
    // Another look might choose another order, of which the bound says nothing.
    asked.order = former->order == OrderMode::free ? OrderRequest::free : OrderRequest::input;
    subtract(*request.begun, asked.options);
  }
  if (cancel_ != nullptr && cancel_->load()) return std::nullopt;

  const auto complete = [&](Schedule& schedule) {
    schedule.graph_sha256 = loaded.sha256;
    schedule.reading = reading_of(arguments);
    if (former) take_bound(*former, schedule);
  };
  std::optional<Schedule> best;
  double kept = 0;
  SolveCallbacks callbacks{.progress = progress_, .cancel = cancel_, .blocks = blocks_};
  if (request.keep && searches && !may_slice) {
    callbacks.incumbent = [&](const Schedule& schedule) { best = schedule; };
    callbacks.heartbeat = [&](const Progress& progress) {
      if (!best || progress.seconds < kept + kSecondsBetweenKept) return;
      complete(*best);
      if (best->has_schedule()) ensure(verify(graph, *best).valid(), "batch: the schedule found does not verify");
      request.keep({.schedule = schedule_text(*best, graph),
                    .seconds = progress.seconds,
                    .work = progress.work,
                    .threads = best->solver.threads});
      kept = progress.seconds;
      best.reset();
    };
  }
  const Answer answer = remora::solve(asked, callbacks);
  Schedule schedule = answer.schedule;
  complete(schedule);
  // A method's schedule is all that it has to say.
  const bool is_said = !searches && schedule.has_schedule();
  const bool interrupted = cancel_ != nullptr && cancel_->load() && !is_said && !has_ended(schedule, asked.options);
  return answer_of(schedule, answer.sliced ? *answer.sliced : graph, interrupted, schedule.solver.threads);
}

std::optional<batch::Answer> TaskSolver::solve(const batch::Request& request, const LoadedDeviceGraph& loaded,
                                               const Arguments& arguments) {
  const DeviceGraph& graph = *loaded.graph;
  // How fast, not what: it may be there for other tasks.
  devices::Request asked = read_device_request(arguments, loaded.graph, {"threads"});
  asked.budget = read_device_budgets(request.task.budget, graph);
  std::int64_t bound = 0;
  int computes = 0;
  if (request.begun) {
    const DeviceSchedule former = json::read_schedule(json::Text(request.begun->schedule), graph);
    if (former.has_schedule()) asked.warm_start = former.steps;
    bound = former.lower_bound;
    computes = former.solver.max_computes;
    subtract(*request.begun, asked.options);
  }
  if (cancel_ != nullptr && cancel_->load()) return std::nullopt;
  DeviceSchedule schedule = devices::solve(asked, {.cancel = cancel_}).schedule;
  schedule.graph_sha256 = loaded.sha256;
  // A bound for more runs per op holds for fewer, too.
  if (schedule.solver.max_computes <= computes) schedule.lower_bound = std::max(schedule.lower_bound, bound);
  if (schedule.has_schedule() && schedule.cost() <= schedule.lower_bound) schedule.status = Status::optimal;
  const bool interrupted = cancel_ != nullptr && cancel_->load() && !has_ended(schedule, asked.options);
  return answer_of(schedule, graph, interrupted, 1);
}

namespace {

/// The difference between the schedule's problem and the task's; empty if they agree.
std::string compare_problems(const batch::Task& task, const batch::Record& record, const DeviceSchedule& schedule,
                             const LoadedDeviceGraph& loaded) {
  const devices::Request asked = read_device_request(task_arguments(task), loaded.graph, {"threads"});
  const int computes = schedule.solver.max_computes;
  if (schedule.budget != read_device_budgets(record.question.budget, *loaded.graph))
    return "its schedule is of another budget";
  if (schedule.objective != asked.objective || schedule.duration_limit != asked.duration_limit ||
      schedule.energy_limit != asked.energy_limit || schedule.order != asked.order ||
      schedule.copies != devices::copies_asked(asked) ||
      (asked.max_computes ? computes != *asked.max_computes : computes < Problem().max_computes)) {
    return "its schedule is of another problem: objective, copies, limits, order, or runs per op";
  }
  return "";
}

std::string compare_problems(const batch::Task& task, const batch::Record& record, const Schedule& schedule,
                             const LoadedGraph& loaded) {
  Request asked = read_request(task_arguments(task));
  asked.graph = loaded.graph;
  if (schedule.budget != budget_asked(record.question.budget, asked)) return "its schedule is of another budget";
  return is_asked(asked, schedule) ? "" : "its schedule is of another problem: order, or runs per op";
}

/// The fault of the record; empty if it has none. For a graph over one device or several.
template <class AnyLoaded, class AnyGraph>
std::string verify_on(const batch::Task& task, const batch::Record& record, const AnyLoaded& loaded,
                      const AnyGraph& graph) {
  const auto schedule = json::read_schedule(json::Text(record.schedule), graph);
  if (record.status != batch::kInterrupted && record.status != json::status_word(schedule.status)) {
    return "states another status";
  }
  std::string difference = compare_problems(task, record, schedule, loaded);
  if (!difference.empty()) return difference;
  if (schedule.graph_sha256 != record.question.graph_sha256) return "its schedule is of another graph";
  if (!schedule.has_schedule()) return "";
  const auto verdict = verify(graph, schedule);
  return verdict.valid() ? "" : "does not verify: " + verdict.errors.front();
}

}  // namespace

std::string verify_record(const batch::Task& task, const batch::Record& record) {
  LoadedGraph loaded;
  std::optional<LoadedDeviceGraph> devices;
  try {
    const Arguments arguments = task_arguments(task);
    const FileText file = read_asked(task, record.question.graph_sha256);
    devices = load_device_graph(file, arguments);
    if (!devices) loaded = load_graph(file, arguments, true);
  } catch (const InputError& error) {
    // The result may be as good as ever.
    std::cerr << "remora: warning: " << printable(task.id) << ": not verified: " << error.what() << "\n";
    return "";
  }
  if (devices) return verify_on(task, record, *devices, *devices->graph);
  return verify_on(task, record, loaded, *scheduled_graph({task.graph, record.schedule}, loaded).graph);
}

}  // namespace remora::cli
