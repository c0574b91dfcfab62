// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// Reads a remora-schedule of `graph`. Throws InputError with the file's name.
Schedule load_schedule(const std::string& path, const Graph& graph);

}  // namespace remora::cli
