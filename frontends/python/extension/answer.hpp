// SPDX-License-Identifier: Apache-2.0
//
// What solves give to Python: a schedule and the graph as it was when it was solved.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora::python {

struct Answer {
  std::shared_ptr<const Graph> graph{};
  Schedule schedule{};
  /// The problem, where ops have several modes; else null.
  std::shared_ptr<const Instance> with_modes{};
};

/// The bytes of the schedule's file. Throws InputError where ops have several modes.
std::string text_of(const Answer& answer);

/// Throws InputError unless the schedule is a valid one of its graph: what may be shown and replayed. So it does where ops
/// have several modes, of which files and reports know nothing.
void expect_valid(const Answer& answer);

/// Throws std::logic_error for a schedule that the engine should not have found.
void expect_found(const Answer& answer);

/// Adds the class to the module.
void bind_answer(nanobind::module_& module);

}  // namespace remora::python
