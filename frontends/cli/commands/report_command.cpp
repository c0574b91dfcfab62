// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>

#include <unistd.h>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

constexpr std::array kReportFiles{"output", "svg", "table"};

OptionGroup report_output() {
  OptionGroup group("What to write (without any of these, the page to standard output)");
  group.add_options()("output,o", output_file(), "the report as one HTML page that works offline")(
      "svg", output_file(), "a figure: memory over steps, or overhead against budget")(
      "table", output_file(), "CSV: the recomputed ops and why, or the points of a sweep")(
      "text", "a summary for terminals, to standard output")("quiet,q", "no warnings");
  return group;
}

/// Checks the options that write something before anything is read.
void check_outputs(const Arguments& arguments) {
  int to_standard_output = arguments.has("text") ? 1 : 0;
  for (const char* option : kReportFiles) {
    if (!arguments.has(option)) continue;
    const std::string& path = arguments.output(option);
    if (path == "-") ++to_standard_output;
    if (path != "-") json::check_writable(path);
  }
  if (to_standard_output > 1) throw UsageError("only one result can go to standard output (--text, or - for a FILE)");
}

class Report {
 public:
  Report(const Arguments& arguments, const report::Page& page) : arguments_(arguments), page_(page) {
    if (page.curve) return;
    if (page.devices) {
      device_profile_ = report::profile_of(*page.devices, page.device_schedules.front());
    } else {
      profile_ = report::profile_of(page.graph, page.schedules.front());
    }
  }

  void write() const {
    bool any = arguments_.has("text");
    for (const char* option : kReportFiles) any = any || arguments_.has(option);
    if (!any) arguments_.files().write("-", [&](std::ostream& out) { report::write_page(out, page_); });
    write_as("output", [&](std::ostream& out) { report::write_page(out, page_); });
    write_as("svg", [&](std::ostream& out) { out << figure(); });
    write_as("table", [&](std::ostream& out) { write_table(out); });
    if (arguments_.has("text")) arguments_.files().write("-", [&](std::ostream& out) { write_text(out); });
  }

 private:
  template <class Write>
  void write_as(const char* option, const Write& write) const {
    if (arguments_.has(option)) arguments_.files().write(arguments_.output(option), write);
  }

  [[nodiscard]] const Schedule& schedule() const { return page_.schedules.front(); }
  [[nodiscard]] const DeviceSchedule& device_schedule() const { return page_.device_schedules.front(); }

  [[nodiscard]] std::string figure() const {
    if (page_.curve) return report::svg(report::curve_figure(*page_.curve));
    if (page_.devices) return report::svg(report::device_figures(*page_.devices, device_schedule(), device_profile_));
    return report::svg(report::memory_figure(*page_.graph, schedule(), profile_));
  }

  void write_table(std::ostream& out) const {
    if (page_.curve) {
      report::write_curve_csv(out, *page_.curve);
    } else if (page_.devices) {
      report::write_device_table(out, *page_.devices, device_profile_);
    } else {
      report::write_recompute_table(out, *page_.graph, profile_);
    }
  }

  void write_text(std::ostream& out) const {
    const int width = text::terminal_width(STDOUT_FILENO, kSummaryWidth);
    if (page_.curve) {
      print_curve(out, *page_.graph, *page_.curve, width);
    } else if (page_.devices) {
      print_report(out, *page_.devices, device_schedule(), device_profile_, width);
    } else {
      print_report(out, *page_.graph, schedule(), profile_, width);
    }
  }

  const Arguments& arguments_;
  const report::Page& page_;
  /// The profile of the schedule; a sweep has several, which its page makes itself.
  report::ScheduleProfile profile_{};
  report::DeviceProfile device_profile_{};
};

/// A solve without a schedule has nothing to verify. For graphs over one device or several.
template <class AnyGraph, class AnySchedule>
void expect_shown(const std::string& path, const AnyGraph& graph, const AnySchedule& schedule) {
  if (schedule.has_schedule()) {
    expect_valid(path, graph, schedule);
  } else if (!schedule.steps.empty()) {
    throw InputError(path, "$.steps: there are steps, though its status says that no schedule was found");
  }
}

/// Throws InputError without a name unless the curve is one of this graph.
void expect_curve_of(const Curve& curve, const LoadedGraph& loaded) {
  const Instance instance(loaded.graph, {});
  const Bytes peak = baseline_peak(instance);
  if (curve.baseline_duration == instance.baseline_duration() && curve.baseline_peak_memory == peak) return;
  throw InputError(
      "", "not a curve of this graph: its baseline is of " + std::to_string(curve.baseline_duration.count()) +
              " units of time and " + std::to_string(curve.baseline_peak_memory.count()) + " bytes, the graph's of " +
              std::to_string(instance.baseline_duration().count()) + " and " + std::to_string(peak.count()));
}

/// The device that the curve is of.
DeviceId device_of(const Curve& curve, const DeviceGraph& graph) {
  for (const DeviceId d : graph.devices.ids()) {
    if (graph.devices[d].name == curve.device) return d;
  }
  throw InputError("", "not a curve of this graph: it has no device " + quote(curve.device));
}

void expect_curve_of(const Curve& curve, const LoadedDeviceGraph& loaded) {
  static_cast<void>(device_of(curve, *loaded.graph));
}

/// The peak of the memory that the curve describes.
Bytes peak_of(const Curve& /*curve*/, const LoadedGraph& /*loaded*/, const Schedule& schedule) {
  return schedule.peak_memory;
}

Bytes peak_of(const Curve& curve, const LoadedDeviceGraph& loaded, const DeviceSchedule& schedule) {
  return schedule.peak_memory[device_of(curve, *loaded.graph)];
}

