// SPDX-License-Identifier: Apache-2.0
//
// The data inside a page.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/slices.hpp"
#include "frontends/text/text.hpp"
#include "model/buffers/schedule_buffers.hpp"

namespace remora::report {
namespace {

using List = json::ListText;
using json::append_row;

void append_stays(json::ObjectText& object, std::string& out, const std::vector<TensorStay>& stays) {
  object.key("stays");
  List list(out);
  int before = 0;
  for (const TensorStay& stay : stays) {
    list.add(std::int32_t{stay.tensor});
    list.add(stay.first_step - before);
    list.add(stay.last_step - stay.first_step);
    before = stay.first_step;
  }
  list.close();
}

void append_replay(json::ObjectText& object, std::string& out, const Replay& replay) {
  append_row(object, out, "memory", replay.memory, [](Bytes bytes) { return bytes.count(); });
  object.integer("peak", replay.peak.count());
  object.integer("peak_step", replay.peak_step);
  append_stays(object, out, replay.stays);
}

/// Where ops have several modes: the mode, duration and workspace of each step, and the size of each stay.
void append_modes(json::ObjectText& object, std::string& out, const Graph& graph, const Replay& replay) {
  if (!has_modes(graph)) return;
  append_row(object, out, "modes", replay.modes, [](ModeNumber mode) { return std::int64_t{mode}; });
  append_row(object, out, "durations", replay.durations, [](Duration duration) { return duration.count(); });
  append_row(object, out, "sizes", replay.stays, [](const TensorStay& stay) { return stay.size.count(); });
  append_row(object, out, "workspaces", replay.workspaces, [](Bytes bytes) { return bytes.count(); });
}

void append_ops(std::string& out, const Graph& graph) {
  std::unordered_map<std::string, std::int64_t> numbers;
  std::vector<std::string> types;
  for (const Op& op : graph.ops) {
    if (numbers.emplace(op.type, static_cast<std::int64_t>(types.size())).second) types.push_back(op.type);
  }
  json::ObjectText object(out, ",");
  append_row(object, out, "name", graph.ops, [](const Op& op) { return op.name; });
  append_row(object, out, "types", types, [](const std::string& type) { return type; });
  append_row(object, out, "type", graph.ops, [&](const Op& op) { return numbers.at(op.type); });
  append_row(object, out, "duration", graph.ops, [](const Op& op) { return op.duration.count(); });
  append_row(object, out, "workspace", graph.ops, [](const Op& op) { return op.workspace.count(); });
  object.close();
}

void append_tensors(std::string& out, const Graph& graph) {
  std::vector<std::int64_t> producers(graph.tensors.size(), -1);
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    for (const TensorId t : graph.ops[v].outputs) producers[t] = static_cast<std::int64_t>(v);
  }
  json::ObjectText object(out, ",");
  append_row(object, out, "name", graph.tensors, [](const Tensor& tensor) { return tensor.name; });
  append_row(object, out, "size", graph.tensors, [](const Tensor& tensor) { return tensor.size.count(); });
  append_row(object, out, "producer", producers, [](std::int64_t producer) { return producer; });
  object.close();
}

/// Tensors that are slices of one, or the same assembled slice by slice, share a row.
void append_slices(std::string& out, const Page& page) {
  json::ObjectText object(out, ",");
  object.integer("peak", page.schedules.front().baseline_peak_memory.count());
  append_row(object, out, "names", page.whole->tensors, [](const Tensor& tensor) { return tensor.name; });
  const auto& sources = page.sliced->tensors;
  append_row(object, out, "source", sources, [](const TensorSource& source) { return std::int64_t{source.tensor}; });
  append_row(object, out, "slice", sources, [](const TensorSource& source) { return std::int64_t{source.slice}; });
  object.close();
}

void append_point(std::string& out, const Curve& curve, const CurvePoint& point, const Page::PointSchedule& source) {
  json::ObjectText object(out, ",");
  object.integer("budget", point.budget.count());
  object.number("part", curve.part_of_baseline(point.budget));
  object.string("status", json::word_of(point.status, json::kStatusWords));
  object.key("overhead");
  json::append_number(out, point.has_schedule() ? curve.overhead(point) : NAN);
  object.key("peak");
  out += point.has_schedule() ? std::to_string(point.peak_memory.count()) : "null";
  object.number("bound", curve.least_overhead(point));
  object.integer("schedule", source.schedule ? static_cast<std::int64_t>(*source.schedule) : -1);
  object.string("why", source.why);
  object.close();
}

void append_curve(std::string& out, const Page& page) {
  const Curve& curve = *page.curve;
  const auto number = [](const std::optional<std::size_t>& i) { return i ? static_cast<std::int64_t>(*i) : -1; };
  json::ObjectText object(out, ",");
  object.integer("least_budget", curve.least_budget.count());
  object.integer("fixed", curve.fixed_memory.count());
  object.integer("baseline_peak_memory", curve.baseline_peak_memory.count());
  object.integer("knee", number(curve.knee));
  object.integer("smallest", number(curve.smallest_feasible()));
  object.key("points");
  List points(out);
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    points.separate();
    append_point(out, curve, curve.points[i], page.points[i]);
  }
  points.close();
  object.close();
}

