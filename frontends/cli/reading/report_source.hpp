// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "frontends/cli/reading/files.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/report/page.hpp"

namespace remora::cli {

/// What `remora report` shows: the schedule in the file at `path`, or, if it holds a curve, all schedules that the
/// curve names, by their paths from its folder; files that are not there are noted at their points. What is read is noted in `files`. Throws InputError
/// with the file's name for a schedule that is not valid for the graph, and for a curve of another graph.
report::Page load_page(const std::string& path, const LoadedGraph& loaded, Files& files);

}  // namespace remora::cli
