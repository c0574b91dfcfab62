// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/schedule.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/report/profile.hpp"
#include "frontends/text/refusal.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/quote.hpp"
#include "model/verify.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;
using Ids = std::vector<std::int32_t>;

ScheduleHandle* read_schedule(const GraphHandle& graph, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  validate(*snapshot);
  Schedule schedule = json::read_schedule(json::Text(view), *snapshot);
  return new ScheduleHandle{std::move(snapshot), std::move(schedule)};
}

/// A sequence in which every op comes after the producers of its inputs, or InputError.
Sequence checked_sequence(const GraphHandle& handle, const Instance& instance, const Ids& ops) {
  Sequence sequence;
  std::vector<bool> computed(static_cast<std::size_t>(instance.op_count()));
  for (const std::int32_t number : ops) {
    const OpId op = handle.op_id(number);
    for (const TensorId input : instance.inputs(op)) {
      if (computed[static_cast<std::size_t>(instance.producer(input))]) continue;
      throw InputError("ops[" + std::to_string(sequence.size()) + "]",
                       quote(instance.graph().ops[op].name) + " reads " + quote(instance.graph().tensors[input].name) +
                           ", which is not computed before");
    }
    computed[static_cast<std::size_t>(op)] = true;
    sequence.push_back(op);
  }
  return sequence;
}

ScheduleHandle* evaluate_sequence(const GraphHandle& graph, const Ids& ops, int max_computes, bool free_order) {
  auto snapshot = graph.snapshot();
  const Instance instance(snapshot,
                          {.max_computes = max_computes, .order = free_order ? OrderMode::free : OrderMode::input});
  ScheduleHandle handle{std::move(snapshot), schedule_of(instance, checked_sequence(graph, instance, ops))};
  const Verdict verdict = verify(*handle.graph, handle.schedule);
  if (!verdict.valid()) throw InputError("ops", printable(verdict.errors.front()));
  return new ScheduleHandle(std::move(handle));
}

/// Op, releases, mode.
std::vector<std::tuple<OpId, std::vector<TensorId>, ModeNumber>> steps_of(const ScheduleHandle& handle) {
  std::vector<std::tuple<OpId, std::vector<TensorId>, ModeNumber>> steps;
  steps.reserve(handle.schedule.steps.size());
  for (const Step& step : handle.schedule.steps) steps.emplace_back(step.op, step.free, step.mode);
  return steps;
}

Evaluation evaluation_of(const ScheduleHandle& handle) {
  std::vector<Compute> computes;
  for (const Step& step : handle.schedule.steps) computes.push_back({step.op, step.mode});
  return evaluate(*handle.with_modes, computes);
}

using CertificateRow = std::tuple<OpId, Bytes, std::vector<TensorId>>;

std::optional<CertificateRow> certificate_of(const ScheduleHandle& handle) {
  const auto& certificate = handle.schedule.certificate;
  if (!certificate) return std::nullopt;
  return CertificateRow(certificate->op, certificate->required, certificate->tensors);
}

/// In a word.
const char* word_of(Refusal::Cause cause) {
  switch (cause) {
    case Refusal::Cause::none:
      break;
    case Refusal::Cause::op:
      return "op";
    case Refusal::Cause::kept:
      return "kept";
    case Refusal::Cause::event:
      return "event";
    case Refusal::Cause::search:
      return "search";
    case Refusal::Cause::packing:
      return "packing";
    case Refusal::Cause::limits:
      return "limits";
  }
  return "";
}

/// Why there is no schedule, in one line.
std::string refusal_line(const ScheduleHandle& handle) {
  const auto amount = [&](Bytes bytes) {
    return text::budget_text(bytes, handle.graph->fixed_memory, handle.schedule.baseline_peak_memory,
                             handle.refusal.placed);
  };
  const text::RefusalStyle style{
      .amount = amount,
      .name = [](const std::string& name) { return "'" + text::visible(name) + "'"; },
      .option = [](const std::string& option,
                   const std::string& value) { return option + (value.empty() ? "" : "=\"" + value + "\""); }};
  const std::string& note = handle.schedule.solver.note;
  return text::refusal_text(*handle.graph, handle.schedule, handle.refusal, amount(handle.schedule.budget), style)
             .line() +
         (note.empty() ? "" : " (" + note + ")");
}

/// Alignment, size, offsets of inputs, and for each step of what it allocates and of its workspace.
using ArenaRow = std::tuple<Bytes, Bytes, Arena::Offsets, std::vector<std::pair<Arena::Offsets, std::optional<Bytes>>>>;

std::optional<ArenaRow> arena_of(const ScheduleHandle& handle) {
  const auto& arena = handle.schedule.arena;
  if (!arena) return std::nullopt;
  ArenaRow row{arena->alignment, arena->size, arena->inputs, {}};
  for (const Arena::Allocations& step : arena->steps) std::get<3>(row).emplace_back(step.outputs, step.workspace);
  return row;
}

/// Of the input order without recompute, and of the schedule, at every step.
std::pair<std::vector<Bytes>, std::vector<Bytes>> memory_of(const ScheduleHandle& handle) {
  if (handle.with_modes) {
    return {evaluate(*handle.with_modes, computes_of(input_order(*handle.with_modes))).memory,
            evaluation_of(handle).memory};
  }
  expect_valid(handle);
  const nb::gil_scoped_release unlocked;
  return {report::input_order_replay(handle.graph).memory, report::replay(*handle.graph, handle.schedule.steps).memory};
}

