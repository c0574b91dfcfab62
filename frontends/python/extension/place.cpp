// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
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

#include "engine/ask/ask.hpp"
#include "engine/base/deadline.hpp"
#include "frontends/formats/banks_json.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "model/placement.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;
using Offsets = std::vector<Bytes>;
/// Id, lower, upper, size, alignment, fixed offset, gaps.
using BufferRow = std::tuple<std::string, std::int64_t, std::int64_t, Bytes, Bytes, std::optional<Bytes>,
                             std::vector<std::pair<std::int64_t, std::int64_t>>>;

Buffer buffer_from(const BufferRow& row) {
  const auto& [id, lower, upper, size, alignment, offset, gaps] = row;
  Buffer buffer{.id = id, .lifespan = {lower, upper}, .size = size, .alignment = alignment, .offset = offset};
  for (const auto& [begin, end] : gaps) buffer.gaps.push_back({begin, end});
  return buffer;
}

std::vector<Buffer> buffers_from(const std::vector<BufferRow>& rows) {
  std::vector<Buffer> buffers;
  buffers.reserve(rows.size());
  for (const BufferRow& row : rows) buffers.push_back(buffer_from(row));
  return buffers;
}

std::vector<BufferRow> rows_of(const std::vector<Buffer>& buffers) {
  std::vector<BufferRow> rows;
  rows.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    BufferRow row{buffer.id, buffer.lifespan.lower, buffer.lifespan.upper, buffer.size, buffer.alignment, buffer.offset,
                  {}};
    for (const Lifespan& gap : buffer.gaps) std::get<6>(row).emplace_back(gap.lower, gap.upper);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Name and capacity of each memory; of each buffer those that it may lie in, by number, and what that costs.
using BankRows = std::pair<std::vector<std::pair<std::string, Bytes>>,
                           std::vector<std::vector<std::pair<std::size_t, std::int64_t>>>>;

BankProblem problem_from(std::vector<Buffer> buffers, const BankRows& rows) {
  BankProblem problem{.buffers = std::move(buffers)};
  for (const auto& [name, capacity] : rows.first) problem.banks.push_back({name, capacity});
  for (const auto& choices : rows.second) {
    problem.choices.emplace_back();
    for (const auto& [bank, cost] : choices) problem.choices.back().push_back({bank, cost});
  }
  return problem;
}

PlaceSettings settings_from(const SolveOptions& options, const std::optional<std::string>& capacity, bool heuristics,
                            const std::vector<Buffer>& buffers) {
  PlaceSettings settings = place_settings(options);
  settings.exact = !heuristics;
  if (!capacity) return settings;
  try {
    settings.capacity = parse_budget(*capacity, Bytes(), largest_load(buffers));
  } catch (const InputError& error) {
    throw InputError("capacity", error.what());
  }
  return settings;
}

/// The result, and the seconds that it took.
using Placed = std::pair<PlaceResult, double>;

std::pair<Placed, nb::object> place_buffers(const std::vector<BufferRow>& rows, Bytes alignment,
                                            const std::optional<std::string>& capacity,
                                            const std::optional<BankRows>& banks, const OptionTexts& texts,
                                            bool heuristics, nb::object stop) {
  const SolveOptions options = options_from(texts);
  std::vector<Buffer> buffers = buffers_from(rows);
  WatchedRun watch(std::move(stop));
  Placed placed;
  watch.run([&] {
    check_alignment(alignment);
    check_buffers(buffers);
    align(buffers, alignment);
    const PlaceSettings settings = settings_from(options, capacity, heuristics, buffers);
    const Deadline deadline(options.time_limit, &watch.cancel());
    const auto is_over = [&] { return deadline.reached(); };
    placed.first = banks ? place(problem_from(buffers, *banks), settings, is_over) : place(buffers, settings, is_over);
    placed.second = deadline.elapsed();
  });
  return {std::move(placed), watch.interruption()};
}

std::vector<BufferRow> schedule_rows(const ScheduleHandle& handle, Bytes alignment) {
  check_alignment(alignment);
  expect_valid(handle);
  return rows_of(buffers_of(*handle.graph, handle.schedule, alignment).buffers);
}

/// The schedule with addresses, where these offsets stay within its budget, else without.
ScheduleHandle with_offsets(const ScheduleHandle& handle, Bytes alignment, const Offsets& offsets) {
  ScheduleHandle placed = handle;
  placed.schedule.arena.reset();
  const ScheduleBuffers buffers = buffers_of(*handle.graph, handle.schedule, alignment);
  Arena arena = make_arena(placed.schedule, buffers, offsets, alignment);
  if (arena.size > placed.schedule.budget - handle.graph->fixed_memory) return placed;
  placed.schedule.arena = std::move(arena);
  ensure(verify(*placed.graph, placed.schedule).valid(), "place: the arena does not verify");
  return placed;
}

std::vector<BufferRow> read_rows(const nb::bytes& text, const std::string& source) {
  return rows_of(interchange::read_buffers({text.c_str(), text.size()}, source));
}

std::pair<std::vector<BufferRow>, BankRows> read_banks(const nb::bytes& text, const std::string& source) {
  try {
    const BankProblem problem = json::read_bank_problem(json::Text({text.c_str(), text.size()}));
    BankRows rows;
    for (const Bank& bank : problem.banks) rows.first.emplace_back(bank.name, bank.capacity);
    for (const std::vector<BankChoice>& choices : problem.choices) {
      rows.second.emplace_back();
      for (const BankChoice& choice : choices) rows.second.back().emplace_back(choice.bank, choice.cost);
    }
    return {rows_of(problem.buffers), std::move(rows)};
  } catch (const InputError& error) {
    throw InputError(source, error.what());
  }
}

std::string write_banks(const std::vector<BufferRow>& rows, const BankRows& banks,
                        const std::vector<std::size_t>& placed, const Offsets& offsets) {
  return text::written([&](std::ostream& out) {
    json::write_bank_placement(out, problem_from(buffers_from(rows), banks), {placed, offsets});
  });
}

std::string write_rows(const std::vector<BufferRow>& rows, const Offsets& offsets) {
  return text::written([&](std::ostream& out) { interchange::write_buffers(out, buffers_from(rows), offsets); });
}

}  // namespace

