// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
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

constexpr std::int64_t kLatest = 4;

constexpr std::array<Word<Objective>, 2> kObjectiveWords = {{
    {Objective::duration, "duration"},
    {Objective::energy, "energy"},
}};

constexpr std::array<Word<CopyMode>, 2> kCopyWords = {{
    {CopyMode::sequential, "sequential"},
    {CopyMode::overlap, "overlap"},
}};

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

NamedRegion read_region(const Node& node) {
  node.expect_object();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  NamedRegion region;
  region.slices = static_cast<int>(node.at("slices").integer(1, kMaxSlices));
  const Node saves = node.at("saves");
  region.saved_peak = Bytes(saves.at("peak").integer(kLeast));
  region.saved_minimum = Bytes(saves.at("minimum").integer(kLeast));
  region.cost = Duration(node.at("costs").integer(kLeast));
  const Node parts = node.at("parts");
  parts.expect_array();
  if (parts.size() == 0) parts.fail("must have a part");
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Node part = parts.element(p);
    part.expect_array();
    if (part.size() == 0) part.fail("must have an op");
    auto& members = region.parts.emplace_back();
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Node member = part.element(i);
      member.expect_array();
      if (member.size() != 2) member.fail("must be [op, number of its axis]");
      members.push_back({.op = member.element(0).string(),
                         .axis = static_cast<int>(member.element(1).integer(0, std::numeric_limits<int>::max()))});
    }
  }
  return region;
}

ScheduleSlices read_schedule_slices(const Node& node) {
  node.expect_object();
  ScheduleSlices slices;
  slices.run.overhead = Duration(node.at("overhead").integer());
  slices.run.bandwidth = Bytes(node.at("bandwidth").integer());
  slices.run.temporaries = node.at("temporaries").boolean();
  slices.run.copies = node.at("copies").boolean();
  const Node regions = node.at("regions");
  regions.expect_array();
  if (regions.size() == 0) regions.fail("must have a region");
  for (std::size_t i = 0; i < regions.size(); ++i) slices.regions.push_back(read_region(regions.element(i)));
  const Node without = node.at("without");
  slices.whole_status = read_word(without.at("status"), kStatusWords);
  slices.whole_duration = amount<Duration>(without, "duration");
  slices.whole_lower_bound = Duration(without.at("lower_bound").integer());
  const Node computes = without.at("max_computes");
  if (!computes.value().is_null())
    slices.whole_max_computes = static_cast<int>(computes.integer(1, std::numeric_limits<int>::max()));
  return slices;
}

/// Visits the entries of an object: their names, and their nodes.
template <class Visit>
void for_each_member(const Node& node, const Visit& visit) {
  node.expect_object();
  for (const auto& [name, value] : node.value().get_ref<const Document::object_t&>()) {
    const Node member = node.at(name);
    visit(name, member);
  }
}

class ScheduleReader {
 public:
  explicit ScheduleReader(const Graph& graph)
      : ops_(names_of<OpId>(graph.ops, "op", graph)), tensors_(names_of<TensorId>(graph.tensors, "tensor", graph)) {}
  explicit ScheduleReader(const DeviceGraph& graph) : ScheduleReader(graph.graph) { devices_ = &graph.devices; }

  [[nodiscard]] Schedule read_root(const Node& root) const {
    Schedule schedule;
    const std::int64_t version = read_head(root, schedule);
    schedule.reading = reading_of(root);
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
    schedule.steps = read_steps(root.at("steps"), version);
    if (root.has("certificate")) schedule.certificate = read_certificate(root.at("certificate"));
    if (version >= 2 && root.has("arena")) schedule.arena = read_arena(root);
    if (version >= 3 && root.has("slices")) schedule.slices = read_schedule_slices(root.at("slices"));
    if (root.has("solver")) schedule.solver = read_solver(root.at("solver"));
    return schedule;
  }

  [[nodiscard]] DeviceSchedule read_device_root(const Node& root) const {
    DeviceSchedule schedule;
    if (read_head(root, schedule) >= 3)
      root.at("version").fail("a schedule of a graph with devices has neither slices nor modes");
    if (root.has("objective")) schedule.objective = read_word(root.at("objective"), kObjectiveWords);
    if (root.has("copies")) schedule.copies = read_word(root.at("copies"), kCopyWords);
    read_amounts(root, schedule);
    const Node steps = root.at("steps");
    steps.expect_array();
    for (std::size_t i = 0; i < steps.size(); ++i) schedule.steps.push_back(read_device_step(steps.element(i)));
    if (root.has("solver")) {
      const Node solver = root.at("solver");
      schedule.solver = read_solver(solver);
      if (solver.has("baseline")) schedule.baseline_is_exact = solver.at("baseline").string() == "exact";
    }
    read_baseline_cost(root, schedule);
    return schedule;
  }