/// Reads the schedules that a curve names, each once, into a list of the page. `load(file)`: a valid one;
/// `peak(schedule)`: what it holds of the memory that the curve is of.
template <class AnySchedule, class Load, class Peak>
class PointSchedules {
 public:
  PointSchedules(std::filesystem::path folder, std::vector<AnySchedule>& schedules, Files& files, Load load, Peak peak)
      : folder_(std::move(folder)), schedules_(schedules), files_(files), load_(load), peak_(peak) {}

  report::Page::PointSchedule of(const CurvePoint& point) {
    if (point.status == Status::infeasible) return {.why = "proved infeasible"};
    if (!point.has_schedule()) return {.why = "none found"};
    if (point.schedule_file.empty()) return {.why = "not kept: the curve names no file"};
    const std::string path = (folder_ / point.schedule_file).string();
    if (!std::filesystem::exists(path)) return {.why = "missing: " + printable(point.schedule_file)};
    const auto [place, is_new] = numbers_.emplace(path, schedules_.size());
    if (is_new) {
      files_.will_read(path, "a schedule of the curve");
      const FileText file = read_once(path);
      if (json::read_slices(json::Text(file.content))) {
        numbers_.erase(place);
        return {.why = "in slices: a report of its own shows " + printable(point.schedule_file)};
      }
      schedules_.push_back(load_(file));
    }
    const AnySchedule& schedule = schedules_[place->second];
    if (schedule.duration != point.duration || peak_(schedule) != point.peak_memory) {
      throw InputError(path, "not the schedule that the curve found for " + text::grouped(point.budget.count()) +
                                 " bytes: its duration or peak_memory differs");
    }
    return {.schedule = place->second};
  }

 private:
  std::filesystem::path folder_;
  std::vector<AnySchedule>& schedules_;
  Files& files_;
  Load load_;
  Peak peak_;
  std::map<std::string, std::size_t> numbers_{};
};

bool is_curve(const FileText& file) {
  try {
    return json::is_curve(json::Text(file.content));
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
}

/// Reads the subject of `remora report`: the schedule in the file at `path`, or, if that is a curve, all schedules that
/// the curve names, by their paths from its folder; missing files are noted at their points. Files read are noted in
/// `files`. Throws InputError with the file's name for a schedule that is not valid for the graph, and for a curve of
/// another graph.
template <class AnyLoaded, class AnySchedule>
report::Page load_page(const FileText& file, const AnyLoaded& loaded, report::Page page,
                       std::vector<AnySchedule> report::Page::*list, Files& files) {
  const auto& graph = *loaded.graph;
  if (!is_curve(file)) {
    (page.*list).push_back(load_schedule(file, graph));
    expect_shown(file.path, graph, (page.*list).front());
    return page;
  }
  try {
    page.curve = json::read_curve(json::Text(file.content));
    expect_curve_of(*page.curve, loaded);
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
  const auto load = [&](const FileText& of_point) {
    AnySchedule schedule = load_schedule(of_point, graph);
    if (!schedule.has_schedule())
      throw InputError(of_point.path, "holds no schedule, though the curve says that there is one");
    expect_valid(of_point.path, graph, schedule);
    return schedule;
  };
  PointSchedules schedules(std::filesystem::path(file.path).parent_path(), page.*list, files, load,
                           [&](const AnySchedule& schedule) { return peak_of(*page.curve, loaded, schedule); });
  for (const CurvePoint& point : page.curve->points) page.points.push_back(schedules.of(point));
  return page;
}

report::Page load_page(const FileText& file, const LoadedGraph& loaded, Files& files) {
  report::Page page{.graph = loaded.graph, .duration_unit = text::duration_unit_of(*loaded.graph)};
  if (is_curve(file)) return load_page(file, loaded, std::move(page), &report::Page::schedules, files);
  const ScheduledGraph scheduled = scheduled_graph(file, loaded);
  page.graph = scheduled.graph;
  page.sliced = scheduled.sliced;
  if (page.sliced) page.whole = loaded.graph;
  return load_page(file, LoadedGraph{.graph = scheduled.graph}, std::move(page), &report::Page::schedules, files);
}

report::Page load_page(const FileText& file, const LoadedDeviceGraph& loaded, Files& files) {
  const Graph& names = loaded.graph->graph;
  return load_page(
      file, loaded,
      {.graph = {loaded.graph, &names}, .devices = loaded.graph, .duration_unit = text::duration_unit_of(names)},
      &report::Page::device_schedules, files);
}

}  // namespace

int report_command(const Words& words) {
  Arguments arguments(
      "report", "Shows what a schedule does and why, or what a sweep found.",
      {{"GRAPH", "the graph that was solved; a model is read as the schedule says, or with the options below"},
       {"SCHEDULE", "a remora-schedule, or the remora-curve of a sweep (JSON), detected from its content"}});
  arguments.add(report_output());
  arguments.add(graph_options());
  arguments.set_notes("Exit: 0 written, 65 the schedule is not a valid one of the graph.");
  if (!arguments.parse(words)) return kSuccess;
  check_outputs(arguments);
  const FileText file = read_once(arguments.file("SCHEDULE"));
  const FileText graph = read_once(arguments.file("GRAPH"));
  report::Page page;
  if (const auto devices = load_device_graph(graph, arguments)) {
    page = load_page(file, *devices, arguments.files());
  } else {
    adopt_reading(arguments, file, arguments.has("quiet"));
    page = load_page(file, load_graph_of(file, graph, arguments, arguments.has("quiet")), arguments.files());
  }
  Report(arguments, page).write();
  return kSuccess;
}

}  // namespace remora::cli
