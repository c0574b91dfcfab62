// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/schedule_source.hpp"

#include "frontends/json/file.hpp"
#include "frontends/json/schedule_json.hpp"
#include "model/error.hpp"

namespace remora::cli {

Schedule load_schedule(const std::string& path, const Graph& graph) {
  const std::string content = json::read_file(path);
  try {
    return json::read_schedule(content, graph);
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
}

}  // namespace remora::cli