 private:
  /// Reads the keys with which all schedules begin; returns the version.
  template <class Any>
  static std::int64_t read_head(const Node& root, Any& schedule) {
    const std::int64_t version = expect_format(root, "remora-schedule", kLatest);
    schedule.graph = root.at("graph").string();
    read(root, "graph_sha256", schedule.graph_sha256);
    schedule.status = read_word(root.at("status"), kStatusWords);
    schedule.order = read_word(root.at("order"), kOrderWords);
    return version;
  }

  [[nodiscard]] std::vector<Step> read_steps(const Node& node, std::int64_t version) const {
    node.expect_array();
    std::vector<Step> steps;
    steps.reserve(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) {
      const Node step = node.element(i);
      step.expect_object();
      steps.push_back({.op = ops_.resolve(step.at("op")), .free = tensors_.resolve_all(step.at("free"))});
      if (version >= 4 && step.has("mode")) {
        steps.back().mode = static_cast<ModeNumber>(step.at("mode").integer(0, kMaxModes - 1));
      }
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
    Arena::Offsets offsets;
    for_each_member(node, [&](const std::string& name, const Node& offset) {
      offsets.emplace_back(tensors_.resolve(name, offset), Bytes(offset.integer()));
    });
    return offsets;
  }

  [[nodiscard]] Certificate read_certificate(const Node& node) const {
    node.expect_object();
    return {.op = ops_.resolve(node.at("op")),
            .required = Bytes(node.at("required").integer()),
            .tensors = tensors_.resolve_all(node.at("tensors"))};
  }

  void read_amounts(const Node& root, DeviceSchedule& schedule) const {
    schedule.budget.assign(devices_->size(), std::nullopt);
    read_by_device(root, "budget", schedule.budget);
    schedule.peak_memory.assign(devices_->size(), Bytes());
    static_cast<void>(root.at("peak_memory"));
    read_by_device(root, "peak_memory", schedule.peak_memory);
    schedule.baseline_peak_memory.assign(devices_->size(), Bytes());
    read_by_device(root, "baseline_peak_memory", schedule.baseline_peak_memory);
    schedule.duration = Duration(root.at("duration").integer());
    if (root.has("energy")) schedule.energy = Energy(root.at("energy").integer());
    if (root.has("duration_limit")) schedule.duration_limit = Duration(root.at("duration_limit").integer());
    if (root.has("energy_limit")) schedule.energy_limit = Energy(root.at("energy_limit").integer());
    if (root.has("baseline_duration")) schedule.baseline_duration = Duration(root.at("baseline_duration").integer());
    if (root.has("lower_bound")) schedule.lower_bound = root.at("lower_bound").integer();
  }

  template <class Amounts>
  void read_by_device(const Node& root, std::string_view key, Amounts& amounts) const {
    if (!root.has(key)) return;
    const Node node = root.at(key);
    for_each_member(node, [&](const std::string& name, const Node& bytes) {
      amounts[device(bytes, name)] = Bytes(bytes.integer());
    });
  }

  /// In the objective's unit: the file has it as the overhead over it.
  static void read_baseline_cost(const Node& root, DeviceSchedule& schedule) {
    if (schedule.objective == Objective::duration) {
      schedule.baseline_cost = schedule.baseline_duration.count();
    } else if (root.has("overhead")) {
      const double part = 1 + root.at("overhead").number();
      if (part > 0) schedule.baseline_cost = std::llround(static_cast<double>(schedule.cost()) / part);
    }
  }

  [[nodiscard]] DeviceId device(const Node& place, const std::string& name) const {
    for (const DeviceId d : devices_->ids()) {
      if ((*devices_)[d].name == name) return d;
    }
    place.fail("the graph has no device " + quote(name));
  }
  [[nodiscard]] DeviceId device(const Node& name) const { return device(name, name.string()); }

  [[nodiscard]] DeviceStep read_device_step(const Node& node) const {
    node.expect_object();
    DeviceStep step;
    if (node.has("copy")) {
      step.copied = tensors_.resolve(node.at("copy"));
      step.device = device(node.at("from"));
      step.to = device(node.at("to"));
    } else {
      step.op = ops_.resolve(node.at("op"));
      step.device = node.has("device") ? device(node.at("device")) : DeviceId(0);
    }
    const Node free = node.at("free");
    free.expect_array();
    for (std::size_t i = 0; i < free.size(); ++i) step.free.push_back(read_residence(free.element(i), step.device));
    return step;
  }

  [[nodiscard]] Residence read_residence(const Node& node, DeviceId step_device) const {
    if (!node.value().is_array()) return {tensors_.resolve(node), step_device};
    if (node.size() != 2) node.fail("must be a tensor or [tensor, device]");
    return {tensors_.resolve(node.element(0)), device(node.element(1))};
  }

  NameTable<OpId> ops_;
  NameTable<TensorId> tensors_;
  /// Null where the graph names none.
  const Table<DeviceId, Device>* devices_ = nullptr;
};

}  // namespace

