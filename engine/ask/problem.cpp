// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/free/free_search.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Ends a search that finds nothing better any more, or that the caller has enough of, and knows why.
class StoppingCriterion {
 public:
  StoppingCriterion(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks)
      : budget_(instance.budget()), stall_(options.stall), caller_stops_(callbacks.enough) {}

  [[nodiscard]] bool is_over(const Progress& now) {
    if (caller_stops_ && caller_stops_(now)) stop_ = Stop::callback;
    if (now.peak > budget_ || now.duration < best_) {
      best_ = now.peak > budget_ ? best_ : now.duration;
      since_ = now.seconds;
    }
    if (stall_ > 0 && now.seconds >= since_ + stall_) stop_ = Stop::stall;
    return stop_ != Stop::unknown;
  }
  [[nodiscard]] Stop stop() const { return stop_; }

 private:
  Bytes budget_;
  double stall_;
  const std::function<bool(const Progress&)>& caller_stops_;
  Duration best_ = Duration::max();
  double since_ = 0;
  Stop stop_ = Stop::unknown;
};

/// Why a search ended that had all of this.
Stop stop_of(const Schedule& schedule, const SolveOptions& options, const Deadline& deadline,
             const StoppingCriterion& criterion) {
  if (schedule.status == Status::infeasible) return Stop::infeasible;
  if (schedule.status == Status::optimal) return Stop::optimum;
  if (schedule.has_schedule() && schedule.gap() <= options.gap) return Stop::gap;
  if (criterion.stop() != Stop::unknown) return criterion.stop();
  if (deadline.cancelled()) return Stop::cancelled;
  if (deadline.reached()) return Stop::time;
  if (Work(schedule.solver.work) >= work_limit(options.work_limit)) return Stop::work;
  return Stop::exhausted;
}

/// Gives the caller's functions what the search tells.
SearchListener listener_of(const SolveCallbacks& callbacks, StoppingCriterion& criterion, const Search& search) {
  SearchListener listener{.enough = [&criterion](const Progress& now) { return criterion.is_over(now); }};
  if (!callbacks.incumbent && !callbacks.progress && !callbacks.heartbeat) return listener;
  listener.progress = [&callbacks, &search](const Progress& progress) {
    const bool is_new = progress.event == Event::start || progress.event == Event::schedule;
    if (is_new && callbacks.incumbent && search.holds_budget()) callbacks.incumbent(search.answer());
    const auto& callback = progress.event == Event::round ? callbacks.heartbeat : callbacks.progress;
    if (callback) callback(progress);
  };
  return listener;
}

/// Along the input order.
Schedule search_once(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                     StoppingCriterion& criterion, const Deadline& deadline, std::span<const Compute> warm_start,
                     Prover::Step proof) {
  SearchParts parts = whole_search(instance, options, callbacks.blocks, !warm_start.empty());
  parts.proof = std::move(proof);
  Search search(instance, options, std::move(parts), warm_start);
  search.listen(listener_of(callbacks, criterion, search));
  search.run_session({deadline, work_limit(options.work_limit)});
  if (wants_groups(instance, options)) {
    search.report().statistics.push_back({"polish", search.seconds_in_phases(), Statistic::Unit::seconds});
  }
  return search.answer();
}

/// Both the order and recomputes, in turns.
Schedule search_any_order(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                          StoppingCriterion& criterion, const Deadline& deadline, std::span<const Compute> warm_start) {
  Search search(instance, options, {free_order_crew}, warm_start);
  search.listen(listener_of(callbacks, criterion, search));
  search.begin(deadline);
  if (!search.is_decided()) search_free_order(search, deadline, callbacks.blocks);
  return search.answer();
}

