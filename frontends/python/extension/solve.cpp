// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "frontends/formats/interchange.hpp"
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/placement.hpp"
#include "model/schedule_buffers.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

/// Python's functions, or None.
struct Listeners {
  nb::object incumbent;
  nb::object progress;
  nb::object heartbeat;
};

/// The problem of a schedule whose ops have several modes, with as many computes as it takes; else null.
std::shared_ptr<const Instance> with_modes(const Request& request, const Schedule& schedule) {
  if (!request.modes) return nullptr;
  return std::make_shared<const Instance>(
      request.graph,
      Problem{
          .budget = request.budget, .max_computes = std::max(1, schedule.solver.max_computes), .order = schedule.order},
      request.modes);
}

SolveCallbacks callbacks_for(const Listeners& listeners, const Request& request, WatchedRun& watch) {
  SolveCallbacks callbacks;
  callbacks.cancel = &watch.cancel();
  callbacks.progress = teller(listeners.progress, watch);
  callbacks.heartbeat = teller(listeners.heartbeat, watch);
  if (!listeners.incumbent.is_none()) {
    callbacks.incumbent = [&watch, &listeners, &request](const Schedule& schedule) {
      watch.call([&] {
        heed(listeners.incumbent(Answer{request.graph, schedule, with_modes(request, schedule)}), watch);
      });
    };
  }
  return callbacks;
}

Sequence start_from(const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
  Sequence start;
  start.reserve(ops.size());
  for (const std::int32_t op : ops) start.push_back(graph.op_id(op));
  return start;
}

std::pair<Answer, nb::object> solve_graph(const GraphHandle& graph, const std::string& budget, const OptionTexts& texts,
                                          std::optional<int> max_computes, const std::optional<std::string>& order,
                                          const std::vector<OpModesRow>& modes,
                                          const std::vector<std::int32_t>& warm_start,
                                          std::optional<std::int64_t> alignment, nb::object incumbent,
                                          nb::object progress, nb::object heartbeat, nb::object stop) {
  Request request = request_from(graph, texts, max_computes, order, modes);
  request.start = start_from(graph, warm_start);
  check_request(request);
  if (alignment) request.alignment = Bytes(*alignment);
  const Listeners listeners{std::move(incumbent), std::move(progress), std::move(heartbeat)};
  WatchedRun watch(std::move(stop));
  Answer answer{.graph = request.graph};
  const SolveCallbacks callbacks = callbacks_for(listeners, request, watch);
  watch.run([&] {
    request.budget = amount_from(budget, request, "budget");
    answer.schedule = solve(request, callbacks).schedule;
    answer.with_modes = with_modes(request, answer.schedule);
  });
  return {std::move(answer), watch.interruption()};
}

/// Proved, reached, the ops of a schedule that reached it, if those are known, and how often an op may run in all this.
using Bracket = std::tuple<std::int64_t, std::int64_t, std::vector<std::int32_t>, int>;

std::pair<Bracket, nb::object> least_budget_of(const GraphHandle& graph, const OptionTexts& texts,
                                               std::optional<int> max_computes, const std::optional<std::string>& order,
                                               const std::vector<OpModesRow>& modes, nb::object stop) {
  const Request request = request_from(graph, texts, max_computes, order, modes);
  WatchedRun watch(std::move(stop));
  BudgetBracket bracket;
  watch.run([&] { bracket = least_budget(request, &watch.cancel()); });
  return {Bracket(bracket.proved.count(), bracket.reached.count(),
                  std::vector<std::int32_t>(bracket.sequence.begin(), bracket.sequence.end()), bracket.max_computes),
          watch.interruption()};
}

}  // namespace

void bind_solve(nb::module_& module) {
  module.def("solve", &solve_graph, nb::arg("graph"), nb::arg("budget"), nb::arg("options"),
             nb::arg("max_computes").none(), nb::arg("order").none(), nb::arg("modes"), nb::arg("warm_start"),
             nb::arg("alignment").none(), nb::arg("incumbent").none(), nb::arg("progress").none(),
             nb::arg("heartbeat").none(), nb::arg("stop").none());
  module.def("least_budget", &least_budget_of, nb::arg("graph"), nb::arg("options"), nb::arg("max_computes").none(),
             nb::arg("order").none(), nb::arg("modes"), nb::arg("stop").none());
}

