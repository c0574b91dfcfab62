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
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

std::vector<Bytes> budgets_from(const std::vector<std::string>& texts, const Instance& instance) {
  std::vector<Bytes> budgets;
  const Bytes peak = baseline_peak(instance);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      budgets.push_back(parse_budget(texts[i], instance.graph().fixed_memory, peak));
    } catch (const InputError& error) {
      throw InputError("budgets[" + std::to_string(i) + "]", error.what());
    }
  }
  return budgets;
}

nb::tuple told(const SweepProgress& news) {
  return nb::make_tuple(news.seconds, news.budget.count(), json::status_word(news.status), news.duration.count(),
                        news.peak.count(), news.lower_bound.count(), news.points, news.settled);
}

CurveAnswer* read_curve(const GraphHandle& graph, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  auto snapshot = graph.snapshot();
  const Instance instance(snapshot, {});
  Curve curve = json::read_curve(json::Text(view));
  if (curve.baseline_duration != instance.baseline_duration() ||
      curve.baseline_peak_memory != baseline_peak(instance)) {
    throw InputError("$.baseline_duration", "not a curve of this graph: its baseline is another");
  }
  return new CurveAnswer{std::move(snapshot), std::move(curve), {}};
}

std::pair<CurveAnswer, nb::object> sweep_graph(const GraphHandle& graph, const std::vector<std::string>& budgets,
                                               int points, double resolution, const OptionTexts& texts,
                                               std::optional<int> max_computes, const std::optional<std::string>& order,
                                               nb::object progress, nb::object stop) {
  const Request request = request_from(graph, texts, max_computes, order);
  WatchedRun watch(std::move(stop));
  SweepCallbacks callbacks;
  callbacks.cancel = &watch.cancel();
  if (!progress.is_none()) {
    callbacks.progress = [&](const SweepProgress& news) {
      watch.call([&] {
        if (nb::cast<bool>(nb::bool_(progress(told(news))))) watch.end();
      });
    };
  }
  CurveAnswer answer{.graph = request.graph};
  watch.run([&] {
    const SweepOptions wanted{
        .budgets = budgets_from(budgets, Instance(request.graph, {})), .points = points, .resolution = resolution};
    SweepResult result = sweep(request, wanted, callbacks);
    answer.curve = std::move(result.curve);
    for (Schedule& schedule : result.schedules) answer.schedules.emplace_back(std::move(schedule));
  });
  return {std::move(answer), watch.interruption()};
}

}  // namespace

void bind_sweep(nb::module_& module) {
  nb::class_<CurveAnswer>(module, "CurveAnswer")
      .def_static("read", &read_curve, nb::arg("graph"), nb::arg("text"))
      .def("write",
           [](const CurveAnswer& self) {
             return text::written([&](std::ostream& out) { json::write_curve(out, self.curve); });
           })
      .def_prop_rw(
          "graph_sha256", [](const CurveAnswer& self) { return self.curve.graph_sha256; },
          [](CurveAnswer& self, const std::string& digest) {
            self.curve.graph_sha256 = digest;
            for (auto& schedule : self.schedules) {
              if (schedule) schedule->graph_sha256 = digest;
            }
          })
      .def_prop_ro("point_count", [](const CurveAnswer& self) { return self.curve.points.size(); })
      .def("schedule_file",
           [](const CurveAnswer& self, std::size_t point) { return self.curve.points.at(point).schedule_file; })
      .def("name_schedule", [](CurveAnswer& self, std::size_t point,
                               std::string file) { self.curve.points.at(point).schedule_file = std::move(file); })
      .def("keep_schedule",
           [](CurveAnswer& self, std::size_t point, const Answer& answer) {
             if (answer.graph != self.graph) throw InputError("schedule", "is of another graph");
             self.schedules.resize(self.curve.points.size());
             self.schedules.at(point) = answer.schedule;
           })
      .def("schedule", [](const CurveAnswer& self, std::size_t point) -> std::optional<Answer> {
        if (point >= self.curve.points.size()) throw InputError("point", "the curve has no point of this number");
        if (point >= self.schedules.size() || !self.schedules[point]) return std::nullopt;
        return Answer{self.graph, *self.schedules[point]};
      });
  module.def("sweep", &sweep_graph, nb::arg("graph"), nb::arg("budgets"), nb::arg("points"), nb::arg("resolution"),
             nb::arg("options"), nb::arg("max_computes").none(), nb::arg("order").none(), nb::arg("progress").none(),
             nb::arg("stop").none());
}

}  // namespace remora::python
