// SPDX-License-Identifier: Apache-2.0
//
// Pipelines: their stages as numbers in tuples, which remora/pipelining.py makes, and what is found.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine/pipeline/front.hpp"
#include "engine/pipeline/solve.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/formats/pipeline_json.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

/// Name; forward, backward and weight gradient's time; bytes saved, held, and more in each of the three tasks.
using StageModeRow = std::tuple<std::string, Duration, Duration, Duration, Bytes, Bytes, Bytes, Bytes, Bytes>;
/// Name, fixed memory, modes.
using StageRow = std::tuple<std::string, Bytes, std::vector<StageModeRow>>;
/// Modes, or a graph.
using SourceRow = std::pair<std::optional<StageRow>, const GraphHandle*>;
/// Device, least, enough, modes.
using NeedRow = std::tuple<std::size_t, Bytes, Bytes, ModeChoice>;
/// Kind ("F", "B", "W"), stage, microbatch, start, end.
using TaskRow = std::tuple<std::string, std::int32_t, int, Duration, Duration>;

struct Planned {
  Pipeline pipeline{};
  PipelinePlan plan{};
};

PipelineStage stage_from(const StageRow& row) {
  const auto& [name, fixed, modes] = row;
  PipelineStage stage{.name = name, .fixed_memory = fixed};
  for (const auto& [title, forward, backward, weight, saved, held, first, second, third] : modes) {
    stage.modes.push_back({.name = title,
                           .forward = forward,
                           .backward = backward,
                           .weight_gradient = weight,
                           .saved = saved,
                           .held = held,
                           .forward_transient = first,
                           .backward_transient = second,
                           .weight_transient = third});
  }
  return stage;
}

StageModeRow row_of(const StageMode& mode) {
  return {mode.name, mode.forward,           mode.backward,           mode.weight_gradient, mode.saved,
          mode.held, mode.forward_transient, mode.backward_transient, mode.weight_transient};
}

StageRow row_of(const PipelineStage& stage) {
  StageRow row{stage.name, stage.fixed_memory, {}};
  for (const StageMode& mode : stage.modes) std::get<2>(row).push_back(row_of(mode));
  return row;
}

