// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/sizes.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

/// Python's functions, or None.
struct Listeners {
  nb::object incumbent;
  nb::object progress;
  nb::object heartbeat;
};

SolveCallbacks callbacks_for(const Listeners& listeners, const Request& request, WatchedRun& watch) {
  SolveCallbacks callbacks;
  callbacks.cancel = &watch.cancel();
  callbacks.progress = reporter(listeners.progress, watch);
  callbacks.heartbeat = reporter(listeners.heartbeat, watch);
  if (!listeners.incumbent.is_none()) {
    callbacks.incumbent = [&watch, &listeners, &request](const Schedule& schedule) {
      watch.call([&] { end_if_true(listeners.incumbent(ScheduleHandle{request.graph, schedule}), watch); });
    };
  }
  return callbacks;
}

/// Ops and their modes.
using RunRows = std::vector<std::pair<OpId, ModeNumber>>;

std::pair<ScheduleHandle, nb::object> solve_graph(const Asked& asked, const std::string& budget, const RunRows& start,
                                                  std::optional<Bytes> alignment, nb::object incumbent,
                                                  nb::object progress, nb::object heartbeat, nb::object stop) {
  Request request = asked.request;
  for (const auto& [op, mode] : start) {
    if (!op.valid() || op.index() >= request.graph->ops.size())
      throw InputError("warm_start", "an op that is not there");
    request.warm_start.push_back({op, mode});
  }
  request.alignment = alignment;
  check_request(request);
  const Listeners listeners{std::move(incumbent), std::move(progress), std::move(heartbeat)};
  WatchedRun watch(std::move(stop));
  ScheduleHandle found{.graph = request.graph};
  const SolveCallbacks callbacks = callbacks_for(listeners, request, watch);
  watch.run([&] {
    request.budget = amount_from(budget, request, "budget");
    Answer answer = solve(request, callbacks);
    found.schedule = std::move(answer.schedule);
    found.refusal = std::move(answer.refusal);
    if (answer.sliced) found.whole = std::exchange(found.graph, std::move(answer.sliced));
    found.schedule.graph_sha256 = asked.graph_sha256;
  });
  return {std::move(found), watch.interruption()};
}

using Budgets = std::vector<std::optional<std::string>>;

/// By device, each text with its name in an error.
Table<DeviceId, std::optional<Bytes>> budgets_from(const DeviceGraph& graph, const Budgets& texts) {
  Table<DeviceId, std::optional<Bytes>> budgets(graph.devices.size());
  for (const DeviceId d : graph.devices.ids()) {
    const auto& given = texts.at(d.index());
    if (!given) continue;
    try {
      budgets[d] = parse_bytes(*given, all_memory(graph));
    } catch (const InputError& error) {
      throw InputError("budget[" + quote(graph.devices[d].name) + "]", error.what());
    }
  }
  return budgets;
}

std::pair<DeviceScheduleHandle, nb::object> solve_devices(
    const DeviceGraphHandle& graph, const Budgets& budgets, bool least_energy, std::optional<bool> overlap,
    bool is_free, std::optional<int> max_computes, std::optional<Duration> duration_limit,
    std::optional<Energy> energy_limit, const OptionTexts& texts, const DeviceScheduleHandle* start,
    const nb::object& incumbent, const nb::object& progress, const nb::object& heartbeat, nb::object stop) {
  devices::Request request{.graph = graph.graph,
                           .budget = budgets_from(*graph.graph, budgets),
                           .objective = least_energy ? Objective::energy : Objective::duration,
                           .duration_limit = duration_limit,
                           .energy_limit = energy_limit,
                           .max_computes = max_computes,
                           .order = is_free ? OrderMode::free : OrderMode::input,
                           .options = options_from(texts)};
  if (overlap) request.copies = *overlap ? CopyMode::overlap : CopyMode::sequential;
  if (start != nullptr) request.warm_start = start->schedule.steps;
  WatchedRun watch(std::move(stop));
  devices::Callbacks callbacks{
      .progress = reporter(progress, watch), .heartbeat = reporter(heartbeat, watch), .cancel = &watch.cancel()};
  if (!incumbent.is_none()) {
    callbacks.incumbent = [&](const DeviceSchedule& schedule) {
      watch.call([&] { end_if_true(incumbent(DeviceScheduleHandle{graph.graph, schedule}), watch); });
    };
  }
  DeviceScheduleHandle handle{.graph = graph.graph};
  watch.run([&] {
    devices::Answer answer = devices::solve(request, callbacks);
    handle.schedule = std::move(answer.schedule);
    handle.refusal = std::move(answer.refusal);
    handle.schedule.graph_sha256 = graph.sha256;
  });
  return {std::move(handle), watch.interruption()};
}

std::pair<BudgetBracket, nb::object> least_budget_of(const Asked& asked, nb::object stop) {
  WatchedRun watch(std::move(stop));
  BudgetBracket bracket;
  watch.run([&] { bracket = least_budget(asked.request, &watch.cancel()); });
  return {std::move(bracket), watch.interruption()};
}

}  // namespace

void bind_solve(nb::module_& module) {
  nb::class_<BudgetBracket>(module, "BudgetBracket")
      .def_ro("proved", &BudgetBracket::proved)
      .def_ro("reached", &BudgetBracket::reached)
      .def_prop_ro("sequence", [](const BudgetBracket& self) { return ops_of(self.sequence); })
      .def_ro("max_computes", &BudgetBracket::max_computes);
  module.def("solve", &solve_graph, nb::arg("request"), nb::arg("budget"), nb::arg("start") = RunRows(),
             nb::arg("alignment") = nb::none(), nb::arg("incumbent") = nb::none(), nb::arg("progress") = nb::none(),
             nb::arg("heartbeat") = nb::none(), nb::arg("stop") = nb::none());
  module.def("solve_devices", &solve_devices, nb::arg("graph"), nb::arg("budgets"), nb::arg("least_energy"),
             nb::arg("overlap").none(), nb::arg("is_free"), nb::arg("max_computes").none(),
             nb::arg("duration_limit").none(), nb::arg("energy_limit").none(), nb::arg("options"),
             nb::arg("start").none(), nb::arg("incumbent").none(), nb::arg("progress").none(),
             nb::arg("heartbeat").none(), nb::arg("stop").none());
  module.def("least_budget", &least_budget_of, nb::arg("request"), nb::arg("stop").none());
  module.def(
      "fewest_schedules",
      [](const std::vector<std::vector<double>>& durations, const std::vector<std::size_t>& reach, int most) {
        return fewest_schedules(durations, reach, most);
      },
      nb::arg("durations"), nb::arg("reach"), nb::arg("most"));
}

}  // namespace remora::python
