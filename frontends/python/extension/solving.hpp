// SPDX-License-Identifier: Apache-2.0
//
// The engine's calls as Python makes them: solve, sweep, order, least_budget, place. Each gives a pair: what it found, and the
// exception that a callback or a signal ended it with, or None.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::python {

void bind_solve(nanobind::module_& module);
void bind_sweep(nanobind::module_& module);
void bind_order(nanobind::module_& module);
void bind_place(nanobind::module_& module);
void bind_devices(nanobind::module_& module);

/// Pages, pictures and tables of schedules and sweeps.
void bind_report(nanobind::module_& module);

/// A sweep's answer and the graph as it was when it was swept.
struct CurveAnswer {
  std::shared_ptr<const Graph> graph{};
  Curve curve{};
  /// By point, as far as they are there.
  std::vector<std::optional<Schedule>> schedules{};
};

}  // namespace remora::python
