// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/output.hpp"

#include <filesystem>
#include <ostream>
#include <string>

#include "frontends/formats/file.hpp"
#include "frontends/formats/graph_json.hpp"

namespace remora::cli {
namespace po = boost::program_options;

void check_not_read(const std::string& output, const std::filesystem::path& read, const std::string& what) {
  std::error_code none;
  if (std::filesystem::equivalent(read, output, none)) throw UsageError("--output: " + output + " is " + what);
}

void check_output(const std::string& input, const std::string& output) {
  check_not_read(output, input, "the graph itself");
  json::check_writable(output);
}

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
