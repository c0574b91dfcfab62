// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>

#include <nanobind/stl/string.h>

#include "engine/base/options.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

report::Page empty_page(const std::shared_ptr<const Graph>& graph) {
  return {.graph = graph, .duration_unit = text::duration_unit_of(*graph)};
}

std::string curve_page(const CurveHandle& handle) {
  report::Page page = empty_page(handle.graph);
  page.curve = handle.curve;
  for (std::size_t i = 0; i < handle.curve.points.size(); ++i) {
    if (i >= handle.schedules.size() || !handle.schedules[i] || !handle.schedules[i]->has_schedule()) {
      const bool refuted = handle.curve.points[i].status == Status::infeasible;
      page.points.push_back({.why = refuted ? "proved infeasible" : "none found"});
      continue;
    }
    if (handle.schedules[i]->slices) {
      page.points.push_back({.why = "in slices: a report of its own shows this schedule"});
      continue;
    }
    expect_valid({handle.graph, *handle.schedules[i]});
    page.points.push_back({.schedule = page.schedules.size()});
    page.schedules.push_back(*handle.schedules[i]);
  }
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

report::DeviceProfile checked_profile(const DeviceScheduleHandle& handle) {
  expect_valid(handle);
  return report::profile_of(*handle.graph, handle.schedule);
}

}  // namespace

std::string page_of(const ScheduleHandle& handle) {
  expect_valid(handle);
  report::Page page = empty_page(handle.graph);
  if (handle.schedule.slices) {
    page.sliced = std::make_shared<const SlicedGraph>(graph_in_slices(*handle.whole, *handle.schedule.slices));
    page.whole = handle.whole;
  }
  page.schedules.push_back(handle.schedule);
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string svg_of(const ScheduleHandle& handle) {
  expect_valid(handle);
  return report::svg(
      report::memory_figure(*handle.graph, handle.schedule, report::profile_of(handle.graph, handle.schedule)));
}

std::string csv_of(const ScheduleHandle& handle) {
  expect_valid(handle);
  const report::ScheduleProfile profile = report::profile_of(handle.graph, handle.schedule);
  return text::written([&](std::ostream& out) { report::write_recompute_table(out, *handle.graph, profile); });
}

std::string page_of(const DeviceScheduleHandle& handle) {
  expect_valid(handle);
  report::Page page{.graph = {handle.graph, &handle.graph->graph},
                    .devices = handle.graph,
                    .duration_unit = text::duration_unit_of(handle.graph->graph)};
  page.device_schedules.push_back(handle.schedule);
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string svg_of(const DeviceScheduleHandle& handle) {
  return report::svg(report::device_figures(*handle.graph, handle.schedule, checked_profile(handle)));
}

std::string csv_of(const DeviceScheduleHandle& handle) {
  const report::DeviceProfile profile = checked_profile(handle);
  return text::written([&](std::ostream& out) { report::write_device_table(out, *handle.graph, profile); });
}

void bind_report(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  module.def("curve_page", &curve_page, unlocked)
      .def(
          "curve_svg", [](const CurveHandle& handle) { return report::svg(report::curve_figure(handle.curve)); },
          unlocked)
      .def("curve_csv",
           [](const CurveHandle& handle) {
             return text::written([&](std::ostream& out) { report::write_curve_csv(out, handle.curve); });
           })
      .def("bytes_text", [](std::int64_t bytes) { return text::bytes_text(Bytes(bytes)); })
      .def("part_of_peak_text",
           [](std::int64_t bytes, std::int64_t fixed, std::int64_t peak) {
             return text::part_of_peak_text(Bytes(bytes), Bytes(fixed), Bytes(peak));
           })
      .def("parse_budget", [](const std::string& text, std::int64_t fixed,
                              std::int64_t peak) { return parse_budget(text, Bytes(fixed), Bytes(peak)).count(); })
      .def("duration_text", [](std::int64_t duration, const std::string& unit) {
        return text::duration_text(Duration(duration), unit);
      });
}

}  // namespace remora::python
