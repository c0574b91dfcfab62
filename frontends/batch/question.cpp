// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/question.hpp"

#include <algorithm>
#include <array>

#include "engine/base/schema.hpp"
#include "frontends/batch/manifest.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/schedule.hpp"

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
  return {.version = engine_schema(),
          .graph_sha256 = task.sha256.empty() ? digest_of(task.graph) : task.sha256,
          .budget = task.budget,
          .settings = solver_.settings(task)};
}

void Asking::check_digest(const Task& task) {
  if (task.sha256.empty()) return;
  const std::string& digest = digest_of(task.graph);
  if (digest != task.sha256) throw InputError(task.graph, "is not the graph of the manifest: its sha256 is " + digest);
}

namespace {

using json::Document;
using json::Node;

constexpr std::array<std::string_view, 5> kStatuses{"optimal", "feasible", "infeasible", "unknown", kInterrupted};

/// JSON text one level further in. A line never ends inside a string.
void append_indented(std::string& out, std::string_view text) {
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
}

constexpr const char* kFinished = "finished";
constexpr const char* kWhen = "when";

void write_origin(json::ObjectText& object, const Origin& origin, const char* when) {
  object.string("host", origin.host);
  object.string("shard", origin.shard);
  object.string(when, origin.when);
}

Origin read_origin(const Node& root, const char* when) {
  return {.host = root.at("host").string(), .shard = root.at("shard").string(), .when = root.at(when).string()};
}

std::string status_at(const Node& root) {
  const Node node = root.at("status");
  const std::string& status = node.string();
  if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
    node.fail(quote(status) + " is not a status");
  }
  return status;
}

}  // namespace

std::string record_text(const Record& record) {
  std::string out;
  json::ObjectText object(out, ",\n  ");
  object.string("format", "remora-result");
  object.integer("version", 1);
  object.string("key", key_of(record.question));
  object.key("question");
  out += question_text(record.question);
  object.string("status", record.status);
  object.string("task", record.task);
  object.string("graph", record.graph);
  object.number("seconds", record.seconds);
  object.integer("work", record.work);
  object.integer("runs", record.runs);
  object.integer("threads", record.threads);
  object.string("started", record.started);
  write_origin(object, record.origin, kFinished);
  object.key("schedule");
  append_indented(out, record.schedule);
  object.close();
  out += '\n';
  return out;
}

Record read_record(std::string_view text, const std::string& key) {
  const Document document = json::parse(text);
  const Node root(document);
  json::expect_format(root, "remora-result");
  const Node question = root.at("question");
  Record record{.question = read_question(question),
                .status = status_at(root),
                .task = root.at("task").string(),
                .graph = root.at("graph").string(),
                .seconds = root.at("seconds").number(),
                .work = root.at("work").integer(),
                .runs = root.at("runs").integer(1),
                .threads = root.at("threads").integer(),
                .started = root.at("started").string(),
                .origin = read_origin(root, kFinished),
                .schedule = {}};
  if (key_of(record.question) != key) question.fail("does not match the name of the file");
  const Node schedule = root.at("schedule");
  // Version 2 where there are several devices, 3 with slices.
  json::expect_format(schedule, "remora-schedule", json::kLatestSchedule);
  record.schedule = json::dump(schedule.value());
  return record;
}

std::string utf8_text(const std::string& message) {
  return is_utf8(message) ? message : printable(message);
}

std::string error_text(const TaskError& error) {
  std::string out;
  json::ObjectText object(out, ",\n  ");
  object.string("format", "remora-error");
  object.integer("version", 1);
  object.string("task", error.task);
  object.string("graph", error.graph);
  object.string("message", utf8_text(error.message));
  write_origin(object, error.origin, kWhen);
  object.close();
  out += '\n';
  return out;
}

TaskError read_error(std::string_view text) {
  const Document document = json::parse(text);
  const Node root(document);
  json::expect_format(root, "remora-error");
  return {.task = root.at("task").string(),
          .graph = root.at("graph").string(),
          .message = root.at("message").string(),
          .origin = read_origin(root, kWhen)};
}

std::string amounts_text(const Amounts& amounts) {
  std::string text;
  for (const auto& [name, bytes] : amounts) {
    if (!text.empty()) text += ' ';
    if (!name.empty()) text.append(name).append("=");
    text += std::to_string(bytes);
  }
  return text;
}

void append_amounts(std::string& out, const Amounts& amounts) {
  if (amounts.size() == 1 && amounts.front().first.empty()) {
    out += std::to_string(amounts.front().second);
    return;
  }
  json::ObjectText object(out);
  for (const auto& [name, bytes] : amounts) object.integer(name, bytes);
  object.close();
}

namespace {

Amounts amounts_at(const Node& root, const char* key) {
  const Node node = root.at(key);
  if (!node.value().is_object()) return {{"", node.integer()}};
  Amounts amounts;
  for (const auto& [name, value] : node.value().get_ref<const Document::object_t&>()) {
    amounts.emplace_back(name, node.at(name).integer());
  }
  return amounts;
}

}  // namespace

Figures read_figures(std::string_view schedule) {
  const Document document = json::parse(schedule);
  const Node root(document);
  Figures figures{.budget = amounts_at(root, "budget"),
                  .duration = root.at("duration").integer(),
                  .energy = root.has("energy") ? root.at("energy").integer() : 0,
                  .lower_bound = root.at("lower_bound").integer(),
                  .peak_memory = amounts_at(root, "peak_memory")};
  if (root.has("objective") && root.at("objective").string() == "energy") {
    figures.overhead = root.at("overhead").number();
    const auto energy = static_cast<double>(figures.energy);
    figures.gap = energy > 0 ? (energy - static_cast<double>(figures.lower_bound)) / energy : 0;
    return figures;
  }
  // Both follow from the integers; what the file says they are does not count.
  const Schedule schedule_of{.status = Status::feasible,
                             .duration = Duration(figures.duration),
                             .baseline_duration = Duration(root.at("baseline_duration").integer()),
                             .lower_bound = Duration(figures.lower_bound)};
  figures.overhead = schedule_of.overhead();
  figures.gap = schedule_of.gap();
  return figures;
}

}  // namespace remora::batch
