// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/question.hpp"

#include "engine/base/version.hpp"
#include "frontends/batch/manifest.hpp"
#include "frontends/batch/solver.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/sha256.hpp"
#include "model/error.hpp"

namespace remora::batch {

std::string question_text(const Question& question) {
  std::string out;
  json::ObjectText object(out);
  object.string("version", question.version);
  object.string("graph_sha256", question.graph_sha256);
  object.string("budget", question.budget);
  object.key("options");
  json::ObjectText settings(out);
  for (const auto& [name, value] : question.settings) settings.string(name, value);
  settings.close();
  object.close();
  return out;
}

Question read_question(const json::Node& node) {
  node.expect_object();
  Question question{.version = node.at("version").string(),
                    .graph_sha256 = node.at("graph_sha256").string(),
                    .budget = node.at("budget").string(),
                    .settings = {}};
  const json::Node options = node.at("options");
  options.expect_object();
  for (const auto& [name, value] : options.value().get_ref<const json::Document::object_t&>()) {
    question.settings.emplace_back(name, options.at(name).string());
  }
  return question;
}

std::string key_of(const Question& question) {
  return text::sha256_hex(question_text(question));
}

std::string error_name_of(const Task& task) {
  return text::sha256_hex("task " + manifest_text({task}));
}

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
