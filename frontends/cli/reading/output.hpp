// SPDX-License-Identifier: Apache-2.0
//
// Where a command puts its result.
#pragma once

#include "frontends/cli/reading/arguments.hpp"
#include "model/graph.hpp"

namespace remora::cli {

/// The options that belong to every command that writes a graph.
OptionGroup graph_output_options();

/// Writes `graph` as remora-graph JSON where `arguments` say. Throws InputError if it cannot be written.
void write_graph_output(const Arguments& arguments, const Graph& graph);

}  // namespace remora::cli
