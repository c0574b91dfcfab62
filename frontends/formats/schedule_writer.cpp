// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include "frontends/formats/json_text.hpp"
#include "frontends/formats/schedule_json.hpp"
#include "frontends/formats/schedule_keys.hpp"
#include "model/error.hpp"

namespace remora::json {
namespace {

class ScheduleWriter {
 public:
  ScheduleWriter(const Schedule& schedule, const Graph& graph) : schedule_(schedule), graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-schedule");
    object.integer("version", 1);
    object.string("graph", schedule_.graph);
    if (!schedule_.graph_sha256.empty()) object.string("graph_sha256", schedule_.graph_sha256);
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
    object.key("steps");
    append_lines(out_, 2, schedule_.steps.size(), [&](std::size_t i) { write_step(schedule_.steps[i]); });
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
  void write_step(const Step& step) {
    ObjectText object(out_);
    object.string("op", name_of(step.op));
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

  void write_solver(const SolverReport& report) {
    ObjectText object(out_, ",\n    ");
    object.string("version", report.version);
    object.unsigned_integer("seed", report.seed);
    object.integer("threads", report.threads);
    object.key("limits");
    write_limits(report);
    object.integer("work", report.work);
    object.number("seconds", report.seconds);
    object.key("phases");
    write_phases(report);
    if (!report.note.empty()) object.string("note", report.note);
    object.numbers("statistics", report.statistics);
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
