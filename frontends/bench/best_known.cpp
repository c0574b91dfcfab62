// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/best_known.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "frontends/bench/words.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"

namespace remora::bench {
namespace {

namespace fs = std::filesystem;
using json::Document;
using json::Node;

RecomputePlan read_plan(const Node& node) {
  node.expect_array();
  RecomputePlan plan;
  plan.reserve(node.size());
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Node pair = node.element(i);
    pair.expect_array();
    if (pair.size() != 2) pair.fail("must be [stage, op]");
    plan.push_back({static_cast<Stage>(pair.element(0).integer(0, kMost)),
                    OpId(static_cast<std::int32_t>(pair.element(1).integer(0, kMost)))});
  }
  return plan;
}

BestKnown read_entry(const Node& node, const std::string& folder) {
  BestKnown entry;
  entry.instance.name = node.at("instance").string();
  if (node.has("file")) entry.instance.file = (fs::path(folder) / node.at("file").string()).string();
  entry.instance.make = read_words(node, "make");
  entry.instance.reading = read_words(node, "reading");
  entry.graph_sha256 = node.at("graph_sha256").string();
  entry.budget = node.at("budget").string();
  entry.budget_bytes = node.at("budget_bytes").integer();
  entry.max_computes = static_cast<int>(node.at("max_computes").integer(1, std::numeric_limits<int>::max()));
  entry.baseline_duration = node.at("baseline_duration").integer();
  entry.duration = node.at("duration").integer();
  entry.lower_bound = node.at("lower_bound").integer();
  entry.who = node.at("who").string();
  entry.when = node.at("when").string();
  const Node plan = node.at("recomputes");
  entry.plan = read_plan(plan);
  return entry;
}

void write_words(json::ObjectText& object, std::string_view key, const std::vector<std::string>& words) {
  if (!words.empty()) object.names(key, words, [](const std::string& word) -> const std::string& { return word; });
}

void write_entry(std::string& out, const BestKnown& entry, const std::string& folder) {
  json::ObjectText object(out);
  object.string("instance", entry.instance.name);
  if (!entry.instance.file.empty()) {
    object.string("file", fs::proximate(entry.instance.file, folder.empty() ? "." : folder).string());
  }
  write_words(object, "make", entry.instance.make);
  write_words(object, "reading", entry.instance.reading);
  object.string("graph_sha256", entry.graph_sha256);
  object.string("budget", entry.budget);
  object.integer("budget_bytes", entry.budget_bytes);
  object.integer("max_computes", entry.max_computes);
  object.integer("baseline_duration", entry.baseline_duration);
  object.integer("duration", entry.duration);
  object.integer("lower_bound", entry.lower_bound);
  object.number("overhead", std::round(percent_more(entry.duration, entry.baseline_duration) * 1e4) / 1e4);
  object.string("who", entry.who);
  object.string("when", entry.when);
  object.key("recomputes");
  out += '[';
  for (std::size_t i = 0; i < entry.plan.size(); ++i) {
    out += (i == 0 ? "[" : ", [") + std::to_string(entry.plan[i].stage) + ", " +
           std::to_string(std::int32_t{entry.plan[i].op}) + "]";
  }
  out += ']';
  object.close();
}

}  // namespace

BestKnownTable::BestKnownTable(std::string_view text, const std::string& folder) {
  const Document document = json::parse(text);
  const Node root(document);
  json::expect_format(root, "remora-best-known");
  const Node list = root.at("entries");
  list.expect_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Node node = list.element(i);
    node.expect_object();
    BestKnown entry = read_entry(node, folder);
    const Key key(entry.instance.name, entry.budget, entry.max_computes);
    if (!entries_.emplace(key, std::move(entry)).second) node.fail("is there already");
  }
}

const BestKnown* BestKnownTable::find(const std::string& instance, const std::string& graph_sha256,
                                      const std::string& budget, int max_computes) const {
  const auto at = entries_.find(Key(instance, budget, max_computes));
  return at == entries_.end() || at->second.graph_sha256 != graph_sha256 ? nullptr : &at->second;
}

bool BestKnownTable::learn(const BestKnown& news) {
  const auto [at, is_new] = entries_.emplace(Key(news.instance.name, news.budget, news.max_computes), news);
  BestKnown& known = at->second;
  if (is_new) return true;
  if (known.graph_sha256 != news.graph_sha256 || known.budget_bytes != news.budget_bytes) {
    known = news;
    return true;
  }
  const bool is_better = news.duration < known.duration || news.lower_bound > known.lower_bound;
  const std::int64_t bound = std::max(known.lower_bound, news.lower_bound);
  if (news.duration < known.duration) known = news;
  known.lower_bound = bound;
  return is_better;
}

std::string BestKnownTable::text(const std::string& folder) const {
  std::string out = "{\"format\": \"remora-best-known\", \"version\": 1, \"entries\": ";
  auto at = entries_.begin();
  json::append_lines(out, 0, entries_.size(), [&](std::size_t) { write_entry(out, (at++)->second, folder); });
  return out + "}\n";
}

}  // namespace remora::bench
