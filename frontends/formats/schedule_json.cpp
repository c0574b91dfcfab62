// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

/// The numbers behind the names of a graph's ops or tensors.
template <class Identifier, class Entries>
NameTable<Identifier> names_of(const Entries& entries, const char* kind, const Graph& graph) {
  NameTable<Identifier> names("the graph " + quote(graph.name) + " has no " + kind, entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) names.add(entries[i].name, Identifier(i));
  return names;
}

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
  read_optimal_for(node, report);
  read(node, "work", report.work);
  read(node, "seconds", report.seconds);
  if (node.has("stopped")) report.stop = read_word(node.at("stopped"), kStopWords);
  if (node.has("phases")) read_phases(node.at("phases"), report);
  read(node, "integer_solver", report.integer_solver);
  read(node, "note", report.note);
  if (node.has("statistics")) {
    const Node statistics = node.at("statistics");
    for (const auto& [key, value] : statistics.numbers()) report.statistics.push_back(statistic_of(key, value));
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
      : ops_(names_of<OpId>(graph.ops, "op", graph)), tensors_(names_of<TensorId>(graph.tensors, "tensor", graph)) {}

  [[nodiscard]] Schedule read_root(const Node& root) const {
    const std::int64_t version = expect_format(root, "remora-schedule", 2);
    Schedule schedule;
    schedule.graph = root.at("graph").string();
    read(root, "graph_sha256", schedule.graph_sha256);
    schedule.reading = reading_of(root);
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
    if (version >= 2 && root.has("arena")) schedule.arena = read_arena(root);
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

  [[nodiscard]] Arena read_arena(const Node& root) const {
    const Node node = root.at("arena");
    node.expect_object();
    Arena arena{.alignment = Bytes(node.at("alignment").integer(1)), .size = Bytes(node.at("size").integer())};
    if (node.has("inputs")) arena.inputs = read_offsets(node.at("inputs"));
    const Node steps = root.at("steps");
    arena.steps.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Node step = steps.element(i);
      if (step.has("offsets")) arena.steps[i].outputs = read_offsets(step.at("offsets"));
      if (step.has("workspace_offset")) arena.steps[i].workspace = Bytes(step.at("workspace_offset").integer());
    }
    return arena;
  }

  [[nodiscard]] Arena::Offsets read_offsets(const Node& node) const {
    node.expect_object();
    Arena::Offsets offsets;
    for (const auto& [name, value] : node.value().get_ref<const Document::object_t&>()) {
      const Node offset = node.at(name);
      offsets.emplace_back(tensors_.resolve(name, offset), Bytes(offset.integer()));
    }
    return offsets;
  }

  [[nodiscard]] Certificate read_certificate(const Node& node) const {
    node.expect_object();
    return {.op = ops_.resolve(node.at("op")),
            .required = Bytes(node.at("required").integer()),
            .tensors = tensors_.resolve_all(node.at("tensors"))};
  }

  NameTable<OpId> ops_;
  NameTable<TensorId> tensors_;
};

}  // namespace

std::vector<std::string> read_reading(Text text) {
  // Schedules of graphs record none, and their reader is to come: a long one would be parsed twice.
  if (text.view().find("\"reading\"") == std::string_view::npos) return {};
  const Document document = parse(text.view());
  return document.is_object() ? reading_of(Node(document)) : std::vector<std::string>{};
}

Schedule read_schedule(Text text, const Graph& graph) {
  const Document document = parse(text.view());
  return ScheduleReader(graph).read_root(Node(document));
}

namespace {

class ScheduleWriter {
 public:
  ScheduleWriter(const Schedule& schedule, const Graph& graph) : schedule_(schedule), graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-schedule");
    object.integer("version", schedule_.arena ? 2 : 1);
    object.string("graph", schedule_.graph);
    if (!schedule_.graph_sha256.empty()) object.string("graph_sha256", schedule_.graph_sha256);
    if (!schedule_.reading.empty()) object.strings("reading", schedule_.reading);
    object.string("status", word_of(schedule_.status, kStatusWords));
    object.string("order", word_of(schedule_.order, kOrderWords));
    object.integer("budget", schedule_.budget.count());
    object.integer("duration", schedule_.duration.count());
    object.integer("baseline_duration", schedule_.baseline_duration.count());
    object.number("overhead", schedule_.overhead());
    object.integer("peak_memory", schedule_.peak_memory.count());
    object.integer("baseline_peak_memory", schedule_.baseline_peak_memory.count());
    object.integer("lower_bound", schedule_.lower_bound.count());
    object.number("gap", schedule_.gap());
    if (schedule_.arena) {
      object.key("arena");
      write_arena(*schedule_.arena);
    }
    object.key("steps");
    append_lines(out_, 2, schedule_.steps.size(), [&](std::size_t i) { write_step(i); });
    if (schedule_.certificate) {
      object.key("certificate");
      write_certificate(*schedule_.certificate);
    }
    object.key("solver");
    write_solver(schedule_.solver);
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  void write_arena(const Arena& arena) {
    if (arena.steps.size() != schedule_.steps.size()) throw InputError("schedule", "its arena has other steps");
    ObjectText object(out_);
    object.integer("alignment", arena.alignment.count());
    object.integer("size", arena.size.count());
    write_offsets(object, "inputs", arena.inputs);
    object.close();
  }

