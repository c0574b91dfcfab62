// SPDX-License-Identifier: Apache-2.0
#include "engine/solve.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine/addresses.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/modes.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/solving.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

/// Python's functions, or None.
struct Listeners {
  nb::object incumbent;
  nb::object progress;
  nb::object heartbeat;
};

nb::tuple told(const Progress& news) {
  return nb::make_tuple(news.seconds, news.phase, news_name(news), news.duration.count(), news.peak.count(),
                        news.lower_bound.count(), news.work);
}

/// A listener's answer: true ends the solve.
void heed(const nb::object& answer, WatchedRun& watch) {
  if (nb::cast<bool>(nb::bool_(answer))) watch.end();
}

SolveCallbacks callbacks_for(const Listeners& listeners, const Answer& answer, WatchedRun& watch) {
  SolveCallbacks callbacks;
  callbacks.cancel = &watch.cancel();
  const auto tell = [&watch](const nb::object& listener) {
    return [&watch, &listener](const Progress& news) { watch.call([&] { heed(listener(told(news)), watch); }); };
  };
  if (!listeners.progress.is_none()) callbacks.progress = tell(listeners.progress);
  if (!listeners.heartbeat.is_none()) callbacks.heartbeat = tell(listeners.heartbeat);
  if (!listeners.incumbent.is_none()) {
    callbacks.incumbent = [&watch, &listeners, &answer](const Schedule& schedule) {
      watch.call([&] { heed(listeners.incumbent(Answer{answer.graph, schedule, answer.with_modes}), watch); });
    };
  }
  return callbacks;
}

Sequence start_from(const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
  Sequence start;
  start.reserve(ops.size());
  for (const std::int32_t op : ops) start.push_back(graph.op_id(op));
  return start;
}

/// What a user asks for in vain must not pass in silence.
void check_heeded(const SolveOptions& options, bool has_start) {
  if (is_search(options.strategy)) return;
  const std::string name = strategy_name(options.strategy);
  if (options.work_limit > 0 && options.strategy != Strategy::checkmate) {
    throw InputError("work_limit", "the strategy " + name + " has none");
  }
  if (has_start) throw InputError("warm_start", "the strategy " + name + " does not start from a schedule");
}

std::pair<Answer, nb::object> solve_graph(const GraphHandle& graph, const std::string& budget, const OptionTexts& texts,
                                          std::optional<int> max_computes, std::optional<std::string> order,
                                          const std::vector<OpModesRow>& modes,
                                          const std::vector<std::int32_t>& warm_start,
                                          std::optional<std::int64_t> alignment, nb::object incumbent,
                                          nb::object progress, nb::object heartbeat, nb::object stop) {
  const SolveOptions options = options_from(texts);
  check_heeded(options, !warm_start.empty());
  const Sequence start = start_from(graph, warm_start);
  const ProblemRequest request{max_computes, std::move(order), modes_from(graph, modes)};
  const Listeners listeners{std::move(incumbent), std::move(progress), std::move(heartbeat)};
  WatchedRun watch(std::move(stop));
  Answer answer{.graph = graph.snapshot()};
  const SolveCallbacks callbacks = callbacks_for(listeners, answer, watch);
  watch.run([&] {
    const Problem problem = state_problem(answer.graph, request, budget, options, &watch.cancel());
    if (request.modes) answer.with_modes = std::make_shared<const Instance>(problem.instance);
    answer.schedule = alignment ? solve_with_addresses(problem.instance, options, Bytes(*alignment), callbacks, start)
                                : solve(problem.instance, options, callbacks, start);
    problem.choice.explain(answer.schedule);
    expect_found(answer);
  });
  return {std::move(answer), watch.interruption()};
}

/// Proved, reached, and the ops of a schedule that reached it, if those are known.
using Bracket = std::tuple<std::int64_t, std::int64_t, std::vector<std::int32_t>>;

/// In free order the lower end is what one op alone needs, and one search at that budget gives the upper end; the schedule
/// that reached it is known only where it is within that budget.
BudgetBracket bracket_free(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks) {
  BudgetBracket bracket{least_budget(instance), baseline_peak(instance), input_order(instance)};
  const Schedule schedule = solve(instance.with_budget(bracket.proved), options, callbacks);
  const Bytes reached = schedule.has_schedule() ? schedule.peak_memory : schedule.solver.reached_peak;
  if (reached > Bytes(0) && reached < bracket.reached) {
    bracket.reached = reached;
    bracket.sequence = ops_of(schedule);
  }
  return bracket;
}

std::pair<Bracket, nb::object> least_budget_of(const GraphHandle& graph, const OptionTexts& texts,
                                               std::optional<int> max_computes, std::optional<std::string> order,
                                               const std::vector<OpModesRow>& modes, nb::object stop) {
  const SolveOptions options = options_from(texts);
  if (!is_search(options.strategy)) throw InputError("strategy", "the least budget is searched for; a method has none");
  const ProblemRequest request{max_computes, std::move(order), modes_from(graph, modes)};
  WatchedRun watch(std::move(stop));
  const auto snapshot = graph.snapshot();
  BudgetBracket bracket;
  watch.run([&] {
    const auto [instance, asked] = unbudgeted(snapshot, request, options);
    const OrderMode mode = fixed_order(asked, "the least budget is of one order");
    bracket = mode == OrderMode::free ? bracket_free(with_order(instance, mode), options, {.cancel = &watch.cancel()})
                                      : bracket_min_budget(instance, options, &watch.cancel());
  });
  return {Bracket(bracket.proved.count(), bracket.reached.count(),
                  std::vector<std::int32_t>(bracket.sequence.begin(), bracket.sequence.end())),
          watch.interruption()};
}

}  // namespace

void bind_solve(nb::module_& module) {
  module.def("solve", &solve_graph, nb::arg("graph"), nb::arg("budget"), nb::arg("options"),
             nb::arg("max_computes").none(), nb::arg("order").none(), nb::arg("modes"), nb::arg("warm_start"),
             nb::arg("alignment").none(), nb::arg("incumbent").none(), nb::arg("progress").none(),
             nb::arg("heartbeat").none(), nb::arg("stop").none());
  module.def("least_budget", &least_budget_of, nb::arg("graph"), nb::arg("options"), nb::arg("max_computes").none(),
             nb::arg("order").none(), nb::arg("modes"), nb::arg("stop").none());
}

}  // namespace remora::python
