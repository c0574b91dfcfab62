// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/answer.hpp"

#include <optional>
#include <ostream>
#include <tuple>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/report/schedule_profile.hpp"
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

std::vector<std::int64_t> counts(const std::vector<Bytes>& amounts) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(amounts.size());
  for (const Bytes amount : amounts) numbers.push_back(amount.count());
  return numbers;
}

Answer* read_schedule(const GraphHandle& graph, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  validate(*snapshot);
  Schedule schedule = json::read_schedule(json::Text(view), *snapshot);
  return new Answer{std::move(snapshot), std::move(schedule)};
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

Answer* evaluate_sequence(const GraphHandle& graph, const Ids& ops, int max_computes, bool free_order) {
  auto snapshot = graph.snapshot();
  const Instance instance(snapshot,
                          {.max_computes = max_computes, .order = free_order ? OrderMode::free : OrderMode::input});
  Answer answer{std::move(snapshot), schedule_of(instance, checked_sequence(graph, instance, ops))};
  const Verdict verdict = verify(*answer.graph, answer.schedule);
  if (!verdict.valid()) throw InputError("ops", printable(verdict.errors.front()));
  return new Answer(std::move(answer));
}

/// Op, releases, mode.
std::vector<std::tuple<std::int32_t, Ids, ModeNumber>> steps_of_answer(const Answer& answer) {
  std::vector<std::tuple<std::int32_t, Ids, ModeNumber>> steps;
  steps.reserve(answer.schedule.steps.size());
  for (const Step& step : answer.schedule.steps) {
    steps.emplace_back(step.op, Ids(step.free.begin(), step.free.end()), step.mode);
  }
  return steps;
}

Evaluation evaluation_of(const Answer& answer) {
  std::vector<Compute> computes;
  for (const Step& step : answer.schedule.steps) computes.push_back({step.op, step.mode});
  return evaluate(*answer.with_modes, computes);
}

using CertificateTuple = std::tuple<std::int32_t, std::int64_t, Ids>;

std::optional<CertificateTuple> certificate_of(const Answer& answer) {
  const auto& certificate = answer.schedule.certificate;
  if (!certificate) return std::nullopt;
  return CertificateTuple(certificate->op, certificate->required.count(),
                          Ids(certificate->tensors.begin(), certificate->tensors.end()));
}

struct Memory {
  std::vector<std::int64_t> before{};
  std::vector<std::int64_t> after{};
};

using OffsetRows = std::vector<std::pair<std::int32_t, std::int64_t>>;
/// Alignment, size, offsets of inputs, and for each step of what it allocates and of its workspace.
using ArenaTuple =
    std::tuple<std::int64_t, std::int64_t, OffsetRows, std::vector<std::pair<OffsetRows, std::optional<std::int64_t>>>>;

OffsetRows offset_rows(const Arena::Offsets& offsets) {
  OffsetRows rows;
  rows.reserve(offsets.size());
  for (const auto& [tensor, offset] : offsets) rows.emplace_back(tensor, offset.count());
  return rows;
}

std::optional<ArenaTuple> arena_of_answer(const Answer& answer) {
  const auto& arena = answer.schedule.arena;
  if (!arena) return std::nullopt;
  ArenaTuple result{arena->alignment.count(), arena->size.count(), offset_rows(arena->inputs), {}};
  for (const Arena::Allocations& step : arena->steps) {
    auto& row = std::get<3>(result).emplace_back(offset_rows(step.outputs), std::nullopt);
    if (step.workspace) row.second = step.workspace->count();
  }
  return result;
}

/// Of the input order without recompute, and of the schedule, at every step.
Memory memory_of_answer(const Answer& answer) {
  if (answer.with_modes) {
    return {counts(evaluate(*answer.with_modes, computes_of(input_order(*answer.with_modes))).memory),
            counts(evaluation_of(answer).memory)};
  }
  expect_valid(answer);
  const nb::gil_scoped_release unlocked;
  return {counts(report::input_order_replay(answer.graph).memory),
          counts(report::replay(*answer.graph, answer.schedule.steps).memory)};
}

/// The stays of tensors in memory, as tensor, first step, last step.
std::vector<std::tuple<std::int32_t, int, int>> residences_of(const Answer& answer) {
  std::vector<std::tuple<std::int32_t, int, int>> stays;
  if (answer.with_modes) {
    for (const RetentionInterval& stay : evaluation_of(answer).intervals) {
      stays.emplace_back(stay.tensor, stay.first_step, stay.last_step);
    }
    return stays;
  }
  expect_valid(answer);
  for (const report::Residence& stay : report::replay(*answer.graph, answer.schedule.steps).residences) {
    stays.emplace_back(stay.tensor, stay.first_step, stay.last_step);
  }
  return stays;
}

/// The schedule as one of this graph: by the names of its ops and tensors, where it was made of another graph.
Verdict verify_for(const Answer& answer, const GraphHandle& graph) {
  const auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  validate(*snapshot);
  if (answer.with_modes) {
    if (snapshot == answer.graph || *snapshot == *answer.graph) return verify(*answer.with_modes, answer.schedule);
    throw InputError("graph", "another than that of the schedule, whose ops have several modes");
  }
  if (snapshot == answer.graph) return verify(*snapshot, answer.schedule);
  const std::string text = text_of(answer);
  return verify(*snapshot, json::read_schedule(json::Text(text), *snapshot));
}

}  // namespace

