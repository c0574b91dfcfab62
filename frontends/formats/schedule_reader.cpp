// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/schedule_json.hpp"
#include "frontends/formats/schedule_keys.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

/// The numbers behind a graph's names. The graph must stay where it is meanwhile.
template <class Identifier>
class Names {
 public:
  template <class Table>
  Names(const Table& table, std::string_view kind, const std::string& graph) : kind_(kind), graph_(graph) {
    ids_.reserve(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) ids_.emplace(table[i].name, Identifier(i));
  }

  [[nodiscard]] Identifier resolve(const Node& name) const {
    const auto found = ids_.find(name.string());
    if (found == ids_.end()) {
      name.fail("the graph " + quote(graph_) + " has no " + std::string(kind_) + " " + quote(name.string()));
    }
    return found->second;
  }

  [[nodiscard]] std::vector<Identifier> resolve_all(const Node& names) const {
    names.expect_array();
    std::vector<Identifier> ids;
    ids.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(resolve(names.element(i)));
    return ids;
  }

 private:
  std::string_view kind_;
  const std::string& graph_;
  std::unordered_map<std::string_view, Identifier> ids_;
};

// The optional members of `solver` and below: left as they are where the key is missing.

void read(const Node& node, std::string_view key, double& value) {
  if (!node.has(key)) return;
  const Node member = node.at(key);
  value = member.value().is_null() ? std::numeric_limits<double>::infinity() : member.number();
}
void read(const Node& node, std::string_view key, std::int64_t& value) {
  if (node.has(key)) value = node.at(key).integer();
}
void read(const Node& node, std::string_view key, int& value) {
  if (node.has(key)) value = static_cast<int>(node.at(key).integer(0, std::numeric_limits<int>::max()));
}
void read(const Node& node, std::string_view key, std::string& value) {
  if (node.has(key)) value = node.at(key).string();
}

Incumbent read_incumbent(const Node& node) {
  node.expect_array();
  if (node.size() != 4) node.fail("must be [seconds, duration, peak_memory, source]");
  return {.seconds = node.element(0).number(),
          .duration = Duration(node.element(1).integer()),
          .peak = Bytes(node.element(2).integer()),
          .source = node.element(3).string()};
}

void read_limits(const Node& node, SolverReport& report) {
  node.expect_object();
  read(node, "max_computes", report.max_computes);
  read(node, "seconds", report.time_limit);
  read(node, "work", report.work_limit);
}

void read_phases(const Node& node, SolverReport& report) {
  node.expect_object();
  if (node.has("feasibility")) {
    const Node feasibility = node.at("feasibility");
    feasibility.expect_object();
    read(feasibility, "seconds", report.phase1_seconds);
    std::int64_t reached = 0;
    read(feasibility, "reached_peak_memory", reached);
    report.reached_peak = Bytes(reached);
  }
  if (node.has("duration")) {
    const Node duration = node.at("duration");
    duration.expect_object();
    read(duration, "seconds", report.phase2_seconds);
  }
}

SolverReport read_solver(const Node& node) {
  node.expect_object();
  SolverReport report;
  read(node, "version", report.version);
  if (node.has("seed")) report.seed = node.at("seed").unsigned_integer();
  read(node, "threads", report.threads);
  if (node.has("limits")) read_limits(node.at("limits"), report);
  read(node, "work", report.work);
  read(node, "seconds", report.seconds);
  if (node.has("phases")) read_phases(node.at("phases"), report);
  read(node, "note", report.note);
  if (node.has("statistics")) {
    const Node statistics = node.at("statistics");
    report.statistics = statistics.numbers();
  }
  if (node.has("options")) {
    const Node options = node.at("options");
    options.expect_object();
    for (const auto& [name, value] : options.value().get_ref<const Document::object_t&>()) {
      report.options.emplace_back(name, options.at(name).string());
    }
  }
  if (node.has("history")) {
    const Node history = node.at("history");
    history.expect_array();
    for (std::size_t i = 0; i < history.size(); ++i) report.history.push_back(read_incumbent(history.element(i)));
  }
  return report;
}

class ScheduleReader {
 public:
  explicit ScheduleReader(const Graph& graph)
      : ops_(graph.ops, "op", graph.name), tensors_(graph.tensors, "tensor", graph.name) {}

  [[nodiscard]] Schedule read_root(const Node& root) const {
    expect_format(root, "remora-schedule");
    Schedule schedule;
    schedule.graph = root.at("graph").string();
    read(root, "graph_sha256", schedule.graph_sha256);
    schedule.status = read_word(root.at("status"), kStatusWords);
    schedule.order = read_word(root.at("order"), kOrderWords);
    schedule.budget = Bytes(root.at("budget").integer());
    schedule.duration = Duration(root.at("duration").integer());
    schedule.baseline_duration = Duration(root.at("baseline_duration").integer());
    // Both follow from the integers; they only have to be numbers.
    for (const std::string_view derived : {"overhead", "gap"}) {
      if (root.has(derived)) static_cast<void>(root.at(derived).number());
    }
    schedule.peak_memory = Bytes(root.at("peak_memory").integer());
    schedule.baseline_peak_memory = Bytes(root.at("baseline_peak_memory").integer());
    schedule.lower_bound = Duration(root.at("lower_bound").integer());
    schedule.steps = read_steps(root.at("steps"));
    if (root.has("certificate")) schedule.certificate = read_certificate(root.at("certificate"));
    if (root.has("solver")) schedule.solver = read_solver(root.at("solver"));
    return schedule;
  }

 private:
  [[nodiscard]] std::vector<Step> read_steps(const Node& node) const {
    node.expect_array();
    std::vector<Step> steps;
    steps.reserve(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) {
      const Node step = node.element(i);
      step.expect_object();
      steps.push_back({.op = ops_.resolve(step.at("op")), .free = tensors_.resolve_all(step.at("free"))});
    }
    return steps;
  }

  [[nodiscard]] Certificate read_certificate(const Node& node) const {
    node.expect_object();
    return {.op = ops_.resolve(node.at("op")),
            .required = Bytes(node.at("required").integer()),
            .tensors = tensors_.resolve_all(node.at("tensors"))};
  }

  Names<OpId> ops_;
  Names<TensorId> tensors_;
};

}  // namespace

Schedule read_schedule(Text text, const Graph& graph) {
  const Document document = parse(text.view());
  return ScheduleReader(graph).read_root(Node(document));
}

}  // namespace remora::json
