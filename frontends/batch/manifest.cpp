// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/manifest.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <map>
#include <utility>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::batch {
namespace {

using json::Document;
using json::Node;

constexpr std::array<std::string_view, 5> kKeys{"id", "graph", "sha256", "budget", "options"};

/// A member's text, which may not be empty and fits on one line: it is shown in tables.
std::string name_at(const Node& root, std::string_view key) {
  const Node node = root.at(key);
  const std::string& text = node.string();
  if (text.empty()) node.fail("must not be empty");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::any_of(text.begin(), text.end(), is_control)) node.fail("must have no control characters");
  return text;
}

std::string digest_at(const Node& root) {
  constexpr std::size_t kDigestLength = 64;
  const Node node = root.at("sha256");
  std::string text = node.string();
  for (char& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (text.size() != kDigestLength || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    node.fail("must be 64 hexadecimal digits");
  }
  return text;
}

std::string budget_at(const Node& root) {
  const Node node = root.at("budget");
  if (node.value().is_string()) return node.string();
  // A number is bytes. In text a small one without a unit would be asked about: a percentage may be meant.
  constexpr std::int64_t kMaxAskedAbout = 100;
  const std::int64_t bytes = node.integer();
  return std::to_string(bytes) + (bytes > 0 && bytes <= kMaxAskedAbout ? "B" : "");
}

std::string value_text(const Node& node) {
  const Document& value = node.value();
  if (value.is_string()) return node.string();
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_number()) return json::dump(value);
  node.fail("must be a string, a number, true or false");
}

TaskOptions options_at(const Node& root) {
  const Node node = root.at("options");
  node.expect_object();
  TaskOptions options;
  for (const auto& [key, value] : node.value().get_ref<const Document::object_t&>()) {
    const Node member = node.at(key);
    std::vector<std::string> values;
    if (value.is_array()) {
      values.reserve(member.size());
      for (std::size_t i = 0; i < member.size(); ++i) values.push_back(value_text(member.element(i)));
    } else {
      values.push_back(value_text(member));
    }
    if (values.empty()) member.fail("must not be empty");
    if (!options.emplace(text::dashed(key), std::move(values)).second) member.fail("is there twice");
  }
  return options;
}

Task read_task(std::string_view line, const std::string& folder) {
  const Document document = json::parse(line);
  const Node root(document);
  root.expect_object();
  for (const auto& [key, value] : document.get_ref<const Document::object_t&>()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    root.fail("the key " + quote(key) + " is not one of id, graph, sha256, budget, options");
  }
  Task task;
  task.id = name_at(root, "id");
  task.graph = std::filesystem::absolute(std::filesystem::path(folder) / name_at(root, "graph")).lexically_normal();
  if (root.has("sha256")) task.sha256 = digest_at(root);
  if (root.has("budget")) task.budget = budget_at(root);
  if (root.has("options")) task.options = options_at(root);
  return task;
}

}  // namespace

Manifest read_manifest(std::string_view text, const std::string& folder, const TaskCheck& check) {
  Manifest manifest;
  std::map<std::string, std::size_t> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      Task task = read_task(line, folder);
      task.line = number;
      check(task);
      const auto [first, is_new] = lines.emplace(task.id, number);
      if (!is_new) throw InputError("$.id", quote(task.id) + " is line " + std::to_string(first->second) + "'s");
      manifest.tasks.push_back(std::move(task));
    } catch (const std::exception& error) {
      std::string what = error.what();
      // The reader of a line knows no other.
      if (what.starts_with("line 1, ")) what.erase(0, std::string_view("line 1, ").size());
      manifest.faults.push_back("line " + std::to_string(number) + ": " + what);
    }
  }
  return manifest;
}

std::string manifest_text(const std::vector<Task>& tasks) {
  std::string out;
  for (const Task& task : tasks) {
    json::ObjectText object(out);
    object.string("id", task.id);
    object.string("graph", task.graph);
    if (!task.sha256.empty()) object.string("sha256", task.sha256);
    object.string("budget", task.budget);
    object.key("options");
    json::ObjectText options(out);
    for (const auto& [name, values] : task.options) {
      options.names(name, values, [](const std::string& value) -> const std::string& { return value; });
    }
    options.close();
    object.close();
    out += '\n';
  }
  return out;
}

}  // namespace remora::batch
