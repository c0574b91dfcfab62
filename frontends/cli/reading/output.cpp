// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/output.hpp"

#include <ostream>
#include <string>

#include "frontends/formats/graph_json.hpp"

namespace remora::cli {

OptionGroup graph_output_options() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file("-"), "where the result goes, - for standard output");
  return group;
}

void write_graph_output(const Arguments& arguments, const Graph& graph) {
  arguments.files().write(arguments.output("output"), [&](std::ostream& out) { json::write_graph(out, graph); });
}

}  // namespace remora::cli
