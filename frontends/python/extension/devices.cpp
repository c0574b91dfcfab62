// SPDX-License-Identifier: Apache-2.0
//
// Graphs over several devices and their schedules, as remora/devices.py asks for them: numbers stand for devices, ops and
// tensors.
#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine/devices/ask.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::python {
namespace devices {
namespace {

namespace nb = nanobind;

struct DeviceGraphHandle {
  std::shared_ptr<const DeviceGraph> graph{};
  std::string sha256{};  ///< of its text
};

struct DeviceScheduleHandle {
  std::shared_ptr<const DeviceGraph> graph{};
  DeviceSchedule schedule{};
};

std::string_view view_of(const nb::bytes& text) {
  return {text.c_str(), text.size()};
}

DeviceGraphHandle read_graph(const nb::bytes& bytes) {
  return {std::make_shared<const DeviceGraph>(json::read_device_graph(json::Text(view_of(bytes)))),
          text::sha256_hex(view_of(bytes))};
}

DeviceScheduleHandle read_answer(const DeviceGraphHandle& graph, const nb::bytes& text) {
  return {graph.graph, json::read_device_schedule(json::Text(view_of(text)), *graph.graph)};
}

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

/// Name, fixed memory, ops that can run there.
std::vector<std::tuple<std::string, Bytes, int>> device_rows(const DeviceGraphHandle& handle) {
  std::vector<std::tuple<std::string, Bytes, int>> rows;
  for (const DeviceId d : handle.graph->devices.ids()) {
    const auto runs = std::count_if(handle.graph->runs.begin(), handle.graph->runs.end(), [&](const auto& costs) {
      return std::any_of(costs.begin(), costs.end(), [&](const RunCost& cost) { return cost.device == d; });
    });
    rows.emplace_back(handle.graph->devices[d].name, handle.graph->devices[d].fixed_memory, static_cast<int>(runs));
  }
  return rows;
}

std::vector<std::pair<DeviceId, DeviceId>> link_rows(const DeviceGraphHandle& handle) {
  std::vector<std::pair<DeviceId, DeviceId>> rows;
  for (const Link& link : handle.graph->links) rows.emplace_back(link.from, link.to);
  return rows;
}

/// Op and tensor, of which one is none; device; where a copy goes, or none; what is released where.
using StepRow = std::tuple<OpId, TensorId, DeviceId, DeviceId, std::vector<std::pair<TensorId, DeviceId>>>;

std::vector<StepRow> step_rows(const DeviceScheduleHandle& handle) {
  std::vector<StepRow> rows;
  for (const DeviceStep& step : handle.schedule.steps) {
    std::vector<std::pair<TensorId, DeviceId>> free;
    for (const auto& [tensor, device] : step.free) free.emplace_back(tensor, device);
    rows.emplace_back(step.op, step.is_copy() ? step.copied : TensorId(), step.device,
                      step.is_copy() ? step.to : DeviceId(), std::move(free));
  }
  return rows;
}

DeviceVerdict verdict_for(const DeviceGraphHandle& graph, const DeviceScheduleHandle& handle) {
  // Of another graph the names are looked up.
  const DeviceSchedule schedule =
      graph.graph == handle.graph
          ? handle.schedule
          : json::read_device_schedule(json::Text(text::written([&](std::ostream& out) {
                                         json::write_device_schedule(out, handle.schedule, *handle.graph);
                                       })),
                                       *graph.graph);
  return verify(*graph.graph, schedule);
}

void expect_valid(const DeviceScheduleHandle& handle) {
  if (!handle.schedule.has_schedule() && handle.schedule.steps.empty()) return;
  if (const DeviceVerdict verdict = verify(*handle.graph, handle.schedule); !verdict.valid()) {
    throw InputError("schedule", "not valid: " + verdict.errors.front());
  }
}

report::DeviceProfile profile_of(const DeviceScheduleHandle& handle) {
  expect_valid(handle);
  return report::profile_of(*handle.graph, handle.schedule);
}

std::string page(const DeviceScheduleHandle& handle) {
  expect_valid(handle);
  report::Page page{.graph = {handle.graph, &handle.graph->graph},
                    .devices = handle.graph,
                    .duration_unit = text::duration_unit_of(handle.graph->graph)};
  page.device_schedules.push_back(handle.schedule);
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string svg(const DeviceScheduleHandle& handle) {
  return report::svg(report::device_figures(*handle.graph, handle.schedule, profile_of(handle)));
}

std::string csv(const DeviceScheduleHandle& handle) {
  const report::DeviceProfile profile = profile_of(handle);
  return text::written([&](std::ostream& out) { report::write_device_table(out, *handle.graph, profile); });
}

std::string trace(const DeviceScheduleHandle& handle) {
  const report::DeviceProfile profile = profile_of(handle);
  return text::written([&](std::ostream& out) {
    report::write_trace(out, *handle.graph, profile, text::duration_unit_of(handle.graph->graph));
  });
}

/// By step of the schedule.
std::vector<std::pair<Duration, Duration>> times_of_steps(const DeviceScheduleHandle& handle) {
  std::vector<std::pair<Duration, Duration>> rows;
  if (handle.schedule.copies == CopyMode::overlap) {
    for (const auto& [start, end] : overlapped(*handle.graph, handle.schedule.steps, handle.schedule.budget).steps) {
      rows.emplace_back(start, end);
    }
    return rows;
  }
  const report::DeviceProfile profile = profile_of(handle);
  for (std::size_t i = 0; i < profile.ends.size(); ++i) rows.emplace_back(profile.times[i], profile.ends[i]);
  return rows;
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
  remora::devices::Request request{.graph = graph.graph,
                                   .budget = budgets_from(*graph.graph, budgets),
                                   .objective = least_energy ? Objective::energy : Objective::duration,
                                   .duration_limit = duration_limit,
                                   .energy_limit = energy_limit,
                                   .max_computes = max_computes,
                                   .order = is_free ? OrderMode::free : OrderMode::input,
                                   .options = options_from(texts)};
  if (overlap) request.copies = *overlap ? CopyMode::overlap : CopyMode::sequential;
  if (start != nullptr) request.start = start->schedule.steps;
  WatchedRun watch(std::move(stop));
  remora::devices::Callbacks callbacks{
      .progress = reporter(progress, watch), .heartbeat = reporter(heartbeat, watch), .cancel = &watch.cancel()};
  if (!incumbent.is_none()) {
    callbacks.incumbent = [&](const DeviceSchedule& schedule) {
      watch.call([&] { end_if_true(incumbent(DeviceScheduleHandle{graph.graph, schedule}), watch); });
    };
  }
  DeviceScheduleHandle handle{.graph = graph.graph};
  watch.run([&] {
    handle.schedule = remora::devices::solve(request, callbacks);
    handle.schedule.graph_sha256 = graph.sha256;
  });
  return {std::move(handle), watch.interruption()};
}

void bind_schedule(nb::module_& module) {
  const auto text = [](const DeviceScheduleHandle& handle) {
    return text::written([&](std::ostream& out) { json::write_device_schedule(out, handle.schedule, *handle.graph); });
  };
  const auto field = [](auto member) {
    return [member](const DeviceScheduleHandle& handle) { return handle.schedule.*member; };
  };
  nb::class_<DeviceVerdict>(module, "DeviceVerdict")
      .def_ro("errors", &DeviceVerdict::errors)
      .def_ro("duration", &DeviceVerdict::duration)
      .def_ro("energy", &DeviceVerdict::energy)
      .def_ro("peak", &DeviceVerdict::peak)
      .def_ro("peak_step", &DeviceVerdict::peak_step)
      .def_ro("recomputes", &DeviceVerdict::recomputes)
      .def_ro("copies", &DeviceVerdict::copies);
  nb::class_<DeviceScheduleHandle>(module, "DeviceSchedule")
      .def_static("read", &read_answer)
      .def("write", text)
      .def("steps", &step_rows)
      .def("verify_for", [](const DeviceScheduleHandle& handle,
                            const DeviceGraphHandle& graph) { return verdict_for(graph, handle); })
      .def("memory", [](const DeviceScheduleHandle& handle) { return profile_of(handle).memory; })
      .def("times", &times_of_steps)
      .def("page", &page)
      .def("svg", &svg)
      .def("csv", &csv)
      .def("trace", &trace)
      .def_prop_ro("step_count", [](const DeviceScheduleHandle& handle) { return handle.schedule.steps.size(); })
      .def_prop_ro("has_schedule", [](const DeviceScheduleHandle& handle) { return handle.schedule.has_schedule(); })
      .def_prop_ro("status",
                   [](const DeviceScheduleHandle& handle) { return json::status_word(handle.schedule.status); })
      .def_prop_ro("is_free",
                   [](const DeviceScheduleHandle& handle) { return handle.schedule.order == OrderMode::free; })
      .def_prop_ro("overlap",
                   [](const DeviceScheduleHandle& handle) { return handle.schedule.copies == CopyMode::overlap; })
      .def_prop_ro("least_energy",
                   [](const DeviceScheduleHandle& handle) { return handle.schedule.objective == Objective::energy; })
      .def_prop_ro("budget", field(&DeviceSchedule::budget))
      .def_prop_ro("duration", field(&DeviceSchedule::duration))
      .def_prop_ro("energy", field(&DeviceSchedule::energy))
      .def_prop_ro("baseline_duration", field(&DeviceSchedule::baseline_duration))
      .def_prop_ro("lower_bound", field(&DeviceSchedule::lower_bound))
      .def_prop_ro("peak", field(&DeviceSchedule::peak_memory))
      .def_prop_ro("note", [](const DeviceScheduleHandle& handle) { return handle.schedule.solver.note; });
}

}  // namespace
}  // namespace devices

void bind_devices(nanobind::module_& module) {
  namespace nb = nanobind;
  using namespace devices;
  nb::class_<DeviceGraphHandle>(module, "DeviceGraph")
      .def_static("read", &read_graph)
      .def("write",
           [](const DeviceGraphHandle& handle) {
             return text::written([&](std::ostream& out) { json::write_device_graph(out, *handle.graph); });
           })
      .def_prop_ro("name", [](const DeviceGraphHandle& handle) { return handle.graph->graph.name; })
      .def_prop_ro("unit", [](const DeviceGraphHandle& handle) { return text::duration_unit_of(handle.graph->graph); })
      .def_prop_ro("devices", &device_rows)
      .def_prop_ro("links", &link_rows)
      .def_prop_ro("ops", [](const DeviceGraphHandle& handle) { return names_of(handle.graph->graph.ops); })
      .def_prop_ro("tensors", [](const DeviceGraphHandle& handle) { return names_of(handle.graph->graph.tensors); });
  devices::bind_schedule(module);
  module.def("names_devices", [](const nb::bytes& text) { return json::names_devices(json::Text(view_of(text))); });
  module.def("solve_devices", &solve_devices, nb::arg("graph"), nb::arg("budgets"), nb::arg("least_energy"),
             nb::arg("overlap").none(), nb::arg("is_free"), nb::arg("max_computes").none(),
             nb::arg("duration_limit").none(), nb::arg("energy_limit").none(), nb::arg("options"),
             nb::arg("start").none(), nb::arg("incumbent").none(), nb::arg("progress").none(),
             nb::arg("heartbeat").none(), nb::arg("stop").none());
}

}  // namespace remora::python