/// Writes the plan of a method into the schedule, if the instance permits it.
void write_method(Method method, const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                  const Deadline& deadline, Schedule& schedule) {
  MethodResult result = run_method(method, {instance, options, deadline});
  SolverReport& report = schedule.solver;
  schedule.lower_bound = std::max(schedule.lower_bound, instance.baseline_duration() + result.lower_bound);
  report.work = result.work;
  report.note = std::move(result.note);
  if (result.sequence.empty()) {
    if (instance.op_count() == 0) write_steps(instance, {}, schedule);
    return;
  }
  if (!is_permitted(instance, result.sequence) || !modes_hold(instance, computes_of(result.sequence))) {
    report.note += report.note.empty() ? "" : "; ";
    report.note += "its sequence is not one of this problem: another order, or more runs of an op than allowed";
    return;
  }
  const Evaluation evaluation = evaluate(instance, result.sequence);
  const Source source = source_of(options.strategy);
  report.reached_peak = evaluation.peak;
  report.history.push_back({deadline.elapsed(), evaluation.duration, evaluation.peak, source_name(source)});
  write_steps(instance, computes_of(result.sequence), schedule);
  report.seconds = deadline.elapsed();
  if (callbacks.incumbent && schedule.has_schedule()) callbacks.incumbent(schedule);
  if (callbacks.progress) {
    callbacks.progress({deadline.elapsed(), schedule.has_schedule() ? 2 : 1, Event::schedule, source,
                        evaluation.duration, evaluation.peak, schedule.lower_bound, result.work});
  }
}

}  // namespace

Schedule solve_by_method(Method method, const Instance& instance, const SolveOptions& options,
                         const SolveCallbacks& callbacks) {
  const Deadline deadline(options.time_limit, callbacks.cancel);
  Schedule schedule = describe_problem(instance, options);
  FirstBound bound = find_first_bound(instance, options, deadline);
  schedule.lower_bound = instance.baseline_duration() + bound.lower_bound;
  schedule.certificate = std::move(bound.certificate);
  schedule.status = bound.infeasible ? Status::infeasible : Status::unknown;
  if (!bound.infeasible) write_method(method, instance, options, callbacks, deadline, schedule);
  schedule.solver.seconds = deadline.elapsed();
  schedule.solver.stop = stop_of(schedule, options, deadline, StoppingCriterion(instance, options, callbacks));
  return schedule;
}

SearchParts whole_search(const Instance& instance, const SolveOptions& options, BlockStore* blocks, bool is_warm) {
  const auto groups = [blocks](Search& search) { start_from_groups(search, blocks); };
  SearchParts parts{.crew = input_order_crew, .proves = true};
  if (!has_plans(instance)) return parts;
  if (wants_groups(instance, options)) {
    parts.starts = {{When::at_once, start_from_checkpoints},
                    {asks_for_groups(options) ? When::after_bound : When::far_from_bound, groups},
                    {When::after_bound, start_from_construction}};
  } else if (is_whole_search(options)) {
    parts.starts = {{When::soon_if_none, start_from_cheap_checkpoints},
                    {When::late_if_none, start_from_checkpoints},
                    {When::late_if_none, start_from_construction}};
    // A warm start of another budget may be far from good.
    if (is_warm) parts.starts.push_back({When::after_bound, start_from_cheap_checkpoints});
  }
  return parts;
}

void check_problem(const Instance& instance, const SolveOptions& options) {
  check_options(options);
  // Bounds alone, and the input order by mode 0, are of any graph.
  if (!is_search(options.strategy) && options.strategy != Strategy::none) {
    expect_one_mode(instance.graph(), std::string("the strategy ") + strategy_name(options.strategy));
  }
}

Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               std::span<const Compute> warm_start, Prover::Step proof) {
  check_problem(instance, options);
  if (const Method method = method_of(options.strategy)) return solve_by_method(method, instance, options, callbacks);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  StoppingCriterion criterion(instance, options, callbacks);
  const bool is_free = instance.problem().order == OrderMode::free;
  Schedule schedule =
      is_free ? search_any_order(instance, options, callbacks, criterion, deadline, warm_start)
              : search_once(instance, options, callbacks, criterion, deadline, warm_start, std::move(proof));
  schedule.solver.stop = stop_of(schedule, options, deadline, criterion);
  return schedule;
}

}  // namespace remora