/// The schedule that is shown first: the knee's if there is one, otherwise the first.
std::int64_t first_shown(const Page& page) {
  if (page.schedules.empty() && page.device_schedules.empty()) return -1;
  if (page.curve && page.curve->knee && page.points[*page.curve->knee].schedule) {
    return static_cast<std::int64_t>(*page.points[*page.curve->knee].schedule);
  }
  return 0;
}

void append_recomputed(json::ObjectText& object, std::string& out, const ScheduleProfile& profile) {
  object.key("recomputed");
  List list(out);
  for (const RecomputedOp& op : profile.recomputed_ops) {
    for (const std::int64_t value : {std::int64_t{op.op}, std::int64_t{op.times}, op.paid.count(), op.saved.count()}) {
      list.add(value);
    }
    for (const Overload& overload : {op.relieved, op.if_kept}) {
      list.add(overload.steps);
      list.add(std::int32_t{overload.op});
      list.add(overload.above.count());
    }
  }
  list.close();
}

void append_slower_modes(json::ObjectText& object, std::string& out, const ScheduleProfile& profile) {
  if (profile.slower_modes.empty()) return;
  object.key("slower_modes");
  List list(out);
  for (const SlowerMode& slower : profile.slower_modes) {
    for (const std::int64_t value :
         {std::int64_t{slower.op}, std::int64_t{slower.mode}, std::int64_t{slower.faster}, slower.saved.count(),
          std::int64_t{slower.if_faster.steps}, std::int64_t{slower.if_faster.op}, slower.if_faster.above.count()})
      list.add(value);
  }
  list.close();
}

void append_history(json::ObjectText& object, std::string& out, const std::vector<Incumbent>& history) {
  object.key("history");
  List list(out);
  for (const Incumbent& incumbent : history) {
    list.separate();
    List entry(out);
    entry.add_number(incumbent.seconds);
    entry.add(incumbent.duration.count());
    entry.add(incumbent.peak.count());
    entry.add(incumbent.source);
    entry.close();
  }
  list.close();
}

}  // namespace

