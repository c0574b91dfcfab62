// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/schedule.hpp"

#include <functional>
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

/// The schedule in the text, of the graph or of that in the slices that it states.
ScheduleHandle schedule_in(std::string_view text, std::shared_ptr<const Graph> graph) {
  const auto slices = json::read_slices(json::Text(text));
  if (!slices) {
    Schedule schedule = json::read_schedule(json::Text(text), *graph);
    return {.graph = std::move(graph), .schedule = std::move(schedule)};
  }
  auto sliced = std::make_shared<const Graph>(graph_in_slices(*graph, *slices).graph);
  Schedule schedule = json::read_schedule(json::Text(text), *sliced);
  return {.graph = std::move(sliced), .schedule = std::move(schedule), .whole = std::move(graph)};
}

ScheduleHandle* read_schedule(const GraphHandle& graph, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  validate(*snapshot);
  return new ScheduleHandle(schedule_in(view, std::move(snapshot)));
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

using CertificateRow = std::tuple<OpId, Bytes, std::vector<TensorId>>;

std::optional<CertificateRow> certificate_of(const ScheduleHandle& handle) {
  const auto& certificate = handle.schedule.certificate;
  if (!certificate) return std::nullopt;
  return CertificateRow(certificate->op, certificate->required, certificate->tensors);
}

text::RefusalStyle refusal_style(std::function<std::string(Bytes)> amount) {
  return {.amount = std::move(amount),
          .name = [](const std::string& name) { return "'" + text::visible(name) + "'"; },
          .option = [](const std::string& option,
                       const std::string& value) { return option + (value.empty() ? "" : "=\"" + value + "\""); }};
}

/// Why there is no schedule, in one line.
std::string refusal_line(const ScheduleHandle& handle) {
  const auto amount = [&](Bytes bytes) {
    return text::budget_text(bytes, handle.graph->fixed_memory, handle.schedule.baseline_peak_memory,
                             handle.refusal.placed);
  };
  const std::string budget = amount(handle.schedule.budget);
  const std::string& note = handle.schedule.solver.note;
  return text::refusal_text(*handle.graph, handle.schedule, handle.refusal, budget, refusal_style(amount)).line() +
         (note.empty() || note == handle.refusal.method_lacks ? "" : " (" + note + ")");
}

std::string refusal_line(const DeviceScheduleHandle& handle) {
  return text::refusal_text(*handle.graph, handle.schedule, handle.refusal, refusal_style(text::exact_bytes_text))
      .line();
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

/// Memory at every step: of the input order without recomputation, and of the schedule.
std::pair<std::vector<Bytes>, std::vector<Bytes>> memory_of(const ScheduleHandle& handle) {
  expect_valid(handle);
  const nb::gil_scoped_release unlocked;
  return {report::input_order_replay(handle.graph).memory, report::replay(*handle.graph, handle.schedule.steps).memory};
}

/// The stays of tensors in memory, as tensor, first step, last step.
std::vector<std::tuple<TensorId, int, int>> residences_of(const ScheduleHandle& handle) {
  std::vector<std::tuple<TensorId, int, int>> stays;
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
  if (snapshot == handle.solved()) return verify(*handle.graph, handle.schedule);
  const ScheduleHandle read = schedule_in(text_of(handle), snapshot);
  return verify(*read.graph, read.schedule);
}

/// Parts as ops of the solved graph and axes, slices, saved peak and minimum, cost.
using RegionRow = std::tuple<std::vector<std::vector<std::pair<OpId, int>>>, int, Bytes, Bytes, Duration>;

std::vector<RegionRow> slices_of(const ScheduleHandle& handle) {
  std::vector<RegionRow> rows;
  if (!handle.schedule.slices) return rows;
  const std::vector<NamedRegion>& named = handle.schedule.slices->regions;
  const std::vector<Region> regions = regions_of(*handle.whole, named);
  for (std::size_t i = 0; i < named.size(); ++i) {
    auto& [parts, slices, peak, minimum, cost] = rows.emplace_back(
        decltype(rows)::value_type{{}, named[i].slices, named[i].saved_peak, named[i].saved_minimum, named[i].cost});
    for (const RegionPart& part : regions[i].parts) {
      auto& members = parts.emplace_back();
      for (const SlicedOp& member : part) members.emplace_back(member.op, member.axis);
    }
  }
  return rows;
}

/// By op and tensor of the graph in slices: its source, its slice or -1, and the half-open range of its iterations, or
/// of the bytes that it has of each block.
using SliceSourceRow = std::tuple<std::int32_t, int, std::int64_t, std::int64_t>;

std::pair<std::vector<SliceSourceRow>, std::vector<SliceSourceRow>> slice_sources(const ScheduleHandle& handle) {
  std::pair<std::vector<SliceSourceRow>, std::vector<SliceSourceRow>> rows;
  if (!handle.schedule.slices) return rows;
  const ScheduleSlices& slices = *handle.schedule.slices;
  const SlicedGraph sliced = slice(*handle.whole, regions_of(*handle.whole, slices.regions), slices.run);
  const auto number = [](auto id) { return static_cast<std::int32_t>(id.index()); };
  for (const OpSource& one : sliced.ops) {
    rows.first.emplace_back(number(one.op), one.slice, one.iterations.begin, one.iterations.end);
  }
  for (const TensorSource& one : sliced.tensors) {
    rows.second.emplace_back(number(one.tensor), one.slice, one.bytes.begin, one.bytes.end);
  }
  return rows;
}

/// Status, duration and bound without slices.
std::optional<std::tuple<std::string, Duration, Duration>> without_slices(const ScheduleHandle& handle) {
  const auto& slices = handle.schedule.slices;
  if (!slices) return std::nullopt;
  return std::tuple(std::string(json::status_word(slices->whole_status)), slices->whole_duration,
                    slices->whole_lower_bound);
}

DeviceScheduleHandle read_device_schedule(const DeviceGraphHandle& graph, const nb::bytes& text) {
  const json::Text content(std::string_view(text.c_str(), text.size()));
  return {graph.graph, json::read_schedule(content, *graph.graph)};
}

/// Op and tensor, of which one is none; device; where a copy goes, or none; what is released where.
using StepRow = std::tuple<OpId, TensorId, DeviceId, DeviceId, std::vector<std::pair<TensorId, DeviceId>>>;

std::vector<StepRow> steps_of(const DeviceScheduleHandle& handle) {
  std::vector<StepRow> rows;
  for (const DeviceStep& step : handle.schedule.steps) {
    std::vector<std::pair<TensorId, DeviceId>> free;
    for (const auto& [tensor, device] : step.free) free.emplace_back(tensor, device);
    rows.emplace_back(step.op, step.is_copy() ? step.copied : TensorId(), step.device,
                      step.is_copy() ? step.to : DeviceId(), std::move(free));
  }
  return rows;
}

/// By step of the schedule.
std::vector<std::pair<Duration, Duration>> times_of(const DeviceScheduleHandle& handle) {
  std::vector<std::pair<Duration, Duration>> rows;
  if (handle.schedule.copies == CopyMode::overlap) {
    for (const auto& [start, end] : overlapped(*handle.graph, handle.schedule.steps, handle.schedule.budget).steps) {
      rows.emplace_back(start, end);
    }
    return rows;
  }
  expect_valid(handle);
  const report::DeviceProfile profile = report::profile_of(*handle.graph, handle.schedule);
  for (std::size_t i = 0; i < profile.ends.size(); ++i) rows.emplace_back(profile.times[i], profile.ends[i]);
  return rows;
}

DeviceVerdict verify_for(const DeviceScheduleHandle& handle, const DeviceGraphHandle& graph) {
  if (graph.graph == handle.graph) return verify(*graph.graph, handle.schedule);
  const std::string text = text_of(handle);
  return verify(*graph.graph, json::read_schedule(json::Text(text), *graph.graph));
}

}  // namespace

std::string text_of(const ScheduleHandle& handle) {
  return text::written([&](std::ostream& out) { json::write_schedule(out, handle.schedule, *handle.graph); });
}

std::string text_of(const DeviceScheduleHandle& handle) {
  return text::written([&](std::ostream& out) { json::write_schedule(out, handle.schedule, *handle.graph); });
}

void expect_valid(const DeviceScheduleHandle& handle) {
  if (!handle.schedule.has_schedule() && handle.schedule.steps.empty()) return;
  if (const DeviceVerdict verdict = verify(*handle.graph, handle.schedule); !verdict.valid()) {
    throw InputError("schedule", "not a valid one of its graph: " + printable(verdict.errors.front()));
  }
}

void expect_valid(const ScheduleHandle& handle) {
  if (!handle.schedule.has_schedule()) throw InputError("schedule", "there are no steps: none was found");
  const Verdict verdict = verify(*handle.graph, handle.schedule);
  if (!verdict.valid()) {
    throw InputError("schedule", "not a valid one of its graph: " + printable(verdict.errors.front()));
  }
}

namespace {

/// Common members of schedules for one device and for several.
template <class Handle>
nb::class_<Handle> bind_common(nb::module_& module, const char* name) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  const auto field = [](auto get) { return [get](const Handle& self) { return get(self.schedule); }; };
  return nb::class_<Handle>(module, name)
      .def("write", nb::overload_cast<const Handle&>(&text_of), unlocked)
      .def("page", nb::overload_cast<const Handle&>(&page_of), unlocked)
      .def("svg", nb::overload_cast<const Handle&>(&svg_of), unlocked)
      .def("csv", nb::overload_cast<const Handle&>(&csv_of), unlocked)
      .def_prop_ro("steps", [](const Handle& self) { return steps_of(self); })
      .def_prop_ro("refusal", [](const Handle& self) { return &self.refusal; })
      .def_prop_ro("refusal_line", [](const Handle& self) { return refusal_line(self); })
      .def_prop_ro("status", field([](const auto& schedule) { return json::status_word(schedule.status); }))
      .def_prop_ro("is_free", field([](const auto& schedule) { return schedule.order == OrderMode::free; }))
      .def_prop_ro("has_schedule", field([](const auto& schedule) { return schedule.has_schedule(); }))
      .def_prop_ro("step_count", field([](const auto& schedule) { return schedule.steps.size(); }))
      .def_prop_ro("budget", field([](const auto& schedule) { return schedule.budget; }))
      .def_prop_ro("duration", field([](const auto& schedule) { return schedule.duration; }))
      .def_prop_ro("baseline_duration", field([](const auto& schedule) { return schedule.baseline_duration; }))
      .def_prop_ro("lower_bound", field([](const auto& schedule) { return schedule.lower_bound; }))
      .def_prop_ro("peak", field([](const auto& schedule) { return schedule.peak_memory; }));
}

void bind_refusal(nb::module_& module) {
  nb::class_<Refusal>(module, "Refusal")
      .def_prop_ro("reason", [](const Refusal& self) { return text::reason_word(self.cause); })
      .def_ro("op", &Refusal::op)
      .def_ro("needed", &Refusal::needed)
      .def_ro("lower_bound", &Refusal::lower_bound)
      .def_ro("enough", &Refusal::enough)
      .def_ro("ops", &Refusal::ops)
      .def_ro("slices", &Refusal::slices)
      .def_ro("enough_in_slices", &Refusal::enough_in_slices)
      .def_ro("max_computes", &Refusal::computes_of_enough)
      .def_prop_ro("shortages", [](const Refusal& self) {
        std::vector<std::pair<DeviceId, Bytes>> rows;
        for (const Refusal::Shortage& one : self.shortages) rows.emplace_back(one.device, one.needed);
        return rows;
      });
}

void bind_device_schedule(nb::module_& module) {
  nb::class_<DeviceVerdict>(module, "DeviceVerdict")
      .def_ro("errors", &DeviceVerdict::errors)
      .def_ro("duration", &DeviceVerdict::duration)
      .def_ro("energy", &DeviceVerdict::energy)
      .def_ro("peak", &DeviceVerdict::peak)
      .def_ro("peak_step", &DeviceVerdict::peak_step)
      .def_ro("recomputes", &DeviceVerdict::recomputes)
      .def_ro("copies", &DeviceVerdict::copies);
  bind_common<DeviceScheduleHandle>(module, "DeviceSchedule")
      .def_static("read", &read_device_schedule)
      .def("verify_for", nb::overload_cast<const DeviceScheduleHandle&, const DeviceGraphHandle&>(&verify_for))
      .def("memory",
           [](const DeviceScheduleHandle& self) {
             expect_valid(self);
             return report::profile_of(*self.graph, self.schedule).memory;
           })
      .def("times", &times_of)
      .def_prop_ro("overlap",
                   [](const DeviceScheduleHandle& self) { return self.schedule.copies == CopyMode::overlap; })
      .def_prop_ro("least_energy",
                   [](const DeviceScheduleHandle& self) { return self.schedule.objective == Objective::energy; })
      .def_prop_ro("energy", [](const DeviceScheduleHandle& self) { return self.schedule.energy; });
}

}  // namespace

