// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/question.hpp"

#include "frontends/batch/manifest.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/sha256.hpp"

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

}  // namespace remora::batch