/// The stays of tensors in memory, as tensor, first step, last step.
std::vector<std::tuple<TensorId, int, int>> residences_of(const ScheduleHandle& handle) {
  std::vector<std::tuple<TensorId, int, int>> stays;
  if (handle.with_modes) {
    for (const RetentionInterval& stay : evaluation_of(handle).intervals) {
      stays.emplace_back(stay.tensor, stay.first_step, stay.last_step);
    }
    return stays;
  }
  expect_valid(handle);
  for (const report::TensorStay& stay : report::replay(*handle.graph, handle.schedule.steps).stays) {
    stays.emplace_back(stay.tensor, stay.first_step, stay.last_step);
  }
  return stays;
}

/// The schedule as one of this graph: by the names of its ops and tensors, where it was made of another graph.
Verdict verify_for(const ScheduleHandle& handle, const GraphHandle& graph) {
  const auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  validate(*snapshot);
  if (handle.with_modes) {
    if (snapshot == handle.graph || *snapshot == *handle.graph) return verify(*handle.with_modes, handle.schedule);
    throw InputError("graph", "another than that of the schedule, whose ops have several modes");
  }
  if (snapshot == handle.graph) return verify(*snapshot, handle.schedule);
  const std::string text = text_of(handle);
  return verify(*snapshot, json::read_schedule(json::Text(text), *snapshot));
}

}  // namespace

std::string text_of(const ScheduleHandle& handle) {
  if (handle.with_modes) throw InputError("schedule", "its ops have several modes, and remora-schedule 1 knows one");
  return text::written([&](std::ostream& out) { json::write_schedule(out, handle.schedule, *handle.graph); });
}

void expect_valid(const ScheduleHandle& handle) {
  if (handle.with_modes) throw InputError("schedule", "its ops have several modes, and reports know one");
  if (!handle.schedule.has_schedule()) throw InputError("schedule", "there are no steps: none was found");
  const Verdict verdict = verify(*handle.graph, handle.schedule);
  if (!verdict.valid()) {
    throw InputError("schedule", "not a valid one of its graph: " + printable(verdict.errors.front()));
  }
}

void bind_schedule(nb::module_& module) {
  nb::class_<Verdict>(module, "Verdict")
      .def_ro("errors", &Verdict::errors)
      .def_ro("duration", &Verdict::duration)
      .def_ro("peak", &Verdict::peak)
      .def_ro("peak_step", &Verdict::peak_step)
      .def_ro("recomputes", &Verdict::recomputes);
  const auto field = [](auto member) { return [member](const ScheduleHandle& self) { return self.schedule.*member; }; };
  nb::class_<Refusal>(module, "Refusal")
      .def_prop_ro("reason", [](const Refusal& self) { return word_of(self.cause); })
      .def_ro("op", &Refusal::op)
      .def_ro("needed", &Refusal::needed)
      .def_ro("lower_bound", &Refusal::lower_bound)
      .def_ro("enough", &Refusal::enough)
      .def_ro("ops", &Refusal::ops)
      .def_ro("max_computes", &Refusal::computes_of_enough);
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<ScheduleHandle>(module, "Schedule")
      .def_static("read", &read_schedule, nb::arg("graph"), nb::arg("text"))
      .def_static("evaluate", &evaluate_sequence, nb::arg("graph"), nb::arg("ops"), nb::arg("max_computes"),
                  nb::arg("free_order"))
      .def("write", &text_of, unlocked)
      .def("verify_for", &verify_for, nb::arg("graph"))
      .def_prop_ro("status", [](const ScheduleHandle& self) { return json::status_word(self.schedule.status); })
      .def_prop_ro("has_modes", [](const ScheduleHandle& self) { return self.with_modes != nullptr; })
      .def_prop_ro("is_free", [](const ScheduleHandle& self) { return self.schedule.order == OrderMode::free; })
      .def_prop_ro("has_schedule", [](const ScheduleHandle& self) { return self.schedule.has_schedule(); })
      .def_prop_ro("budget", field(&Schedule::budget))
      .def_prop_ro("duration", field(&Schedule::duration))
      .def_prop_ro("baseline_duration", field(&Schedule::baseline_duration))
      .def_prop_ro("peak", field(&Schedule::peak_memory))
      .def_prop_ro("baseline_peak", field(&Schedule::baseline_peak_memory))
      .def_prop_ro("lower_bound", field(&Schedule::lower_bound))
      .def_prop_ro("overhead", [](const ScheduleHandle& self) { return self.schedule.overhead(); })
      .def_prop_ro("least_overhead", [](const ScheduleHandle& self) { return self.schedule.least_overhead(); })
      .def_prop_ro("gap", [](const ScheduleHandle& self) { return self.schedule.gap(); })
      .def_prop_ro("reached_peak", [](const ScheduleHandle& self) { return self.schedule.solver.reached_peak; })
      .def_prop_ro("note", [](const ScheduleHandle& self) { return self.schedule.solver.note; })
      .def_prop_ro("step_count", [](const ScheduleHandle& self) { return self.schedule.steps.size(); })
      .def_prop_ro("steps", &steps_of)
      .def_prop_ro("certificate", &certificate_of)
      .def_prop_ro("refusal", [](const ScheduleHandle& self) { return &self.refusal; })
      .def_prop_ro("refusal_line", &refusal_line)
      .def_prop_ro("arena", &arena_of)
      .def("page", &page_of, unlocked)
      .def("svg", &svg_of, unlocked)
      .def("csv", &csv_of, unlocked)
      .def("trace", &trace_of, unlocked)
      .def("memory", &memory_of)
      .def("residences", &residences_of);
}

}  // namespace remora::python