void bind_schedule(nb::module_& module) {
  nb::class_<Verdict>(module, "Verdict")
      .def_ro("errors", &Verdict::errors)
      .def_ro("duration", &Verdict::duration)
      .def_ro("peak", &Verdict::peak)
      .def_ro("peak_step", &Verdict::peak_step)
      .def_ro("recomputes", &Verdict::recomputes);
  bind_refusal(module);
  bind_common<ScheduleHandle>(module, "Schedule")
      .def_static("read", &read_schedule, nb::arg("graph"), nb::arg("text"))
      .def_static("evaluate", &evaluate_sequence, nb::arg("graph"), nb::arg("ops"), nb::arg("max_computes"),
                  nb::arg("free_order"))
      .def("verify_for", nb::overload_cast<const ScheduleHandle&, const GraphHandle&>(&verify_for), nb::arg("graph"))
      .def_prop_ro("baseline_peak", [](const ScheduleHandle& self) { return self.schedule.baseline_peak_memory; })
      .def_prop_ro("overhead", [](const ScheduleHandle& self) { return self.schedule.overhead(); })
      .def_prop_ro("least_overhead", [](const ScheduleHandle& self) { return self.schedule.least_overhead(); })
      .def_prop_ro("gap", [](const ScheduleHandle& self) { return self.schedule.gap(); })
      .def_prop_ro("reached_peak", [](const ScheduleHandle& self) { return self.schedule.solver.reached_peak; })
      .def_prop_ro("note", [](const ScheduleHandle& self) { return self.schedule.solver.note; })
      .def_prop_ro("certificate", &certificate_of)
      .def_prop_ro("arena", &arena_of)
      .def_prop_ro("slices", &slices_of)
      .def_prop_ro("without_slices", &without_slices)
      .def("slice_sources", &slice_sources)
      .def("sliced_graph",
           [](const ScheduleHandle& self) {
             return self.whole ? std::optional(GraphHandle(*self.graph)) : std::nullopt;
           })
      .def("memory", &memory_of)
      .def("residences", &residences_of);
  bind_device_schedule(module);
}

}  // namespace remora::python
