// SPDX-License-Identifier: Apache-2.0
//
// Remora's own JSON files: graphs, schedules, curves.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/curve.hpp"
#include "model/devices/graph.hpp"
#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::json {

// Reading and writing remora-graph (docs/reference/formats.md).

/// The graph in `text`, already validated. Throws InputError with the JSON path of the first fault
/// ("$.ops[3].inputs[0]") or, for text that is not JSON, its line and column. Unknown keys are kept for write_graph,
/// their numbers as 64-bit integers where they fit and as doubles otherwise. 100,000 ops with three inputs each (33 MB)
/// take 0.8 s and 210 MB. A graph that names devices is rejected.
REMORA_API Graph read_graph(Text text);

/// Writes `graph` as one JSON object: an entry of `tensors` and of `ops` a line, known keys in the format's order
/// (those with their default value left out), then the unknown ones. Reading it again gives an equal graph, and writing
/// that the same bytes. Throws InputError for what read_graph would reject: an invalid graph, a name that is not UTF-8,
/// `meta` or `extra` that are no JSON objects. Then nothing has been written.
REMORA_API void write_graph(std::ostream& out, const Graph& graph);

/// True if the text is a graph, or a schedule, that names devices. False for what is no JSON object; its reader then
/// says what is wrong.
REMORA_API bool names_devices(Text text);

/// As read_graph and write_graph, for a graph with `devices`. An op that runs on the first device alone is written
/// without `on`.
REMORA_API DeviceGraph read_device_graph(Text text);
REMORA_API void write_graph(std::ostream& out, const DeviceGraph& graph);

// Reading and writing remora-schedule (docs/reference/formats.md).

/// The slices that the schedule in `text` states: its steps are those of the graph in slices (`graph_in_slices` of
/// engine/ask/ask.hpp), which read_schedule then takes. Only a text with that word is parsed. Throws InputError with
/// the JSON path of the first fault.
REMORA_API std::optional<ScheduleSlices> read_slices(Text text);

/// The schedule in `text`, its ops and tensors looked up in `graph`. Throws InputError with the JSON path of the first
/// fault. Whether the steps are right is the business of `verify`, and so is whether the figures fit them. `solver`
/// and all inside it may be missing; unknown keys are ignored.
REMORA_API Schedule read_schedule(Text text, const Graph& graph);

/// Schedule::reading of a schedule, or of a curve, before its graph is there. Only a text with that word is parsed:
/// throws InputError if it is not JSON; of other JSON there is none.
REMORA_API std::vector<std::string> read_reading(Text text);

/// Writes the schedule as one JSON object, one line per step. Its seconds and statistics must be finite, and the
/// latter's names distinct; only the time limit may be infinite, which is written as null. Throws InputError for an id
/// that `graph` does not have and for a string that is not UTF-8; then nothing has been written.
REMORA_API void write_schedule(std::ostream& out, const Schedule& schedule, const Graph& graph);

/// As read_schedule and write_schedule, for a graph with `devices`.
REMORA_API DeviceSchedule read_schedule(Text text, const DeviceGraph& graph);
REMORA_API void write_schedule(std::ostream& out, const DeviceSchedule& schedule, const DeviceGraph& graph);

// Reading and writing remora-curve 1 (docs/guide/sweep.md).

/// Throws InputError with the JSON path of the first fault: also for budgets that don't ascend, and for durations or
/// bounds that increase with the budget. Unknown keys are ignored.
REMORA_API Curve read_curve(Text text);

/// True if `text` is JSON that calls itself remora-curve. Throws InputError for text that is not JSON.
REMORA_API bool is_curve(Text text);

/// Writes the curve as one JSON object, one line per point. Its seconds must be finite. Throws InputError for a string
/// that is not UTF-8; then nothing has been written.
REMORA_API void write_curve(std::ostream& out, const Curve& curve);

}  // namespace remora::json
