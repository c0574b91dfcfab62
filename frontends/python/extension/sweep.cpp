// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <ostream>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/ask/ask.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

std::vector<Bytes> budgets_from(const std::vector<std::string>& texts, const Request& request) {
  std::vector<Bytes> budgets;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      const std::vector<Bytes> named = budgets_of(texts[i], request);
      budgets.insert(budgets.end(), named.begin(), named.end());
    } catch (const InputError& error) {
      // Otherwise the error is in the graph.
      if (!error.place().empty()) throw;
      throw InputError("budgets[" + std::to_string(i) + "]", error.what());
    }
  }
  return budgets;
}

nb::tuple tuple_of(const SweepProgress& update) {
  return nb::make_tuple(update.seconds, update.budget, json::status_word(update.status), update.duration, update.peak,
                        update.lower_bound, update.points, update.settled);
}

CurveHandle* read_curve(const GraphHandle& graph, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  auto snapshot = graph.snapshot();
  const Instance instance(snapshot, {});
  Curve curve = json::read_curve(json::Text(view));
  if (curve.baseline_duration != instance.baseline_duration() ||
      curve.baseline_peak_memory != baseline_peak(instance)) {
    throw InputError("$.baseline_duration", "not a curve of this graph: its baseline is another");
  }
  return new CurveHandle{std::move(snapshot), std::move(curve), {}};
}

std::pair<CurveHandle, nb::object> sweep_graph(const Asked& asked, const std::vector<std::string>& budgets, int points,
                                               double resolution, nb::object progress, nb::object stop) {
  const Request& request = asked.request;
  WatchedRun watch(std::move(stop));
  SweepCallbacks callbacks;
  callbacks.cancel = &watch.cancel();
  if (!progress.is_none()) {
    callbacks.progress = [&](const SweepProgress& update) {
      watch.call([&] {
        if (nb::cast<bool>(nb::bool_(progress(tuple_of(update))))) watch.end();
      });
    };
  }
  CurveHandle found{.graph = request.graph};
  watch.run([&] {
    const SweepOptions wanted{.budgets = budgets_from(budgets, request), .points = points, .resolution = resolution};
    SweepResult result = sweep(request, wanted, callbacks);
    found.curve = std::move(result.curve);
    found.sliced = std::move(result.sliced);
    found.curve.graph_sha256 = asked.graph_sha256;
    for (Schedule& schedule : result.schedules) {
      schedule.graph_sha256 = asked.graph_sha256;
      found.schedules.emplace_back(std::move(schedule));
    }
  });
  return {std::move(found), watch.interruption()};
}

}  // namespace

void bind_sweep(nb::module_& module) {
  nb::class_<CurveHandle>(module, "Curve")
      .def_static("read", &read_curve, nb::arg("graph"), nb::arg("text"))
      .def("write",
           [](const CurveHandle& self) {
             return text::written([&](std::ostream& out) { json::write_curve(out, self.curve); });
           })
      .def_prop_ro("point_count", [](const CurveHandle& self) { return self.curve.points.size(); })
      .def("schedule_file",
           [](const CurveHandle& self, std::size_t point) { return self.curve.points.at(point).schedule_file; })
      .def("name_schedule", [](CurveHandle& self, std::size_t point,
                               std::string file) { self.curve.points.at(point).schedule_file = std::move(file); })
      .def("keep_schedule",
           [](CurveHandle& self, std::size_t point, const ScheduleHandle& handle) {
             if (handle.solved() != self.graph) throw InputError("schedule", "is of another graph");
             self.schedules.resize(self.curve.points.size());
             self.sliced.resize(self.curve.points.size());
             self.schedules.at(point) = handle.schedule;
             self.sliced.at(point) = handle.whole ? handle.graph : nullptr;
           })
      .def("schedule", [](const CurveHandle& self, std::size_t point) -> std::optional<ScheduleHandle> {
        if (point >= self.curve.points.size()) throw InputError("point", "the curve has no point of this number");
        if (point >= self.schedules.size() || !self.schedules[point]) return std::nullopt;
        return self.schedule_of(point);
      });
  module.def("sweep", &sweep_graph, nb::arg("request"), nb::arg("budgets"), nb::arg("points"), nb::arg("resolution"),
             nb::arg("progress").none(), nb::arg("stop").none());
}

}  // namespace remora::python
