// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/result.hpp"

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"

namespace remora::bench {
namespace {

using json::Document;
using json::Node;

std::vector<std::pair<double, std::int64_t>> read_history(const Node& node) {
  node.expect_array();
  std::vector<std::pair<double, std::int64_t>> history;
  history.reserve(node.size());
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Node entry = node.element(i);
    entry.expect_array();
    if (entry.size() != 2) entry.fail("must be [seconds, duration]");
    history.emplace_back(entry.element(0).number(), entry.element(1).integer());
  }
  return history;
}

}  // namespace

double percent_more(std::int64_t value, std::int64_t baseline) {
  return baseline > 0 ? 100 * (static_cast<double>(value) / static_cast<double>(baseline) - 1) : 0;
}

std::optional<double> Result::overhead() const {
  if (!has_schedule()) return std::nullopt;
  return percent_more(duration, baseline_duration);
}

double Result::bound() const {
  return percent_more(lower_bound, baseline_duration);
}

std::string to_line(const Result& result) {
  std::string out;
  json::ObjectText object(out);
  object.string("instance", result.key.instance);
  object.string("budget", result.key.budget);
  object.string("contender", result.key.contender);
  object.integer("seed", result.key.seed);
  object.number("time_limit", result.key.time_limit);
  object.integer("threads", result.key.threads);
  object.string("graph_sha256", result.graph_sha256);
  object.string("asked", result.asked);
  object.integer("ops", result.ops);
  object.integer("edges", result.edges);
  object.integer("budget_bytes", result.budget_bytes);
  object.string("status", result.status);
  object.string("order", result.order);
  object.integer("max_computes", result.max_computes);
  object.integer("baseline_duration", result.baseline_duration);
  object.integer("duration", result.duration);
  object.integer("lower_bound", result.lower_bound);
  object.integer("peak_memory", result.peak_memory);
  object.number("seconds", result.seconds);
  object.number("reached", result.reached);
  object.number("cpu_seconds", result.cpu_seconds);
  object.integer("peak_kibibytes", result.peak_kibibytes);
  object.key("history");
  out += '[';
  for (std::size_t i = 0; i < result.history.size(); ++i) {
    out += i == 0 ? "[" : ", [";
    json::append_number(out, result.history[i].first);
    out += ", " + std::to_string(result.history[i].second) + "]";
  }
  out += ']';
  object.numbers("statistics", result.statistics);
  object.string("note", result.note);
  object.string("version", result.version);
  object.string("commit", result.commit);
  object.string("machine", result.machine);
  object.string("when", result.when);
  object.close();
  return out;
}

Result from_line(std::string_view line) {
  const Document document = json::parse(line);
  const Node root(document);
  root.expect_object();
  const auto text = [&](const char* key) { return std::string(root.at(key).string()); };
  const auto integer = [&](const char* key) { return root.at(key).integer(); };
  const auto number = [&](const char* key) { return root.at(key).number(); };
  Result result;
  result.key = {text("instance"), text("budget"),       text("contender"),
                integer("seed"),  number("time_limit"), static_cast<int>(integer("threads"))};
  result.graph_sha256 = text("graph_sha256");
  result.asked = text("asked");
  result.ops = integer("ops");
  result.edges = integer("edges");
  result.budget_bytes = integer("budget_bytes");
  result.status = text("status");
  result.order = text("order");
  result.max_computes = static_cast<int>(integer("max_computes"));
  result.baseline_duration = integer("baseline_duration");
  result.duration = integer("duration");
  result.lower_bound = integer("lower_bound");
  result.peak_memory = integer("peak_memory");
  result.seconds = number("seconds");
  result.reached = number("reached");
  result.cpu_seconds = number("cpu_seconds");
  result.peak_kibibytes = integer("peak_kibibytes");
  const Node history = root.at("history");
  result.history = read_history(history);
  if (root.has("statistics")) {
    const Node statistics = root.at("statistics");
    result.statistics = statistics.numbers();
  }
  result.note = text("note");
  result.version = text("version");
  result.commit = text("commit");
  result.machine = text("machine");
  result.when = text("when");
  return result;
}

}  // namespace remora::bench
