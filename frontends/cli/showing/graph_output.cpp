// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/graph_output.hpp"

#include <ostream>
#include <string>

#include "frontends/formats/file.hpp"
#include "frontends/formats/graph_json.hpp"

namespace remora::cli {
namespace po = boost::program_options;

OptionGroup graph_output_options() {
  OptionGroup group("Output");
  group.add_options()("output,o", po::value<std::string>()->default_value("-")->value_name("FILE"),
                      "where the result goes, - for standard output");
  return group;
}

void write_graph_output(const Arguments& arguments, const Graph& graph) {
  json::write_file(arguments.get<std::string>("output"), [&](std::ostream& out) { json::write_graph(out, graph); });
}

}  // namespace remora::cli