std::vector<std::string> read_reading(Text text) {
  // Schedules of graphs record none, and their reader is to come: a long one would be parsed twice.
  if (text.view().find("\"reading\"") == std::string_view::npos) return {};
  const Document document = parse(text.view());
  return document.is_object() ? reading_of(Node(document)) : std::vector<std::string>{};
}

std::optional<ScheduleSlices> read_slices(Text text) {
  if (text.view().find("\"slices\"") == std::string_view::npos) return std::nullopt;
  const Document document = parse(text.view());
  const Node root(document);
  if (expect_format(root, "remora-schedule", kLatest) < 3 || !root.has("slices")) return std::nullopt;
  return read_schedule_slices(root.at("slices"));
}

Schedule read_schedule(Text text, const Graph& graph) {
  const Document document = parse(text.view());
  return ScheduleReader(graph).read_root(Node(document));
}

DeviceSchedule read_schedule(Text text, const DeviceGraph& graph) {
  const Document document = parse(text.view());
  return ScheduleReader(graph).read_device_root(Node(document));
}

namespace {

/// Writes the keys with which all schedules begin.
template <class Any>
void write_head(ObjectText& object, const Any& schedule, int version) {
  object.string("format", "remora-schedule");
  object.integer("version", version);
  object.string("graph", schedule.graph);
  if (!schedule.graph_sha256.empty()) object.string("graph_sha256", schedule.graph_sha256);
}

class ScheduleWriter {
 public:
  ScheduleWriter(const Schedule& schedule, const Graph& graph) : schedule_(schedule), graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    write_head(object, schedule_, version());
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
    if (schedule_.slices) {
      object.key("slices");
      write_slices(*schedule_.slices);
    }
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
  /// The least that can say it.
  [[nodiscard]] int version() const {
    const bool has_modes = std::ranges::any_of(schedule_.steps, [](const Step& step) { return step.mode != 0; });
    if (has_modes) return 4;
    return schedule_.slices ? 3 : schedule_.arena ? 2 : 1;
  }

  void write_slices(const ScheduleSlices& slices) {
    ObjectText object(out_, ",\n    ");
    object.integer("overhead", slices.run.overhead.count());
    object.integer("bandwidth", slices.run.bandwidth.count());
    object.boolean("temporaries", slices.run.temporaries);
    object.boolean("copies", slices.run.copies);
    object.key("regions");
    append_lines(out_, 4, slices.regions.size(), [&](std::size_t i) { write_region(slices.regions[i]); });
    object.key("without");
    ObjectText without(out_);
    without.string("status", word_of(slices.whole_status, kStatusWords));
    without.integer("duration", slices.whole_duration.count());
    without.integer("lower_bound", slices.whole_lower_bound.count());
    if (slices.whole_max_computes > 0) {
      without.integer("max_computes", slices.whole_max_computes);
    } else {
      without.null("max_computes");
    }
    without.close();
    object.close();
  }

