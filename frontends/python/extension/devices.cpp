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
#include "frontends/formats/device_json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/problem.hpp"
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
using Id32 = std::int32_t;

struct DeviceGraphHandle {
  std::shared_ptr<const DeviceGraph> graph{};
};

struct DeviceAnswer {
  std::shared_ptr<const DeviceGraph> graph{};
  DeviceSchedule schedule{};
};

std::string_view view_of(const nb::bytes& text) {
  return {text.c_str(), text.size()};
}

DeviceGraphHandle read_graph(const nb::bytes& text) {
  return {std::make_shared<const DeviceGraph>(json::read_device_graph(json::Text(view_of(text))))};
}

DeviceAnswer read_answer(const DeviceGraphHandle& graph, const nb::bytes& text) {
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
std::vector<std::tuple<std::string, std::int64_t, int>> device_rows(const DeviceGraphHandle& handle) {
  std::vector<std::tuple<std::string, std::int64_t, int>> rows;
  for (const DeviceId d : handle.graph->devices.ids()) {
    const auto runs = std::count_if(handle.graph->runs.begin(), handle.graph->runs.end(), [&](const auto& costs) {
      return std::any_of(costs.begin(), costs.end(), [&](const RunCost& cost) { return cost.device == d; });
    });
    rows.emplace_back(handle.graph->devices[d].name, handle.graph->devices[d].fixed_memory.count(),
                      static_cast<int>(runs));
  }
  return rows;
}

std::vector<std::pair<Id32, Id32>> link_rows(const DeviceGraphHandle& handle) {
  std::vector<std::pair<Id32, Id32>> rows;
  for (const Link& link : handle.graph->links) rows.emplace_back(Id32{link.from}, Id32{link.to});
  return rows;
}

/// Op and tensor, of which one is -1; device; where a copy goes, or -1; what is released where.
using StepRow = std::tuple<Id32, Id32, Id32, Id32, std::vector<std::pair<Id32, Id32>>>;

std::vector<StepRow> step_rows(const DeviceAnswer& answer) {
  std::vector<StepRow> rows;
  for (const DeviceStep& step : answer.schedule.steps) {
    std::vector<std::pair<Id32, Id32>> free;
    for (const auto& [tensor, device] : step.free) free.emplace_back(Id32{tensor}, Id32{device});
    rows.emplace_back(step.is_copy() ? -1 : Id32{step.op}, step.is_copy() ? Id32{step.copied} : -1, Id32{step.device},
                      step.is_copy() ? Id32{step.to} : -1, std::move(free));
  }
  return rows;
}

/// Errors, duration, energy, and by device the peak and its step; recomputes, copies.
using VerdictRow = std::tuple<std::vector<std::string>, std::int64_t, std::int64_t, std::vector<std::int64_t>,
                              std::vector<int>, int, int>;

VerdictRow verdict_row(const DeviceGraphHandle& graph, const DeviceAnswer& answer) {
  // Of another graph the names are looked up.
  const DeviceSchedule schedule =
      graph.graph == answer.graph
          ? answer.schedule
          : json::read_device_schedule(json::Text(text::written([&](std::ostream& out) {
                                         json::write_device_schedule(out, answer.schedule, *answer.graph);
                                       })),
                                       *graph.graph);
  const DeviceVerdict verdict = verify(*graph.graph, schedule);
  std::vector<std::int64_t> peaks;
  for (const Bytes peak : verdict.peak) peaks.push_back(peak.count());
  return {verdict.errors,
          verdict.duration.count(),
          verdict.energy.count(),
          std::move(peaks),
          std::vector<int>(verdict.peak_step.begin(), verdict.peak_step.end()),
          verdict.recomputes,
          verdict.copies};
}

void expect_valid(const DeviceAnswer& answer) {
  if (!answer.schedule.has_schedule() && answer.schedule.steps.empty()) return;
  if (const DeviceVerdict verdict = verify(*answer.graph, answer.schedule); !verdict.valid()) {
    throw InputError("schedule", "not valid: " + verdict.errors.front());
  }
}

report::DeviceProfile profile_of(const DeviceAnswer& answer) {
  expect_valid(answer);
  return report::profile_of(*answer.graph, answer.schedule);
}

std::string page(const DeviceAnswer& answer) {
  expect_valid(answer);
  report::Page page{.graph = {answer.graph, &answer.graph->graph},
                    .devices = answer.graph,
                    .duration_unit = text::duration_unit_of(answer.graph->graph)};
  page.device_schedules.push_back(answer.schedule);
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string svg(const DeviceAnswer& answer) {
  return report::svg(report::device_figures(*answer.graph, answer.schedule, profile_of(answer)));
}

std::string csv(const DeviceAnswer& answer) {
  const report::DeviceProfile profile = profile_of(answer);
  return text::written([&](std::ostream& out) { report::write_device_table(out, *answer.graph, profile); });
}

std::string trace(const DeviceAnswer& answer) {
  const report::DeviceProfile profile = profile_of(answer);
  return text::written([&](std::ostream& out) {
    report::write_trace(out, *answer.graph, profile, text::duration_unit_of(answer.graph->graph));
  });
}

/// By step of the schedule.
std::vector<std::pair<std::int64_t, std::int64_t>> times_of_steps(const DeviceAnswer& answer) {
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  if (answer.schedule.copies == CopyMode::overlap) {
    for (const auto& [start, end] : overlapped(*answer.graph, answer.schedule.steps, answer.schedule.budget).steps) {
      rows.emplace_back(start.count(), end.count());
    }
    return rows;
  }
  const report::DeviceProfile profile = profile_of(answer);
  for (std::size_t i = 0; i < profile.ends.size(); ++i) {
    rows.emplace_back(profile.times[i].count(), profile.ends[i].count());
  }
  return rows;
}

std::vector<std::vector<std::int64_t>> memory_rows(const DeviceAnswer& answer) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const auto& memory : profile_of(answer).memory) {
    rows.emplace_back();
    for (const Bytes bytes : memory) rows.back().push_back(bytes.count());
  }
  return rows;
}

