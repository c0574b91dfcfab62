// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/reading/arguments.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// Reads a remora-schedule of `graph`. Throws InputError with the file's name.
Schedule load_schedule(const std::string& path, const Graph& graph);

/// The same from the file's content.
Schedule read_schedule_of(const std::string& path, const std::string& content, const Graph& graph);

/// Throws InputError, placed at the schedule's file, unless the schedule is a valid one.
void expect_valid(const std::string& path, const Graph& graph, const Schedule& schedule);

/// The ops of the schedule that --warm-start names; empty without the option. Throws InputError with the file's name.
std::vector<OpId> read_warm_start(const Arguments& arguments, const Graph& graph);

}  // namespace remora::cli