  void write_region(const NamedRegion& region) {
    ObjectText object(out_);
    object.integer("slices", region.slices);
    object.key("saves");
    ObjectText saves(out_);
    saves.integer("peak", region.saved_peak.count());
    saves.integer("minimum", region.saved_minimum.count());
    saves.close();
    object.integer("costs", region.cost.count());
    object.key("parts");
    ListText parts(out_);
    for (const auto& part : region.parts) {
      parts.separate();
      ListText members(out_);
      for (const NamedRegion::Member& member : part) {
        members.separate();
        ListText pair(out_);
        pair.add(member.op);
        pair.add(member.axis);
        pair.close();
      }
      members.close();
    }
    parts.close();
    object.close();
  }

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
    if (step.mode != 0) object.integer("mode", step.mode);
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

class DeviceScheduleWriter {
 public:
  DeviceScheduleWriter(const DeviceSchedule& schedule, const DeviceGraph& graph) : schedule_(schedule), graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    write_head(object, schedule_, 2);
    object.string("status", word_of(schedule_.status, kStatusWords));
    object.string("order", word_of(schedule_.order, kOrderWords));
    object.string("objective", word_of(schedule_.objective, kObjectiveWords));
    if (schedule_.copies != CopyMode::sequential) object.string("copies", word_of(schedule_.copies, kCopyWords));
    object.key("budget");
    write_budget();
    object.integer("duration", schedule_.duration.count());
    object.integer("energy", schedule_.energy.count());
    if (schedule_.duration_limit) object.integer("duration_limit", schedule_.duration_limit->count());
    if (schedule_.energy_limit) object.integer("energy_limit", schedule_.energy_limit->count());
    object.integer("baseline_duration", schedule_.baseline_duration.count());
    const auto cost = static_cast<double>(schedule_.cost());
    const auto baseline = static_cast<double>(schedule_.baseline_cost);
    object.number("overhead", schedule_.has_schedule() && baseline > 0 ? cost / baseline - 1 : 0.0);
    object.integer("lower_bound", schedule_.lower_bound);
    object.number("gap", cost > 0 ? (cost - static_cast<double>(schedule_.lower_bound)) / cost : 0.0);
    object.key("peak_memory");
    write_bytes(schedule_.peak_memory);
    object.key("baseline_peak_memory");
    write_bytes(schedule_.baseline_peak_memory);
    object.key("steps");
    append_lines(out_, 2, schedule_.steps.size(), [&](std::size_t i) { write_step(schedule_.steps[i]); });
    object.key("solver");
    write_solver();
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  [[nodiscard]] const std::string& name(DeviceId d) const { return graph_.devices[d].name; }

  void write_budget() {
    ObjectText object(out_);
    for (const DeviceId d : schedule_.budget.ids()) {
      if (schedule_.budget[d]) object.integer(name(d), schedule_.budget[d]->count());
    }
    object.close();
  }

  void write_bytes(const Table<DeviceId, Bytes>& bytes) {
    ObjectText object(out_);
    for (const DeviceId d : bytes.ids()) object.integer(name(d), bytes[d].count());
    object.close();
  }

  void write_step(const DeviceStep& step) {
    ObjectText object(out_);
    if (step.is_copy()) {
      object.string("copy", graph_.graph[step.copied].name);
      object.string("from", name(step.device));
      object.string("to", name(step.to));
    } else {
      object.string("op", graph_.graph[step.op].name);
      object.string("device", name(step.device));
    }
    object.key("free");
    out_ += '[';
    for (std::size_t i = 0; i < step.free.size(); ++i) {
      const auto& [tensor, device] = step.free[i];
      if (i > 0) out_ += ", ";
      if (device != step.device) out_ += '[';
      append_string(out_, graph_.graph[tensor].name);
      if (device == step.device) continue;
      out_ += ", ";
      append_string(out_, name(device));
      out_ += ']';
    }
    out_ += ']';
    object.close();
  }

  void write_solver() {
    const SolverReport& report = schedule_.solver;
    ObjectText object(out_);
    object.string("version", report.version);
    object.string("baseline", schedule_.baseline_is_exact ? "exact" : "bound");
    object.key("limits");
    ObjectText limits(out_);
    limits.integer("max_computes", report.max_computes);
    limits.integer("work", report.work_limit);
    limits.close();
    write_optimal_for(object, report);
    object.integer("work", report.work);
    object.number("seconds", report.seconds);
    if (!report.note.empty()) object.string("note", report.note);
    object.close();
  }

  const DeviceSchedule& schedule_;
  const DeviceGraph& graph_;
  std::string out_;
};

}  // namespace

void write_schedule(std::ostream& out, const Schedule& schedule, const Graph& graph) {
  out << ScheduleWriter(schedule, graph).text();
}

void write_schedule(std::ostream& out, const DeviceSchedule& schedule, const DeviceGraph& graph) {
  out << DeviceScheduleWriter(schedule, graph).text();
}

}  // namespace remora::json
