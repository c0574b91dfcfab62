// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "frontends/cli/arguments.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/exit_code.hpp"
#include "frontends/cli/graph_source.hpp"
#include "frontends/json/file.hpp"
#include "frontends/json/graph_json.hpp"

namespace remora::cli {
namespace po = boost::program_options;

int convert_command(const Words& words) {
  Arguments arguments("convert", "Writes GRAPH as remora-graph JSON.",
                      {{"GRAPH", "a remora-graph (JSON) or an ONNX model; - for standard input"}});
  OptionGroup group("Output");
  group.add_options()("output,o", po::value<std::string>()->default_value("-")->value_name("FILE"),
                      "where the graph goes, - for standard output")("quiet,q", "no warnings");
  arguments.add(group);
  arguments.add(graph_options());
  if (!arguments.parse(words)) return kSuccess;
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  json::write_file(arguments.get<std::string>("output"),
                   [&](std::ostream& out) { json::write_graph(out, *loaded.graph); });
  return kSuccess;
}

}  // namespace remora::cli