Pairs solver_pairs(const SolverReport& solver, const std::string& graph_sha256) {
  const auto short_number = [](double value) {
    std::string text;
    json::append_number(text, std::round(value * 1000) / 1000);
    return text;
  };
  Pairs pairs;
  if (!solver.version.empty()) pairs.emplace_back("Remora", solver.version);
  if (solver.seconds > 0) pairs.emplace_back("Seconds", short_number(solver.seconds));
  if (solver.threads > 0) pairs.emplace_back("Threads", std::to_string(solver.threads));
  if (solver.seed > 0 || solver.threads > 0) pairs.emplace_back("Seed", std::to_string(solver.seed));
  if (solver.max_computes > 0) pairs.emplace_back("Maximum runs per op", std::to_string(solver.max_computes));
  if (solver.optimal_for_max_computes > 0) {
    const bool is_any = solver.optimal_for_max_computes == kAnyNumber;
    pairs.emplace_back("Proved optimal for runs per op",
                       is_any ? "any number" : "at most " + std::to_string(solver.optimal_for_max_computes));
  }
  if (solver.bound_for_any_number && solver.optimal_for_max_computes != kAnyNumber)
    pairs.emplace_back("Bound for runs per op", "any number");
  if (solver.work_limit > 0) pairs.emplace_back("Work limit", std::to_string(solver.work_limit));
  for (const Statistic& statistic : solver.statistics) {
    pairs.emplace_back(json::statistic_key(statistic), short_number(statistic.value));
  }
  if (!solver.note.empty()) pairs.emplace_back("Note", solver.note);
  if (!graph_sha256.empty()) pairs.emplace_back("SHA-256 of the graph's file", graph_sha256);
  return pairs;
}

void append_pairs(std::string& out, const Pairs& all) {
  List pairs(out);
  for (const auto& [name, value] : all) {
    pairs.separate();
    List pair(out);
    pair.add(name);
    pair.add(value);
    pair.close();
  }
  pairs.close();
}

namespace {

Pairs slice_pairs(const Schedule& schedule, const std::string& duration_unit) {
  Pairs pairs;
  if (!schedule.slices) return pairs;
  for (std::string& line : text::region_lines(*schedule.slices, duration_unit)) {
    pairs.emplace_back("Slices", std::move(line));
  }
  pairs.emplace_back("Overhead without slices", text::without_slices_text(schedule));
  return pairs;
}

void append_solver(std::string& out, const Schedule& schedule, const std::string& duration_unit) {
  json::ObjectText object(out, ",");
  object.number("seconds", schedule.solver.seconds);
  object.integer("max_computes", schedule.solver.max_computes);
  object.integer("reached", schedule.solver.reached_peak.count());
  object.key("pairs");
  Pairs pairs = slice_pairs(schedule, duration_unit);
  for (auto& pair : solver_pairs(schedule.solver, schedule.graph_sha256)) pairs.push_back(std::move(pair));
  append_pairs(out, pairs);
  object.key("options");
  append_pairs(out, schedule.solver.options);
  object.close();
}

void append_figures(json::ObjectText& object, const Schedule& schedule) {
  object.string("status", json::word_of(schedule.status, json::kStatusWords));
  object.string("order", json::word_of(schedule.order, json::kOrderWords));
  object.integer("budget", schedule.budget.count());
  object.integer("duration", schedule.duration.count());
  object.integer("baseline_duration", schedule.baseline_duration.count());
  object.number("overhead", schedule.overhead());
  object.integer("peak_memory", schedule.peak_memory.count());
  object.integer("baseline_peak_memory", schedule.baseline_peak_memory.count());
  object.integer("lower_bound", schedule.lower_bound.count());
  object.number("gap", schedule.gap());
}

/// Boxes of time and addresses, five numbers each (assets/data.js).
void append_arena(json::ObjectText& object, std::string& out, const Graph& graph, const Schedule& schedule) {
  const ScheduleBuffers found = buffers_of(graph, schedule);
  const std::vector<Bytes> offsets = offsets_in(*schedule.arena, found);
  object.key("arena");
  json::ObjectText arena(out, ",");
  arena.integer("alignment", schedule.arena->alignment.count());
  arena.integer("size", schedule.arena->size.count());
  arena.key("boxes");
  List boxes(out);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Buffer& buffer = found.buffers[i];
    for (const std::int64_t value :
         {std::int64_t{found.holders[i].tensor}, buffer.lifespan.lower,
          buffer.lifespan.upper - 1 - buffer.lifespan.lower, offsets[i].count(), buffer.size.count()}) {
      boxes.add(value);
    }
  }
  boxes.close();
  arena.close();
}

}  // namespace

