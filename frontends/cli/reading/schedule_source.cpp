// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/schedule_source.hpp"

#include "frontends/formats/file.hpp"
#include "frontends/formats/schedule_json.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/verify.hpp"

namespace remora::cli {

Schedule load_schedule(const std::string& path, const Graph& graph) {
  return read_schedule_of(path, json::read_file(path), graph);
}

Schedule read_schedule_of(const std::string& path, const std::string& content, const Graph& graph) {
  try {
    return json::read_schedule(json::Text(content), graph);
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
}

void expect_valid(const std::string& path, const Graph& graph, const Schedule& schedule) {
  if (const Verdict verdict = verify(graph, schedule); !verdict.valid()) {
    throw InputError(path, "not a valid schedule of this graph: " + printable(verdict.errors.front()));
  }
}

std::vector<OpId> read_warm_start(const Arguments& arguments, const Graph& graph) {
  if (!arguments.has("warm-start")) return {};
  const std::string& path = arguments.input("warm-start");
  std::vector<OpId> ops = ops_of(load_schedule(path, graph));
  if (ops.empty()) throw InputError(path, "holds no schedule to start from");
  return ops;
}

}  // namespace remora::cli