std::vector<std::int64_t> counts(const Table<DeviceId, Bytes>& bytes) {
  std::vector<std::int64_t> rows;
  for (const Bytes one : bytes) rows.push_back(one.count());
  return rows;
}

using Budgets = std::vector<std::optional<std::string>>;
using Limit = std::optional<std::int64_t>;

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

std::pair<DeviceAnswer, nb::object> solve_devices(const DeviceGraphHandle& graph, const Budgets& budgets,
                                                  bool least_energy, bool overlap, bool is_free,
                                                  std::optional<int> max_computes, Limit duration_limit,
                                                  Limit energy_limit, const OptionTexts& texts,
                                                  const DeviceAnswer* start, const nb::object& incumbent,
                                                  const nb::object& progress, const nb::object& heartbeat,
                                                  nb::object stop) {
  remora::devices::Request request{.graph = graph.graph,
                                   .budget = budgets_from(*graph.graph, budgets),
                                   .objective = least_energy ? Objective::energy : Objective::duration,
                                   .copies = overlap ? CopyMode::overlap : CopyMode::sequential,
                                   .max_computes = max_computes,
                                   .order = is_free ? OrderMode::free : OrderMode::input,
                                   .options = options_from(texts)};
  if (duration_limit) request.duration_limit = Duration(*duration_limit);
  if (energy_limit) request.energy_limit = Energy(*energy_limit);
  if (start != nullptr) request.start = start->schedule.steps;
  WatchedRun watch(std::move(stop));
  remora::devices::Callbacks callbacks{
      .progress = teller(progress, watch), .heartbeat = teller(heartbeat, watch), .cancel = &watch.cancel()};
  if (!incumbent.is_none()) {
    callbacks.incumbent = [&](const DeviceSchedule& schedule) {
      watch.call([&] { heed(incumbent(DeviceAnswer{graph.graph, schedule}), watch); });
    };
  }
  DeviceAnswer answer{.graph = graph.graph};
  watch.run([&] { answer.schedule = remora::devices::solve(request, callbacks); });
  return {std::move(answer), watch.interruption()};
}