void bind_place(nb::module_& module) {
  nb::class_<PlaceResult>(module, "PlaceResult")
      .def_prop_ro("status", [](const PlaceResult& self) { return json::status_word(self.status); })
      .def_ro("offsets", &PlaceResult::offsets)
      .def_ro("banks", &PlaceResult::banks)
      .def_ro("cost", &PlaceResult::cost)
      .def_ro("least_cost", &PlaceResult::least_cost)
      .def_ro("arena", &PlaceResult::arena)
      .def_ro("lower_bound", &PlaceResult::lower_bound)
      .def_ro("work", &PlaceResult::work);
  module.def("place", &place_buffers, nb::arg("buffers"), nb::arg("alignment"), nb::arg("capacity").none(),
             nb::arg("banks").none(), nb::arg("options"), nb::arg("heuristics"), nb::arg("stop").none());
  module.def("schedule_buffers", &schedule_rows, nb::arg("schedule"), nb::arg("alignment"));
  module.def("with_offsets", &with_offsets, nb::arg("schedule"), nb::arg("alignment"), nb::arg("offsets"));
  module.def("read_buffers", &read_rows, nb::arg("text"), nb::arg("source"));
  module.def("read_banks", &read_banks, nb::arg("text"), nb::arg("source"));
  module.def("write_banks", &write_banks, nb::arg("buffers"), nb::arg("banks"), nb::arg("placed"), nb::arg("offsets"));
  module.def("write_buffers", &write_rows, nb::arg("buffers"), nb::arg("offsets"));
}

}  // namespace remora::python
