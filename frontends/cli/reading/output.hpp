// SPDX-License-Identifier: Apache-2.0
//
// Where a command puts its result.
#pragma once

#include <filesystem>
#include <string>

#include "frontends/cli/reading/arguments.hpp"
#include "model/graph.hpp"

namespace remora::cli {

/// Throws UsageError where `output` is the very file `read`, which is `what`.
void check_not_read(const std::string& output, const std::filesystem::path& read, const std::string& what);

/// Throws before the work, not after it, unless `output` can be written and is not `input` itself.
void check_output(const std::string& input, const std::string& output);

/// The options that belong to every command that writes a graph.
OptionGroup graph_output_options();

/// Writes `graph` as remora-graph JSON where `arguments` say. Throws InputError if it cannot be written.
void write_graph_output(const Arguments& arguments, const Graph& graph);

}  // namespace remora::cli