std::vector<StageSource> sources_from(const std::vector<SourceRow>& rows) {
  std::vector<StageSource> sources;
  std::vector<const GraphHandle*> handles;
  for (const auto& [modes, handle] : rows) {
    StageSource source{.place = "stages[" + std::to_string(sources.size()) + "]"};
    if (modes) source.stage = stage_from(*modes);
    if (handle != nullptr) {
      // The same graph twice is the same stage twice.
      const auto known = std::find(handles.begin(), handles.end(), handle);
      const auto place = static_cast<std::size_t>(known - handles.begin());
      source.graph = known == handles.end() ? handle->snapshot() : sources[place].graph;
    }
    handles.push_back(handle);
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<std::optional<Bytes>> budgets_from(const std::vector<std::optional<std::string>>& texts) {
  std::vector<std::optional<Bytes>> budgets;
  for (const std::optional<std::string>& text : texts) {
    budgets.emplace_back();
    try {
      if (text) budgets.back() = parse_bytes(*text, Bytes::max());
    } catch (const InputError& error) {
      throw InputError("budget", error.what());
    }
  }
  return budgets;
}

PipelineOrder order_from(const std::string& word) {
  for (const auto& [name, order] : json::kPipelineOrders) {
    if (word == name) return order;
  }
  throw InputError("schedule", "must be gpipe, 1f1b, interleaved or zero-bubble, not '" + word + "'");
}

std::pair<Planned, nb::object> plan_pipeline(const std::vector<SourceRow>& rows, std::size_t devices, int microbatches,
                                             const std::string& schedule,
                                             const std::vector<std::optional<std::string>>& budget, int classes,
                                             Duration send, int modes, const OptionTexts& texts, nb::object stop) {
  const SolveOptions options = options_from(texts);
  const std::vector<StageSource> sources = sources_from(rows);
  Planned planned;
  planned.pipeline = {.devices = devices,
                      .microbatches = microbatches,
                      .order = order_from(schedule),
                      .send = send,
                      .budget = budgets_from(budget),
                      .classes = classes};
  WatchedRun watch(std::move(stop));
  watch.run([&] {
    const Allowance allowance(limits_of(options), &watch.cancel());
    planned.pipeline.stages = stages_of(sources, modes, options, allowance);
    validate(planned.pipeline);
    planned.plan = solve(planned.pipeline, within(options, allowance.left()), &watch.cancel());
  });
  return {std::move(planned), watch.interruption()};
}

/// By device.
std::vector<std::vector<TaskRow>> task_rows(const Planned& planned) {
  std::vector<std::vector<TaskRow>> rows;
  if (planned.plan.choice.empty()) return rows;
  constexpr const char* kKinds[] = {"F", "B", "W"};
  for (const std::vector<TimedTask>& tasks : replay(planned.pipeline, planned.plan.choice).tasks) {
    rows.emplace_back();
    for (const TimedTask& timed : tasks) {
      rows.back().emplace_back(kKinds[static_cast<std::size_t>(timed.task.kind)], std::int32_t{timed.task.stage},
                               timed.task.microbatch, timed.start, timed.end);
    }
  }
  return rows;
}

StageRow read_stage_row(const nb::bytes& text) {
  return row_of(json::read_stage(json::Text(std::string_view(text.c_str(), text.size()))));
}

std::string stage_text(const StageRow& row) {
  return text::written([&](std::ostream& out) { json::write_stage(out, stage_from(row)); });
}

}  // namespace

void bind_pipeline(nb::module_& module) {
  nb::class_<Planned>(module, "PlannedPipeline")
      .def_prop_ro("status", [](const Planned& self) { return json::status_word(self.plan.status); })
      .def_prop_ro("choice", [](const Planned& self) { return self.plan.choice; })
      .def_prop_ro("makespan", [](const Planned& self) { return self.plan.makespan; })
      .def_prop_ro("lower_bound", [](const Planned& self) { return self.plan.lower_bound; })
      .def_prop_ro("peak", [](const Planned& self) { return self.plan.peak; })
      .def_prop_ro("uniform", [](const Planned& self) { return self.plan.uniform; })
      .def_prop_ro("uniform_makespan", [](const Planned& self) { return self.plan.uniform_makespan; })
      .def_prop_ro("reason", [](const Planned& self) { return self.plan.reason; })
      .def_prop_ro("needs",
                   [](const Planned& self) {
                     std::vector<NeedRow> rows;
                     for (const DeviceNeed& need : self.plan.needs) {
                       rows.emplace_back(need.device, need.least, need.enough, need.modes);
                     }
                     return rows;
                   })
      .def_prop_ro("work", [](const Planned& self) { return self.plan.work; })
      .def_prop_ro("seconds", [](const Planned& self) { return self.plan.seconds; })
      .def_prop_ro("stages",
                   [](const Planned& self) {
                     std::vector<StageRow> rows;
                     for (const PipelineStage& stage : self.pipeline.stages) rows.push_back(row_of(stage));
                     return rows;
                   })
      .def("tasks", &task_rows)
      .def("text", [](const Planned& self) {
        return text::written([&](std::ostream& out) { json::write_pipeline(out, self.pipeline, self.plan); });
      });
  module.def("pipeline", &plan_pipeline, nb::arg("stages"), nb::arg("devices"), nb::arg("microbatches"),
             nb::arg("schedule"), nb::arg("budget"), nb::arg("classes"), nb::arg("send"), nb::arg("modes"),
             nb::arg("options"), nb::arg("stop").none());
  module.def("read_stage", &read_stage_row, nb::arg("text"));
  module.def("stage_text", &stage_text, nb::arg("stage"));
}

}  // namespace remora::python
