// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "frontends/python/extension/answer.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

report::Page page_of(const std::shared_ptr<const Graph>& graph) {
  return {.graph = graph, .duration_unit = text::duration_unit_of(*graph)};
}

std::string schedule_page(const Answer& answer) {
  expect_valid(answer);
  report::Page page = page_of(answer.graph);
  page.schedules.push_back(answer.schedule);
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string curve_page(const CurveAnswer& answer) {
  report::Page page = page_of(answer.graph);
  page.curve = answer.curve;
  for (std::size_t i = 0; i < answer.curve.points.size(); ++i) {
    if (i >= answer.schedules.size() || !answer.schedules[i] || !answer.schedules[i]->has_schedule()) {
      const bool refuted = answer.curve.points[i].status == Status::infeasible;
      page.points.push_back({.why = refuted ? "proved infeasible" : "none found"});
      continue;
    }
    expect_valid({answer.graph, *answer.schedules[i]});
    page.points.push_back({.schedule = page.schedules.size()});
    page.schedules.push_back(*answer.schedules[i]);
  }
  return text::written([&](std::ostream& out) { report::write_page(out, page); });
}

std::string memory_svg(const Answer& answer) {
  expect_valid(answer);
  return report::svg(
      report::memory_figure(*answer.graph, answer.schedule, report::profile_of(answer.graph, answer.schedule)));
}

std::string recompute_csv(const Answer& answer) {
  expect_valid(answer);
  const report::ScheduleProfile profile = report::profile_of(answer.graph, answer.schedule);
  return text::written([&](std::ostream& out) { report::write_recompute_table(out, *answer.graph, profile); });
}

std::string trace(const Answer& answer) {
  expect_valid(answer);
  const report::Replay replay = report::replay(*answer.graph, answer.schedule.steps);
  return text::written([&](std::ostream& out) {
    report::write_trace(out, *answer.graph, replay, answer.schedule.budget, text::duration_unit_of(*answer.graph));
  });
}

}  // namespace

void bind_report(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  module.def("schedule_page", &schedule_page, unlocked)
      .def("curve_page", &curve_page, unlocked)
      .def("memory_svg", &memory_svg, unlocked)
      .def(
          "curve_svg", [](const CurveAnswer& answer) { return report::svg(report::curve_figure(answer.curve)); },
          unlocked)
      .def("curve_csv",
           [](const CurveAnswer& answer) {
             return text::written([&](std::ostream& out) { report::write_curve_csv(out, answer.curve); });
           })
      .def("recompute_csv", &recompute_csv, unlocked)
      .def("trace", &trace, unlocked)
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
