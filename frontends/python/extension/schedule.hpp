// SPDX-License-Identifier: Apache-2.0
//
// Schedules and curves as Python holds them, and the parts of the module.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "engine/ask/ask.hpp"
#include "model/curve.hpp"
#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora::python {

/// A schedule and the graph as it was when it was solved.
struct ScheduleHandle {
  std::shared_ptr<const Graph> graph{};
  Schedule schedule{};
  /// Why it has no steps, where the engine has just said so.
  Refusal refusal{};
  /// The graph that was solved, of a schedule with slices: `graph` is that in slices. Otherwise null.
  std::shared_ptr<const Graph> whole{};

  [[nodiscard]] const std::shared_ptr<const Graph>& solved() const { return whole ? whole : graph; }
};

struct DeviceGraphHandle {
  std::shared_ptr<const DeviceGraph> graph{};
  /// Digest of its text.
  std::string sha256{};
};

struct DeviceScheduleHandle {
  std::shared_ptr<const DeviceGraph> graph{};
  DeviceSchedule schedule{};
  Refusal refusal{};
};

/// A sweep's answer and the graph as it was when it was swept.
struct CurveHandle {
  std::shared_ptr<const Graph> graph{};
  Curve curve{};
  /// By point, as far as they are there.
  std::vector<std::optional<Schedule>> schedules{};
  /// By point, the graph in the slices of its schedule; null or left out without.
  std::vector<std::shared_ptr<const Graph>> sliced{};

  /// The schedule of a point that has one.
  [[nodiscard]] ScheduleHandle schedule_of(std::size_t point) const {
    if (point >= sliced.size() || !sliced[point]) return {.graph = graph, .schedule = *schedules[point]};
    return {.graph = sliced[point], .schedule = *schedules[point], .whole = graph};
  }
};

/// The bytes of the schedule's file.
std::string text_of(const ScheduleHandle& handle);
std::string text_of(const DeviceScheduleHandle& handle);

/// Throws InputError unless the schedule is a valid one of its graph: what may be shown and replayed.
void expect_valid(const ScheduleHandle& handle);
void expect_valid(const DeviceScheduleHandle& handle);

/// The schedule as a page, a picture of memory (or of what runs where), a table of the recomputed ops (or of runs and
/// copies).
std::string page_of(const ScheduleHandle& handle);
std::string svg_of(const ScheduleHandle& handle);
std::string csv_of(const ScheduleHandle& handle);
std::string page_of(const DeviceScheduleHandle& handle);
std::string svg_of(const DeviceScheduleHandle& handle);
std::string csv_of(const DeviceScheduleHandle& handle);

// The parts of the module. Calls of the engine (solve, sweep, order, least_budget, place, pipeline) give a pair: what they found, and the
// exception that a callback or a signal ended them with, or None.

void bind_schedule(nanobind::module_& module);
void bind_solve(nanobind::module_& module);
void bind_sweep(nanobind::module_& module);
void bind_order(nanobind::module_& module);
void bind_place(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);
void bind_hlo(nanobind::module_& module);
void bind_machine(nanobind::module_& module);

/// Pages, pictures and tables of sweeps, and amounts in words.
void bind_report(nanobind::module_& module);

}  // namespace remora::python
