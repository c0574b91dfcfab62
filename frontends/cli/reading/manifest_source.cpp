// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/manifest_source.hpp"

#include <filesystem>
#include <utility>

#include "frontends/batch/manifest.hpp"
#include "frontends/cli/reading/task_options.hpp"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"

namespace remora::cli {

std::vector<batch::Task> load_manifest(const std::string& path, const batch::TaskOptions& defaults) {
  const std::string folder = path == "-" ? "" : std::filesystem::path(path).parent_path().string();
  batch::Manifest manifest = batch::read_manifest(json::read_file(path), folder,
                                                  [&](batch::Task& task) { complete_task(task, defaults, folder); });
  if (!manifest.faults.empty()) {
    std::string what;
    for (const std::string& fault : manifest.faults) {
      if (!what.empty()) what.append("\nremora: ").append(path).append(": ");
      what += fault;
    }
    throw InputError(path, what);
  }
  if (manifest.tasks.empty()) throw InputError(path, "holds no task");
  return std::move(manifest.tasks);
}

}  // namespace remora::cli
