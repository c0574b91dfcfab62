// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <optional>
#include <ostream>
#include <span>
#include <string>
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

class TraceText {
 public:
  TraceText(const DeviceGraph& graph, const DeviceProfile& profile, const Table<DeviceId, std::optional<Bytes>>& budget,
            const std::string& unit)
      : graph_(graph),
        profile_(profile),
        budget_(budget),
        unit_(unit),
        clock_(clock_of(unit)),
        names_(stream_names(graph, profile)) {}

  /// The lanes' names and the budgets, then each step after each device's memory, and both at the end.
  std::string text() {
    json::ObjectText object(out_, ",\n  ");
    object.string("displayTimeUnit", "ms");
    object.key("otherData");
    json::ObjectText other(out_);
    other.string("graph", graph_.graph.name);
    const std::string unit = unit_.empty() ? "unit of time" : unit_;
    other.string("duration_unit", clock_.known ? unit_ : "a microsecond here is one " + unit);
    other.close();
    object.key("traceEvents");
    for (std::size_t lane = 0; lane < names_.size(); ++lane) append_lane(lane);
    if (!profile_.steps.empty()) append_steps();
    json::append_lines(out_, 2, events_.size(), [&](std::size_t i) { out_ += events_[i]; });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  void append_steps() {
    append_budgets(Duration(0));
    for (std::size_t i = 0; i < profile_.steps.size(); ++i) {
      for (const DeviceId d : graph_.devices.ids())
        append_counter(counter_of(d, "memory"), profile_.times[i], profile_.memory[d][i]);
      append_step(i);
    }
    Table<DeviceId, Bytes> left = profile_.base;
    for (const TensorStay& stay : profile_.stays) {
      if (stay.to_the_end) left[stay.device] += graph_.graph[stay.tensor].size;
    }
    for (const DeviceId d : graph_.devices.ids())
      append_counter(counter_of(d, "memory"), profile_.times.back(), left[d]);
    append_budgets(profile_.times.back());
  }

  void append_budgets(Duration now) {
    for (const DeviceId d : graph_.devices.ids()) {
      if (budget_[d]) append_counter(counter_of(d, "budget"), now, *budget_[d]);
    }
  }

  /// "memory"; of several devices "gpu" and "gpu budget".
  [[nodiscard]] std::string counter_of(DeviceId device, const std::string& what) const {
    if (graph_.devices.size() == 1) return what;
    return graph_.devices[device].name + (what == "memory" ? "" : " " + what);
  }

  /// `append(event)`: what an event has beside its head.
  template <class Append>
  void append_event(const std::string& name, const char* kind, Duration now, std::size_t lane, const Append& append) {
    std::string& text = events_.emplace_back();
    json::ObjectText event(text);
    event.string("name", name);
    event.string("ph", kind);
    event.number("ts", clock_.microseconds(now));
    event.integer("pid", 1);
    event.integer("tid", static_cast<std::int64_t>(lane) + 1);
    append(event);
    event.close();
  }

  template <class Append>
  void append_arguments(json::ObjectText& event, const Append& append) {
    event.key("args");
    json::ObjectText arguments(events_.back());
    append(arguments);
    arguments.close();
  }

  /// Viewers stack what one counter holds: each has one amount.
  void append_counter(const std::string& name, Duration now, Bytes amount) {
    append_event(name, "C", now, 0, [&](json::ObjectText& event) {
      append_arguments(event, [&](json::ObjectText& arguments) { arguments.integer("bytes", amount.count()); });
    });
  }

  void append_lane(std::size_t lane) {
    append_event("thread_name", "M", Duration(0), lane, [&](json::ObjectText& event) {
      append_arguments(event, [&](json::ObjectText& arguments) { arguments.string("name", names_[lane]); });
    });
  }

  void append_step(std::size_t i) {
    const DeviceStep& step = profile_.steps[i];
    const Graph& graph = graph_.graph;
    const char* const category = step.is_copy() ? "copy" : profile_.again[i] ? "recompute" : "first";
    const std::string& name = step.is_copy() ? graph[step.copied].name : graph[step.op].name;
    append_event(name, "X", profile_.times[i], profile_.stream[i], [&](json::ObjectText& event) {
      event.number("dur", clock_.microseconds(profile_.ends[i] - profile_.times[i]));
      event.string("cat", category);
      // A colour name of the viewer's own.
      if (!step.is_copy() && profile_.again[i]) event.string("cname", "terrible");
      append_arguments(event, [&](json::ObjectText& arguments) {
        arguments.integer("step", static_cast<std::int64_t>(i));
        if (step.is_copy()) arguments.integer("bytes", graph[step.copied].size.count());
        if (!step.is_copy()) arguments.string("type", graph[step.op].type);
        arguments.integer("memory", profile_.memory[step.device][i].count());
      });
    });
  }

  const DeviceGraph& graph_;
  const DeviceProfile& profile_;
  const Table<DeviceId, std::optional<Bytes>>& budget_;
  const std::string& unit_;
  Clock clock_;
  std::vector<std::string> names_;
  std::vector<std::string> events_{};
  std::string out_{};
};

}  // namespace

void write_trace(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule,
                 const DeviceProfile& profile, const std::string& duration_unit) {
  out << TraceText(graph, profile, schedule.budget, duration_unit).text();
}

void write_trace(std::ostream& out, const Graph& graph, std::span<const Step> steps, Bytes budget,
                 const std::string& duration_unit) {
  const DeviceGraph on_device = on_one_device(graph);
  DeviceSchedule schedule{.steps = on_one_device(steps)};
  schedule.budget.push_back(budget);
  write_trace(out, on_device, schedule, profile_of(on_device, schedule), duration_unit);
}

}  // namespace remora::report
