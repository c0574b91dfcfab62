// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// What traces have in common: their head, and how an event begins.
class TraceText {
 protected:
  TraceText(const Graph& graph, const std::string& unit) : graph_(graph), unit_(unit), clock_(clock_of(unit)) {}

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] std::string& out() { return out_; }

  /// `append(i)` makes the i-th of so many events.
  template <class Append>
  std::string text(std::size_t events, const Append& append) {
    json::ObjectText object(out_, ",\n  ");
    object.string("displayTimeUnit", "ms");
    object.key("otherData");
    json::ObjectText other(out_);
    other.string("graph", graph_.name);
    const std::string unit = unit_.empty() ? "unit of time" : unit_;
    other.string("duration_unit", clock_.known ? unit_ : "a microsecond here is one " + unit);
    other.close();
    object.key("traceEvents");
    json::append_lines(out_, 2, events, append);
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

  void append_common(json::ObjectText& event, const std::string& name, const char* kind, Duration now,
                     std::int64_t lane) {
    event.string("name", name);
    event.string("ph", kind);
    event.number("ts", clock_.microseconds(now));
    event.integer("pid", 1);
    event.integer("tid", lane);
  }

  /// An event that lasts; the caller appends its arguments and closes it.
  void append_lasting(json::ObjectText& event, const std::string& name, const char* category, Duration now,
                      Duration lasts, std::int64_t lane) {
    append_common(event, name, "X", now, lane);
    event.number("dur", clock_.microseconds(lasts));
    event.string("cat", category);
    // A colour name of the viewer's own.
    if (std::string_view(category) == "recompute") event.string("cname", "terrible");
    event.key("args");
  }

  /// Viewers stack what one counter holds: each has one amount.
  void append_counter(const std::string& name, Duration now, Bytes amount) {
    json::ObjectText event(out_);
    append_common(event, name, "C", now, 1);
    event.key("args");
    json::ObjectText arguments(out_);
    arguments.integer("bytes", amount.count());
    arguments.close();
    event.close();
  }

 private:
  const Graph& graph_;
  const std::string& unit_;
  Clock clock_;
  std::string out_{};
};

class ReplayTrace : TraceText {
 public:
  ReplayTrace(const Graph& graph, const Replay& replay, Bytes budget, const std::string& unit)
      : TraceText(graph, unit), replay_(replay), budget_(budget) {}

  std::string text() {
    Duration now;
    // The budget at both ends; each step begins with its memory, and a last counter ends the last step.
    const std::size_t steps = replay_.ops.size();
    return TraceText::text(steps == 0 ? 0 : 2 * steps + 3, [&](std::size_t i) {
      if (i == 0 || i == 2 * steps + 2) {
        append_counter("budget", now, budget_);
        return;
      }
      const std::size_t step = (i - 1) / 2;
      if (i % 2 == 1) {
        append_counter("memory", now, step < steps ? replay_.memory[step] : memory_at_end());
      } else {
        append_step(now, step);
        now += graph().ops[replay_.ops[step]].duration;
      }
    });
  }

 private:
  [[nodiscard]] Bytes memory_at_end() const {
    Bytes memory = replay_.base;
    for (const TensorStay& stay : replay_.stays) {
      if (stay.to_the_end) memory += graph().tensors[stay.tensor].size;
    }
    return memory;
  }

  void append_step(Duration now, std::size_t step) {
    const Op& op = graph().ops[replay_.ops[step]];
    json::ObjectText event(out());
    append_lasting(event, op.name, replay_.again[step] ? "recompute" : "first", now, op.duration, 1);
    json::ObjectText arguments(out());
    arguments.integer("step", static_cast<std::int64_t>(step));
    arguments.string("type", op.type);
    arguments.integer("memory", replay_.memory[step].count());
    arguments.close();
    event.close();
  }

  const Replay& replay_;
  Bytes budget_;
};

class DeviceTrace : TraceText {
 public:
  DeviceTrace(const DeviceGraph& graph, const DeviceProfile& profile, const std::string& unit)
      : TraceText(graph.graph, unit), graph_(graph), profile_(profile), names_(stream_names(graph, profile)) {}

  /// The lanes' names, then each step after each device's memory.
  std::string text() {
    const std::size_t devices = graph_.devices.size();
    const std::size_t lanes = names_.size();
    const std::size_t each = devices + 1;
    return TraceText::text(lanes + each * profile_.steps.size(), [&](std::size_t i) {
      if (i < lanes) {
        append_lane(i);
        return;
      }
      const std::size_t step = (i - lanes) / each;
      const std::size_t part = (i - lanes) % each;
      if (part < devices) {
        const DeviceId d(part);
        append_counter(graph_.devices[d].name, profile_.times[step], profile_.memory[d][step]);
      } else {
        append_step(step);
      }
    });
  }

 private:
  void append_lane(std::size_t lane) {
    json::ObjectText event(out());
    append_common(event, "thread_name", "M", Duration(0), static_cast<std::int64_t>(lane) + 1);
    event.key("args");
    json::ObjectText arguments(out());
    arguments.string("name", names_[lane]);
    arguments.close();
    event.close();
  }

  void append_step(std::size_t i) {
    const DeviceStep& step = profile_.steps[i];
    const Duration lasts = profile_.ends[i] - profile_.times[i];
    const std::int64_t lane = static_cast<std::int64_t>(profile_.stream[i]) + 1;
    json::ObjectText event(out());
    if (step.is_copy()) {
      append_lasting(event, graph_.graph[step.copied].name, "copy", profile_.times[i], lasts, lane);
    } else {
      append_lasting(event, graph_.graph[step.op].name, profile_.again[i] ? "recompute" : "first", profile_.times[i],
                     lasts, lane);
    }
    json::ObjectText arguments(out());
    arguments.integer("step", static_cast<std::int64_t>(i));
    if (step.is_copy()) arguments.integer("bytes", graph_.graph[step.copied].size.count());
    if (!step.is_copy()) arguments.string("type", graph_.graph[step.op].type);
    arguments.close();
    event.close();
  }

  const DeviceGraph& graph_;
  const DeviceProfile& profile_;
  std::vector<std::string> names_;
};

}  // namespace

void write_trace(std::ostream& out, const Graph& graph, const Replay& replay, Bytes budget,
                 const std::string& duration_unit) {
  out << ReplayTrace(graph, replay, budget, duration_unit).text();
}

void write_trace(std::ostream& out, const DeviceGraph& graph, const DeviceProfile& profile,
                 const std::string& duration_unit) {
  out << DeviceTrace(graph, profile, duration_unit).text();
}

}  // namespace remora::report
