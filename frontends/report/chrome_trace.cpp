// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <ostream>
#include <utility>

#include "frontends/formats/json_text.hpp"
#include "frontends/report/page.hpp"

namespace remora::report {
namespace {

/// Microseconds as units of the graph: value / divisor * factor.
struct Clock {
  double divisor = 1;
  double factor = 1;
  bool known = false;

  [[nodiscard]] double microseconds(Duration duration) const {
    return static_cast<double>(duration.count()) / divisor * factor;
  }
};

Clock clock_of(const std::string& unit) {
  const std::array<std::pair<const char*, Clock>, 4> clocks{
      {{"ns", {1000, 1, true}}, {"us", {1, 1, true}}, {"ms", {1, 1000, true}}, {"s", {1, 1e6, true}}}};
  for (const auto& [name, clock] : clocks) {
    if (unit == name) return clock;
  }
  return {};
}

class TraceText {
 public:
  TraceText(const Graph& graph, const Replay& replay, Bytes budget, const std::string& unit)
      : graph_(graph), replay_(replay), budget_(budget), unit_(unit), clock_(clock_of(unit)) {}

  std::string text() {
    json::ObjectText object(out_, ",\n  ");
    object.string("displayTimeUnit", "ms");
    object.key("otherData");
    append_other();
    object.key("traceEvents");
    Duration now;
    // The budget at both ends; each step begins with its memory, and a last counter ends the last step.
    const std::size_t steps = replay_.ops.size();
    json::append_lines(out_, 2, steps == 0 ? 0 : 2 * steps + 3, [&](std::size_t i) {
      if (i == 0 || i == 2 * steps + 2) {
        append_counter("budget", now, budget_);
        return;
      }
      const std::size_t step = (i - 1) / 2;
      if (i % 2 == 1) {
        append_counter("memory", now, step < steps ? replay_.memory[step] : memory_at_end());
      } else {
        append_step(now, step);
        now += graph_.ops[replay_.ops[step]].duration;
      }
    });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  [[nodiscard]] Bytes memory_at_end() const {
    Bytes memory = replay_.base;
    for (const Residence& stay : replay_.residences) {
      if (stay.to_the_end) memory += graph_.tensors[stay.tensor].size;
    }
    return memory;
  }

  void append_other() {
    json::ObjectText other(out_);
    other.string("graph", graph_.name);
    const std::string unit = unit_.empty() ? "unit of time" : unit_;
    other.string("duration_unit", clock_.known ? unit_ : "a microsecond here is one " + unit);
    other.close();
  }

  void append_common(json::ObjectText& event, const std::string& name, const char* kind, Duration now) {
    event.string("name", name);
    event.string("ph", kind);
    event.number("ts", clock_.microseconds(now));
    event.integer("pid", 1);
    event.integer("tid", 1);
  }

  void append_step(Duration now, std::size_t step) {
    const Op& op = graph_.ops[replay_.ops[step]];
    const bool again = replay_.again[step];
    json::ObjectText event(out_);
    append_common(event, op.name, "X", now);
    event.number("dur", clock_.microseconds(op.duration));
    event.string("cat", again ? "recompute" : "first");
    // A colour name of the viewer's own.
    if (again) event.string("cname", "terrible");
    event.key("args");
    json::ObjectText arguments(out_);
    arguments.integer("step", static_cast<std::int64_t>(step));
    arguments.string("type", op.type);
    arguments.integer("memory", replay_.memory[step].count());
    arguments.close();
    event.close();
  }

  /// Viewers stack what one counter holds: each has one amount.
  void append_counter(const char* name, Duration now, Bytes amount) {
    json::ObjectText event(out_);
    append_common(event, name, "C", now);
    event.key("args");
    json::ObjectText arguments(out_);
    arguments.integer("bytes", amount.count());
    arguments.close();
    event.close();
  }

  const Graph& graph_;
  const Replay& replay_;
  Bytes budget_;
  const std::string& unit_;
  Clock clock_;
  std::string out_{};
};

}  // namespace

void write_trace(std::ostream& out, const Graph& graph, const Replay& replay, Bytes budget,
                 const std::string& duration_unit) {
  out << TraceText(graph, replay, budget, duration_unit).text();
}

}  // namespace remora::report
