// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/formats/device_json.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

constexpr std::array<Word<Objective>, 2> kObjectiveWords = {{
    {Objective::duration, "duration"},
    {Objective::energy, "energy"},
}};

constexpr std::array<Word<CopyMode>, 2> kCopyWords = {{
    {CopyMode::sequential, "sequential"},
    {CopyMode::overlap, "overlap"},
}};

/// The numbers behind the names of a table of the graph.
template <class Identifier, class Rows>
NameTable<Identifier> names_in(const Rows& rows, const std::string& kind) {
  NameTable<Identifier> names("the graph has no " + kind, rows.size());
  std::size_t i = 0;
  for (const auto& row : rows) names.add(row.name, Identifier(i++));
  return names;
}

class Reader {
 public:
  explicit Reader(const DeviceGraph& graph)
      : graph_(graph),
        ops_(names_in<OpId>(graph.graph.ops, "op")),
        tensors_(names_in<TensorId>(graph.graph.tensors, "tensor")) {}

  [[nodiscard]] DeviceSchedule read(const Node& root) const {
    expect_format(root, "remora-schedule", 2);
    DeviceSchedule schedule;
    schedule.graph = root.at("graph").string();
    if (root.has("graph_sha256")) schedule.graph_sha256 = root.at("graph_sha256").string();
    const Node status = root.at("status");
    schedule.status = read_word(status, kStatusWords);
    const Node order = root.at("order");
    schedule.order = read_word(order, kOrderWords);
    if (root.has("objective")) {
      const Node objective = root.at("objective");
      schedule.objective = read_word(objective, kObjectiveWords);
    }
    if (root.has("copies")) {
      const Node copies = root.at("copies");
      schedule.copies = read_word(copies, kCopyWords);
    }
    read_amounts(root, schedule);
    const Node steps = root.at("steps");
    steps.expect_array();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Node step = steps.element(i);
      schedule.steps.push_back(read_step(step));
    }
    if (root.has("solver")) {
      const Node solver = root.at("solver");
      read_solver(solver, schedule.solver);
      if (solver.has("baseline")) schedule.baseline_is_exact = solver.at("baseline").string() == "exact";
    }
    read_baseline_cost(root, schedule);
    return schedule;
  }

 private:
  void read_amounts(const Node& root, DeviceSchedule& schedule) const {
    schedule.budget.assign(graph_.devices.size(), std::nullopt);
    if (root.has("budget")) {
      const Node budget = root.at("budget");
      for_each_device(budget, [&](DeviceId d, Bytes bytes) { schedule.budget[d] = bytes; });
    }
    schedule.peak_memory.assign(graph_.devices.size(), Bytes());
    const Node peak = root.at("peak_memory");
    for_each_device(peak, [&](DeviceId d, Bytes bytes) { schedule.peak_memory[d] = bytes; });
    schedule.baseline_peak_memory.assign(graph_.devices.size(), Bytes());
    if (root.has("baseline_peak_memory")) {
      const Node baseline = root.at("baseline_peak_memory");
      for_each_device(baseline, [&](DeviceId d, Bytes bytes) { schedule.baseline_peak_memory[d] = bytes; });
    }
    schedule.duration = Duration(root.at("duration").integer());
    if (root.has("energy")) schedule.energy = Energy(root.at("energy").integer());
    if (root.has("duration_limit")) schedule.duration_limit = Duration(root.at("duration_limit").integer());
    if (root.has("energy_limit")) schedule.energy_limit = Energy(root.at("energy_limit").integer());
    if (root.has("baseline_duration")) schedule.baseline_duration = Duration(root.at("baseline_duration").integer());
    if (root.has("lower_bound")) schedule.lower_bound = root.at("lower_bound").integer();
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
    for (const DeviceId d : graph_.devices.ids()) {
      if (graph_.devices[d].name == name) return d;
    }
    place.fail("the graph has no device " + quote(name));
  }

  /// `node` lives as long as the call.
  template <class Visit>
  void for_each_device(const Node& node, Visit visit) const {
    node.expect_object();
    for (const auto& [name, value] : node.value().get_ref<const Document::object_t&>()) {
      const Node bytes = node.at(name);
      visit(device(bytes, name), Bytes(bytes.integer()));
    }
  }

  [[nodiscard]] DeviceStep read_step(const Node& node) const {
    node.expect_object();
    DeviceStep step;
    if (node.has("copy")) {
      const Node copied = node.at("copy");
      const Node from = node.at("from");
      const Node to = node.at("to");
      step.copied = tensors_.resolve(copied);
      step.device = device(from, from.string());
      step.to = device(to, to.string());
    } else {
      const Node op = node.at("op");
      step.op = ops_.resolve(op);
      step.device = DeviceId(0);
      if (node.has("device")) {
        const Node where = node.at("device");
        step.device = device(where, where.string());
      }
    }
    const Node free = node.at("free");
    free.expect_array();
    for (std::size_t i = 0; i < free.size(); ++i) {
      const Node residence = free.element(i);
      step.free.push_back(read_residence(residence, step.device));
    }
    return step;
  }

  [[nodiscard]] Residence read_residence(const Node& node, DeviceId step_device) const {
    if (!node.value().is_array()) return {tensors_.resolve(node), step_device};
    if (node.size() != 2) node.fail("must be a tensor or [tensor, device]");
    const Node tensor = node.element(0);
    const Node where = node.element(1);
    return {tensors_.resolve(tensor), device(where, where.string())};
  }

  static void read_solver(const Node& node, SolverReport& solver) {
    node.expect_object();
    if (node.has("version")) solver.version = node.at("version").string();
    read_optimal_for(node, solver);
    if (node.has("work")) solver.work = node.at("work").integer();
    if (node.has("seconds")) solver.seconds = node.at("seconds").number();
    if (node.has("note")) solver.note = node.at("note").string();
    if (!node.has("limits")) return;
    const Node limits = node.at("limits");
    limits.expect_object();
    if (limits.has("max_computes")) {
      const Node most = limits.at("max_computes");
      solver.max_computes = static_cast<int>(most.integer(0, std::numeric_limits<int>::max()));
    }
    if (limits.has("work")) solver.work_limit = limits.at("work").integer();
  }

  const DeviceGraph& graph_;
  NameTable<OpId> ops_;
  NameTable<TensorId> tensors_;
};

class Writer {
 public:
  Writer(const DeviceSchedule& schedule, const DeviceGraph& graph) : schedule_(schedule), graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-schedule");
    object.integer("version", 2);
    object.string("graph", schedule_.graph);
    if (!schedule_.graph_sha256.empty()) object.string("graph_sha256", schedule_.graph_sha256);
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

DeviceSchedule read_device_schedule(Text text, const DeviceGraph& graph) {
  const Document document = parse(text.view());
  return Reader(graph).read(Node(document));
}

void write_device_schedule(std::ostream& out, const DeviceSchedule& schedule, const DeviceGraph& graph) {
  out << Writer(schedule, graph).text();
}

}  // namespace remora::json