void bind_answer(nb::module_& module) {
  const auto text = [](const DeviceAnswer& answer) {
    return text::written([&](std::ostream& out) { json::write_device_schedule(out, answer.schedule, *answer.graph); });
  };
  nb::class_<DeviceAnswer>(module, "DeviceAnswer")
      .def_static("read", &read_answer)
      .def("write", text)
      .def("steps", &step_rows)
      .def("verify_for",
           [](const DeviceAnswer& answer, const DeviceGraphHandle& graph) { return verdict_row(graph, answer); })
      .def("memory", &memory_rows)
      .def("times", &times_of_steps)
      .def("page", &page)
      .def("svg", &svg)
      .def("csv", &csv)
      .def("trace", &trace)
      .def_prop_ro("step_count", [](const DeviceAnswer& answer) { return answer.schedule.steps.size(); })
      .def_prop_ro("has_schedule", [](const DeviceAnswer& answer) { return answer.schedule.has_schedule(); })
      .def_prop_ro("status", [](const DeviceAnswer& answer) { return json::status_word(answer.schedule.status); })
      .def_prop_ro("is_free", [](const DeviceAnswer& answer) { return answer.schedule.order == OrderMode::free; })
      .def_prop_ro("overlap", [](const DeviceAnswer& answer) { return answer.schedule.copies == CopyMode::overlap; })
      .def_prop_ro("least_energy",
                   [](const DeviceAnswer& answer) { return answer.schedule.objective == Objective::energy; })
      .def_prop_ro("budget",
                   [](const DeviceAnswer& answer) {
                     std::vector<Limit> rows;
                     for (const auto& budget : answer.schedule.budget) {
                       rows.push_back(budget ? Limit(budget->count()) : std::nullopt);
                     }
                     return rows;
                   })
      .def_prop_ro("duration", [](const DeviceAnswer& answer) { return answer.schedule.duration.count(); })
      .def_prop_ro("energy", [](const DeviceAnswer& answer) { return answer.schedule.energy.count(); })
      .def_prop_ro("baseline_duration",
                   [](const DeviceAnswer& answer) { return answer.schedule.baseline_duration.count(); })
      .def_prop_ro("lower_bound", [](const DeviceAnswer& answer) { return answer.schedule.lower_bound; })
      .def_prop_ro("peak", [](const DeviceAnswer& answer) { return counts(answer.schedule.peak_memory); })
      .def_prop_ro("note", [](const DeviceAnswer& answer) { return answer.schedule.solver.note; })
      .def_prop_rw(
          "graph_sha256", [](const DeviceAnswer& answer) { return answer.schedule.graph_sha256; },
          [](DeviceAnswer& answer, std::string digest) { answer.schedule.graph_sha256 = std::move(digest); });
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
  devices::bind_answer(module);
  module.def("names_devices", [](const nb::bytes& text) { return json::names_devices(json::Text(view_of(text))); });
  module.def("solve_devices", &solve_devices, nb::arg("graph"), nb::arg("budgets"), nb::arg("least_energy"),
             nb::arg("overlap"), nb::arg("is_free"), nb::arg("max_computes").none(), nb::arg("duration_limit").none(),
             nb::arg("energy_limit").none(), nb::arg("options"), nb::arg("start").none(), nb::arg("incumbent").none(),
             nb::arg("progress").none(), nb::arg("heartbeat").none(), nb::arg("stop").none());
}

}  // namespace remora::python