std::string text_of(const Answer& answer) {
  if (answer.with_modes) throw InputError("schedule", "its ops have several modes, and remora-schedule 1 knows one");
  return text::written([&](std::ostream& out) { json::write_schedule(out, answer.schedule, *answer.graph); });
}

void expect_valid(const Answer& answer) {
  if (answer.with_modes) throw InputError("schedule", "its ops have several modes, and reports know one");
  if (!answer.schedule.has_schedule()) throw InputError("schedule", "there are no steps: none was found");
  const Verdict verdict = verify(*answer.graph, answer.schedule);
  if (!verdict.valid()) {
    throw InputError("schedule", "not a valid one of its graph: " + printable(verdict.errors.front()));
  }
}

void bind_answer(nb::module_& module) {
  nb::class_<Verdict>(module, "Verdict")
      .def_ro("errors", &Verdict::errors)
      .def_prop_ro("duration", [](const Verdict& self) { return self.duration.count(); })
      .def_prop_ro("peak", [](const Verdict& self) { return self.peak.count(); })
      .def_ro("peak_step", &Verdict::peak_step)
      .def_ro("recomputes", &Verdict::recomputes);
  nb::class_<Memory>(module, "Memory").def_ro("before", &Memory::before).def_ro("after", &Memory::after);
  const auto amount = [](auto member) {
    return [member](const Answer& self) { return (self.schedule.*member).count(); };
  };
  nb::class_<Answer>(module, "Answer")
      .def_static("read", &read_schedule, nb::arg("graph"), nb::arg("text"))
      .def_static("evaluate", &evaluate_sequence, nb::arg("graph"), nb::arg("ops"), nb::arg("max_computes"),
                  nb::arg("free_order"))
      .def(
          "write", [](const Answer& self) { return text_of(self); }, nb::call_guard<nb::gil_scoped_release>())
      .def("verify_for", &verify_for, nb::arg("graph"))
      .def_prop_rw(
          "graph_sha256", [](const Answer& self) { return self.schedule.graph_sha256; },
          [](Answer& self, std::string digest) { self.schedule.graph_sha256 = std::move(digest); })
      .def_prop_ro("status", [](const Answer& self) { return json::status_word(self.schedule.status); })
      .def_prop_ro("has_modes", [](const Answer& self) { return self.with_modes != nullptr; })
      .def_prop_ro("is_free", [](const Answer& self) { return self.schedule.order == OrderMode::free; })
      .def_prop_ro("has_schedule", [](const Answer& self) { return self.schedule.has_schedule(); })
      .def_prop_ro("budget", amount(&Schedule::budget))
      .def_prop_ro("duration", amount(&Schedule::duration))
      .def_prop_ro("baseline_duration", amount(&Schedule::baseline_duration))
      .def_prop_ro("peak", amount(&Schedule::peak_memory))
      .def_prop_ro("baseline_peak", amount(&Schedule::baseline_peak_memory))
      .def_prop_ro("lower_bound", amount(&Schedule::lower_bound))
      .def_prop_ro("overhead", [](const Answer& self) { return self.schedule.overhead(); })
      .def_prop_ro("least_overhead", [](const Answer& self) { return self.schedule.least_overhead(); })
      .def_prop_ro("gap", [](const Answer& self) { return self.schedule.gap(); })
      .def_prop_ro("reached_peak", [](const Answer& self) { return self.schedule.solver.reached_peak.count(); })
      .def_prop_ro("note", [](const Answer& self) { return self.schedule.solver.note; })
      .def_prop_ro("step_count", [](const Answer& self) { return self.schedule.steps.size(); })
      .def_prop_ro("steps", &steps_of_answer)
      .def_prop_ro("certificate", &certificate_of)
      .def_prop_ro("arena", &arena_of_answer)
      .def("memory", &memory_of_answer)
      .def("residences", &residences_of);
}

}  // namespace remora::python