  void write_offsets(ObjectText& object, std::string_view key, const Arena::Offsets& offsets) {
    object.key(key);
    ObjectText members(out_);
    for (const auto& [tensor, offset] : offsets) members.integer(name_of(tensor), offset.count());
    members.close();
  }

  void write_step(std::size_t i) {
    const Step& step = schedule_.steps[i];
    ObjectText object(out_);
    object.string("op", name_of(step.op));
    if (schedule_.arena) {
      const Arena::Allocations& allocations = schedule_.arena->steps[i];
      write_offsets(object, "offsets", allocations.outputs);
      if (allocations.workspace) object.integer("workspace_offset", allocations.workspace->count());
    }
    object.names("free", step.free, [&](TensorId tensor) -> const std::string& { return name_of(tensor); });
    object.close();
  }

  void write_certificate(const Certificate& certificate) {
    ObjectText object(out_);
    object.string("op", name_of(certificate.op));
    object.integer("required", certificate.required.count());
    object.names("tensors", certificate.tensors,
                 [&](TensorId tensor) -> const std::string& { return name_of(tensor); });
    object.close();
  }

  void write_statistics(ObjectText& object, const Statistics& statistics) {
    if (statistics.empty()) return;
    object.key("statistics");
    ObjectText members(out_);
    for (const Statistic& statistic : statistics) members.number(statistic_key(statistic), statistic.value);
    members.close();
  }

  void write_solver(const SolverReport& report) {
    ObjectText object(out_, ",\n    ");
    object.string("version", report.version);
    object.unsigned_integer("seed", report.seed);
    object.integer("threads", report.threads);
    object.key("limits");
    write_limits(report);
    write_optimal_for(object, report);
    object.integer("work", report.work);
    object.number("seconds", report.seconds);
    if (report.stop != Stop::unknown) object.string("stopped", word_of(report.stop, kStopWords));
    object.key("phases");
    write_phases(report);
    if (!report.integer_solver.empty()) object.string("integer_solver", report.integer_solver);
    if (!report.note.empty()) object.string("note", report.note);
    write_statistics(object, report.statistics);
    if (!report.options.empty()) {
      object.key("options");
      ObjectText options(out_);
      for (const auto& [name, value] : report.options) options.string(name, value);
      options.close();
    }
    object.key("history");
    append_lines(out_, 4, report.history.size(), [&](std::size_t i) { write_incumbent(report.history[i]); });
    object.close();
  }

  void write_limits(const SolverReport& report) {
    ObjectText limits(out_);
    limits.integer("max_computes", report.max_computes);
    limits.number("seconds", report.time_limit);
    limits.integer("work", report.work_limit);
    limits.close();
  }

  void write_phases(const SolverReport& report) {
    ObjectText phases(out_);
    phases.key("feasibility");
    ObjectText feasibility(out_);
    feasibility.number("seconds", report.phase1_seconds);
    feasibility.integer("reached_peak_memory", report.reached_peak.count());
    feasibility.close();
    phases.key("duration");
    ObjectText duration(out_);
    duration.number("seconds", report.phase2_seconds);
    duration.close();
    phases.close();
  }

  void write_incumbent(const Incumbent& incumbent) {
    out_ += '[';
    append_number(out_, incumbent.seconds);
    out_ += ", " + std::to_string(incumbent.duration.count()) + ", " + std::to_string(incumbent.peak.count()) + ", ";
    append_string(out_, incumbent.source);
    out_ += ']';
  }

  template <class Tag, class Table>
  static const std::string& name_in(const Table& table, Id<Tag> id, const char* kind) {
    const auto index = static_cast<std::size_t>(std::int32_t{id});
    if (!id.valid() || index >= table.size()) {
      throw InputError("schedule", std::string(kind) + " " + std::to_string(id) + " is not one of the graph's " +
                                       std::to_string(table.size()));
    }
    return table[index].name;
  }
  [[nodiscard]] const std::string& name_of(OpId op) const { return name_in(graph_.ops, op, "op"); }
  [[nodiscard]] const std::string& name_of(TensorId tensor) const { return name_in(graph_.tensors, tensor, "tensor"); }

  const Schedule& schedule_;
  const Graph& graph_;
  std::string out_;
};

}  // namespace

void write_schedule(std::ostream& out, const Schedule& schedule, const Graph& graph) {
  out << ScheduleWriter(schedule, graph).text();
}

}  // namespace remora::json