std::string graph_data(const Page& page) {
  const Graph& graph = *page.graph;
  std::string out;
  json::ObjectText object(out, ",");
  object.string("name", graph.name);
  object.string("unit", page.duration_unit);
  object.integer("fixed", graph.fixed_memory.count());
  object.integer("first", first_shown(page));
  object.key("ops");
  append_ops(out, graph);
  object.key("tensors");
  append_tensors(out, graph);
  if (page.devices) {
    append_devices(object, out, *page.devices);
  } else {
    const Replay before = input_order_replay(page.graph);
    object.integer("base", before.base.count());
    object.key("before");
    json::ObjectText replay(out, ",");
    append_replay(replay, out, before);
    append_modes(replay, out, graph, before);
    replay.close();
  }
  if (page.sliced) {
    object.key("slices");
    append_slices(out, page);
  }
  if (page.curve) {
    object.key("curve");
    append_curve(out, page);
  }
  object.close();
  return out;
}

std::string schedule_data(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile) {
  std::string out;
  json::ObjectText object(out, ",");
  append_figures(object, schedule);
  append_row(object, out, "steps", profile.after.ops, [](OpId op) { return std::int64_t{op}; });
  append_replay(object, out, profile.after);
  append_modes(object, out, graph, profile.after);
  append_slower_modes(object, out, profile);
  object.key("retained");
  List retained(out);
  for (const RetainedStages& piece : profile.retained) {
    for (const std::int32_t value : {std::int32_t{piece.op}, std::int32_t{piece.first}, std::int32_t{piece.last}})
      retained.add(value);
  }
  retained.close();
  append_recomputed(object, out, profile);
  append_history(object, out, schedule.solver.history);
  if (schedule.arena) append_arena(object, out, graph, schedule);
  if (schedule.certificate) {
    object.key("certificate");
    json::ObjectText certificate(out, ",");
    certificate.integer("op", std::int32_t{schedule.certificate->op});
    certificate.integer("required", schedule.certificate->required.count());
    append_row(certificate, out, "tensors", schedule.certificate->tensors, [](TensorId t) { return std::int64_t{t}; });
    certificate.close();
  }
  object.key("solver");
  append_solver(out, schedule, text::duration_unit_of(graph));
  object.close();
  return out;
}

