// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/asking.hpp"

#include "engine/base/version.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/sha256.hpp"
#include "model/error.hpp"

namespace remora::batch {

const std::string& Asking::digest_of(const std::string& path) {
  const auto known = digests_.find(path);
  if (known != digests_.end()) return known->second;
  return digests_.emplace(path, text::sha256_hex(json::read_file(path))).first->second;
}

Question Asking::question_of(const Task& task) {
  return {.version = version(),
          .graph_sha256 = task.sha256.empty() ? digest_of(task.graph) : task.sha256,
          .budget = task.budget,
          .settings = solver_.settings(task)};
}

void Asking::check_digest(const Task& task) {
  if (task.sha256.empty()) return;
  const std::string& digest = digest_of(task.graph);
  if (digest != task.sha256) throw InputError(task.graph, "is not the graph of the manifest: its sha256 is " + digest);
}

}  // namespace remora::batch
