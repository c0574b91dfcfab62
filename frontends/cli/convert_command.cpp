// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/arguments.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/exit_code.hpp"
#include "frontends/cli/graph_output.hpp"
#include "frontends/cli/graph_source.hpp"

namespace remora::cli {

int convert_command(const Words& words) {
  Arguments arguments(
      "convert", "Writes GRAPH as remora-graph JSON.",
      {{"GRAPH", "a graph in JSON (remora-graph or node-link) or an ONNX model; - for standard input"}});
  OptionGroup group = graph_output_options();
  group.add_options()("quiet,q", "no warnings");
  arguments.add(group);
  arguments.add(graph_options());
  if (!arguments.parse(words)) return kSuccess;
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  write_graph_output(arguments, *loaded.graph);
  return kSuccess;
}

}  // namespace remora::cli