namespace {

constexpr const char* kObjectiveNames[] = {"duration", "energy"};

void append_device_figures(json::ObjectText& object, const DeviceSchedule& schedule) {
  object.string("status", json::word_of(schedule.status, json::kStatusWords));
  object.string("order", json::word_of(schedule.order, json::kOrderWords));
  object.string("objective", kObjectiveNames[static_cast<std::size_t>(schedule.objective)]);
  object.string("copies", schedule.copies == CopyMode::overlap ? "overlap" : "sequential");
  object.integer("duration", schedule.duration.count());
  object.integer("energy", schedule.energy.count());
  if (schedule.duration_limit) object.integer("duration_limit", schedule.duration_limit->count());
  if (schedule.energy_limit) object.integer("energy_limit", schedule.energy_limit->count());
  object.integer("baseline_duration", schedule.baseline_duration.count());
  object.integer("lower_bound", schedule.lower_bound);
}

void append_steps(json::ObjectText& object, std::string& out, const DeviceGraph& graph, const DeviceProfile& profile) {
  const auto& steps = profile.steps;
  append_row(object, out, "steps", steps, [](const DeviceStep& step) { return std::int64_t{step.op}; });
  append_row(object, out, "copied", steps,
             [](const DeviceStep& step) { return step.is_copy() ? std::int64_t{step.copied} : -1; });
  append_row(object, out, "device", steps, [](const DeviceStep& step) { return std::int64_t{step.device}; });
  append_row(object, out, "to", steps,
             [](const DeviceStep& step) { return step.is_copy() ? std::int64_t{step.to} : -1; });
  append_row(object, out, "workspace", steps, [&](const DeviceStep& step) {
    return step.is_copy() ? 0 : run_cost(graph, step.op, step.device)->workspace.count();
  });
  append_row(object, out, "times", profile.times, [](Duration time) { return time.count(); });
  append_row(object, out, "ends", profile.ends, [](Duration time) { return time.count(); });
  append_row(object, out, "stream", profile.stream,
             [](std::size_t stream) { return static_cast<std::int64_t>(stream); });
  append_row(object, out, "streams", stream_names(graph, profile),
             [](const std::string& name) { return std::string_view(name); });
}

void append_parts(std::string& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                  const DeviceProfile& profile) {
  List parts(out);
  for (const DeviceId d : graph.devices.ids()) {
    parts.separate();
    json::ObjectText part(out, ",");
    part.key("budget");
    out += schedule.budget[d] ? std::to_string(schedule.budget[d]->count()) : "null";
    part.integer("peak", profile.peak[d].count());
    part.integer("peak_step", profile.peak_step[d]);
    append_row(part, out, "memory", profile.memory[d], [](Bytes bytes) { return bytes.count(); });
    std::vector<TensorStay> stays;
    for (const TensorStay& stay : profile.stays) {
      if (stay.device == d) stays.push_back(stay);
    }
    append_stays(part, out, stays);
    append_row(part, out, "begun", stays, [](const TensorStay& stay) { return static_cast<std::int64_t>(stay.begun); });
    part.close();
  }
  parts.close();
}

/// Lists of numbers: what `row` has of each entry.
template <class Entries, class Row>
void append_flat(json::ObjectText& object, std::string& out, const char* key, const Entries& entries, const Row& row) {
  object.key(key);
  List list(out);
  for (const auto& entry : entries) {
    for (const std::int64_t value : row(entry)) list.add(value);
  }
  list.close();
}

void append_totals(json::ObjectText& object, std::string& out, const DeviceProfile& profile) {
  using Numbers = std::vector<std::int64_t>;
  append_flat(object, out, "runs", profile.lanes, [](const LaneUse& use) {
    return Numbers{use.device, use.times, use.again, use.duration.count(), use.energy.count()};
  });
  append_flat(object, out, "again", profile.runs, [](const OpRuns& runs) {
    if (runs.again == 0) return Numbers{};
    return Numbers{runs.op, runs.device, runs.times, runs.again, runs.duration.count(), runs.energy.count()};
  });
  append_flat(object, out, "links", profile.links, [](const LinkUse& use) {
    return Numbers{use.from, use.to, use.times, use.bytes.count(), use.duration.count(), use.energy.count()};
  });
  append_flat(object, out, "transfers", profile.transfers, [](const Transfer& copies) {
    return Numbers{copies.tensor,           copies.from,          copies.to, copies.times, copies.bytes.count(),
                   copies.duration.count(), copies.energy.count()};
  });
}

}  // namespace

void append_devices(json::ObjectText& object, std::string& out, const DeviceGraph& graph) {
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  Table<DeviceId, Bytes> base;
  for (const Device& device : graph.devices) base.push_back(device.fixed_memory);
  for (const TensorId t : graph.places.ids()) {
    if (produced[t]) continue;
    for (const DeviceId d : graph.places[t].home) base[d] += graph.graph[t].size;
  }
  object.key("devices");
  json::ObjectText devices(out, ",");
  append_row(devices, out, "name", graph.devices, [](const Device& device) { return std::string_view(device.name); });
  append_row(devices, out, "fixed", graph.devices, [](const Device& device) { return device.fixed_memory.count(); });
  append_row(devices, out, "base", base, [](Bytes bytes) { return bytes.count(); });
  devices.close();
}

std::string device_schedule_data(const DeviceGraph& graph, const DeviceSchedule& schedule,
                                 const DeviceProfile& profile) {
  std::string out;
  json::ObjectText object(out, ",");
  append_device_figures(object, schedule);
  append_steps(object, out, graph, profile);
  object.key("devices");
  append_parts(out, graph, schedule, profile);
  append_totals(object, out, profile);
  object.key("solver");
  json::ObjectText solver(out, ",");
  solver.key("pairs");
  append_pairs(out, solver_pairs(schedule.solver, schedule.graph_sha256));
  solver.key("options");
  append_pairs(out, {});
  solver.close();
  object.close();
  return out;
}

}  // namespace remora::report