namespace {

using Offsets = std::vector<std::int64_t>;
/// Id, lower, upper, size, alignment, fixed offset, gaps.
using BufferRow = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::optional<std::int64_t>, std::vector<std::pair<std::int64_t, std::int64_t>>>;

struct PlacementAnswer {
  std::string status{};
  Offsets offsets{};
  std::int64_t arena = 0;
  std::int64_t lower_bound = 0;
  double seconds = 0;
  std::int64_t work = 0;
};

Buffer buffer_from(const BufferRow& row) {
  const auto& [id, lower, upper, size, alignment, offset, gaps] = row;
  Buffer buffer{.id = id, .lifespan = {lower, upper}, .size = Bytes(size), .alignment = Bytes(alignment)};
  if (offset) buffer.offset = Bytes(*offset);
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
    BufferRow row{buffer.id,
                  buffer.lifespan.lower,
                  buffer.lifespan.upper,
                  buffer.size.count(),
                  buffer.alignment.count(),
                  std::nullopt,
                  {}};
    if (buffer.offset) std::get<5>(row) = buffer.offset->count();
    for (const Lifespan& gap : buffer.gaps) std::get<6>(row).emplace_back(gap.lower, gap.upper);
    rows.push_back(std::move(row));
  }
  return rows;
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

PlacementAnswer told(const PlaceResult& result, const Deadline& deadline) {
  PlacementAnswer answer{.status = status_name(result.status),
                         .arena = result.arena.count(),
                         .lower_bound = result.lower_bound.count(),
                         .seconds = deadline.elapsed(),
                         .work = result.work};
  for (const Bytes offset : result.offsets) answer.offsets.push_back(offset.count());
  return answer;
}

std::pair<PlacementAnswer, nb::object> place_buffers(const std::vector<BufferRow>& rows, std::int64_t alignment,
                                                     const std::optional<std::string>& capacity,
                                                     const OptionTexts& texts, bool heuristics, nb::object stop) {
  const SolveOptions options = options_from(texts);
  std::vector<Buffer> buffers = buffers_from(rows);
  WatchedRun watch(std::move(stop));
  PlacementAnswer answer;
  watch.run([&] {
    check_alignment(Bytes(alignment));
    check_buffers(buffers);
    align(buffers, Bytes(alignment));
    const PlaceSettings settings = settings_from(options, capacity, heuristics, buffers);
    const Deadline deadline(options.time_limit, &watch.cancel());
    answer = told(place(buffers, settings, [&] { return deadline.reached(); }), deadline);
  });
  return {std::move(answer), watch.interruption()};
}

std::vector<BufferRow> schedule_rows(const Answer& answer, std::int64_t alignment) {
  check_alignment(Bytes(alignment));
  expect_valid(answer);
  return rows_of(buffers_of(*answer.graph, answer.schedule, Bytes(alignment)).buffers);
}

/// The schedule with addresses, where these offsets stay within its budget, else without.
Answer with_offsets(const Answer& answer, std::int64_t alignment, const Offsets& offsets) {
  Answer placed = answer;
  placed.schedule.arena.reset();
  const ScheduleBuffers buffers = buffers_of(*answer.graph, answer.schedule, Bytes(alignment));
  std::vector<Bytes> given;
  for (const std::int64_t offset : offsets) given.emplace_back(offset);
  Arena arena = make_arena(placed.schedule, buffers, given, Bytes(alignment));
  if (arena.size > placed.schedule.budget - answer.graph->fixed_memory) return placed;
  placed.schedule.arena = std::move(arena);
  ensure(verify(*placed.graph, placed.schedule).valid(), "place: the arena does not verify");
  return placed;
}

std::vector<BufferRow> read_rows(const nb::bytes& text, const std::string& source) {
  return rows_of(interchange::read_buffers({text.c_str(), text.size()}, source));
}

std::string write_rows(const std::vector<BufferRow>& rows, const Offsets& offsets) {
  std::vector<Bytes> given;
  for (const std::int64_t offset : offsets) given.emplace_back(offset);
  return text::written([&](std::ostream& out) { interchange::write_buffers(out, buffers_from(rows), given); });
}

}  // namespace

void bind_place(nb::module_& module) {
  nb::class_<PlacementAnswer>(module, "PlacementAnswer")
      .def_ro("status", &PlacementAnswer::status)
      .def_ro("offsets", &PlacementAnswer::offsets)
      .def_ro("arena", &PlacementAnswer::arena)
      .def_ro("lower_bound", &PlacementAnswer::lower_bound)
      .def_ro("seconds", &PlacementAnswer::seconds)
      .def_ro("work", &PlacementAnswer::work);
  module.def("place", &place_buffers, nb::arg("buffers"), nb::arg("alignment"), nb::arg("capacity").none(),
             nb::arg("options"), nb::arg("heuristics"), nb::arg("stop").none());
  module.def("schedule_buffers", &schedule_rows, nb::arg("schedule"), nb::arg("alignment"));
  module.def("with_offsets", &with_offsets, nb::arg("schedule"), nb::arg("alignment"), nb::arg("offsets"));
  module.def("read_buffers", &read_rows, nb::arg("text"), nb::arg("source"));
  module.def("write_buffers", &write_rows, nb::arg("buffers"), nb::arg("offsets"));
}

}  // namespace remora::python
