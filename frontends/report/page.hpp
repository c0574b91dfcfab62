// SPDX-License-Identifier: Apache-2.0
//
// A report as one self-contained HTML page: style, script and data are inside, nothing is fetched. Its
// Content-Security-Policy allows exactly its own script and style, so that no name of a graph can ever run.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/formats/json_text.hpp"
#include "frontends/report/profile.hpp"
#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"

namespace remora::report {

struct Page {
  /// For a graph over several devices its names and dependencies, DeviceGraph::graph.
  std::shared_ptr<const Graph> graph{};
  /// The graph in the slices of the schedule, which is `graph`, and the graph as it was, whose tensors have a row each.
  /// Null without slices.
  std::shared_ptr<const SlicedGraph> sliced{};
  std::shared_ptr<const Graph> whole{};
  /// The graph over several devices; null of one for a single device.
  std::shared_ptr<const DeviceGraph> devices{};
  /// "ns", …, or "" if unknown.
  std::string duration_unit{};
  /// Each without steps, or one that `verify` finds valid for the graph. At least one unless there is a curve.
  std::vector<Schedule> schedules{};
  /// In their place where there are several devices.
  std::vector<DeviceSchedule> device_schedules{};
  std::optional<Curve> curve{};

  struct PointSchedule {
    /// Number of the point's schedule in `schedules`; none if it has none here.
    std::optional<std::size_t> schedule{};
    /// Why there is none.
    std::string why{};
  };
  /// One for each point of the curve; several may share a schedule.
  std::vector<PointSchedule> points{};
};

/// Writes the page. Throws InputError for names that are not UTF-8; then nothing has been written. Numbers are exact up
/// to 2^53, JavaScript's limit.
void write_page(std::ostream& out, const Page& page);

// The data inside a page as compact JSON: arrays of numbers instead of an object per interval. What reads it is
// frontends/report/assets/data.js.

/// The graph, its input order without recompute, and the curve if there is one. Of a graph over several devices "devices" instead
/// of "base" and "before".
///
///     {"name", "unit", "base", "fixed", "first": number of the schedule shown first or -1,
///      "ops": {"name", "types": distinct ones, "type": index into them, "duration", "workspace"},
///      "tensors": {"name", "size", "producer": op or -1}, "before": replay, "curve"?,
///      "slices"?: {"peak": of the graph as it was, "names": of its tensors, "source": of each tensor the number of its
///                  name, "slice": its own number or -1},
///      "devices"?: {"name", "fixed", "base"}}
///
/// A replay is {"memory", "peak", "peak_step", "stays": flat [tensor, first step less that of the stay before, steps
/// after the first, …]}.
std::string graph_data(const Page& page);

/// One schedule: the keys of remora-schedule, steps as op numbers, its replay's keys, "retained" flat as [op, first
/// stage, last stage, …], "recomputed" flat, ten numbers an op (RecomputedOp, -1 for no op), and with addresses
/// "arena": {"alignment", "size", "boxes": flat [tensor or -1 for a workspace, first step, steps after it, offset, size, …]}.
std::string schedule_data(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile);

/// Several devices in graph_data: the member "devices".
void append_devices(json::ObjectText& object, std::string& out, const DeviceGraph& graph);

/// One schedule over several devices (assets/devices.js):
///
///     {the figures of remora-schedule 2, "steps": op or -1 of a copy, "copied": tensor or -1, "device", "to": device or -1,
///      "times": when each step begins, and the end; "workspace" of each step,
///      "devices": [{"budget": bytes or null, "peak", "peak_step", "memory": at each step, "stays" as above,
///                   "begun": 0 a first run, 1 a recompute, 2 a copy; of each stay}],
///      "runs": flat by device [runs, of them again, time, energy], "again": flat [op, device, times, again, time, energy],
///      "links": flat [from, to, copies, bytes, time, energy], "transfers": flat [tensor, from, to, copies, bytes, time, energy]}
std::string device_schedule_data(const DeviceGraph& graph, const DeviceSchedule& schedule,
                                 const DeviceProfile& profile);

/// Name and value of how a schedule was made.
using Pairs = std::vector<std::pair<std::string, std::string>>;
/// Those that schedules of one device and of several have.
Pairs solver_pairs(const SolverReport& solver, const std::string& graph_sha256);
void append_pairs(std::string& out, const Pairs& all);

/// The page's style sheet, the inside of its body, and its script (frontends/report/assets), put in by the build.
extern const std::string_view kPageStyle;
extern const std::string_view kPageBody;
extern const std::string_view kPageScript;

}  // namespace remora::report
