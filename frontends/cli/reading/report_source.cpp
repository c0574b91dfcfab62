// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/report_source.hpp"

#include <filesystem>
#include <map>
#include <utility>

#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/curve_json.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/amounts.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

/// Of a solve that found nothing there is nothing to verify.
void expect_shown(const std::string& path, const Graph& graph, const Schedule& schedule) {
  if (schedule.has_schedule()) {
    expect_valid(path, graph, schedule);
  } else if (schedule.has_steps()) {
    throw InputError(path, "$.steps: there are steps, though its status says that no schedule was found");
  }
}

Curve read_curve_of(const std::string& path, const std::string& content, const std::shared_ptr<const Graph>& graph) {
  try {
    Curve curve = json::read_curve(json::Text(content));
    const Instance instance(graph, {});
    if (curve.baseline_duration != instance.baseline_duration() ||
        curve.baseline_peak_memory != baseline_peak(instance)) {
      throw InputError("", "not a curve of this graph: its baseline is of " +
                               std::to_string(curve.baseline_duration.count()) + " units of time and " +
                               std::to_string(curve.baseline_peak_memory.count()) + " bytes, the graph's of " +
                               std::to_string(instance.baseline_duration().count()) + " and " +
                               std::to_string(baseline_peak(instance).count()));
    }
    return curve;
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
}

/// Reads the schedules that a curve names, each once.
class PointSchedules {
 public:
  PointSchedules(std::filesystem::path folder, report::Page& page, Files& files)
      : folder_(std::move(folder)), page_(page), files_(files) {}

  report::Page::PointSchedule of(const CurvePoint& point) {
    if (point.status == Status::infeasible) return {.why = "proved infeasible"};
    if (!point.has_schedule()) return {.why = "none found"};
    if (point.schedule_file.empty()) return {.why = "not kept: the curve names no file"};
    const std::string path = (folder_ / point.schedule_file).string();
    if (!std::filesystem::exists(path)) return {.why = "missing: " + printable(point.schedule_file)};
    const auto [place, is_new] = numbers_.emplace(path, page_.schedules.size());
    if (is_new) page_.schedules.push_back(load(path));
    expect_point(path, point, page_.schedules[place->second]);
    return {.schedule = place->second};
  }

 private:
  [[nodiscard]] Schedule load(const std::string& path) const {
    files_.will_read(path, "a schedule of the curve");
    Schedule schedule = load_schedule(path, *page_.graph);
    if (!schedule.has_schedule()) throw InputError(path, "there is no schedule in it, though the curve says so");
    expect_valid(path, *page_.graph, schedule);
    return schedule;
  }

  static void expect_point(const std::string& path, const CurvePoint& point, const Schedule& schedule) {
    if (schedule.duration == point.duration && schedule.peak_memory == point.peak_memory) return;
    throw InputError(path, "not the schedule that the curve found for " + text::grouped(point.budget.count()) +
                               " bytes: its duration or peak_memory differs");
  }

  std::filesystem::path folder_;
  report::Page& page_;
  Files& files_;
  std::map<std::string, std::size_t> numbers_{};
};

}  // namespace

report::Page load_page(const std::string& path, const LoadedGraph& loaded, Files& files) {
  const std::string content = json::read_file(path);
  report::Page page{.graph = loaded.graph, .duration_unit = text::duration_unit_of(*loaded.graph)};
  bool is_curve = false;
  try {
    is_curve = json::is_curve(json::Text(content));
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
  if (!is_curve) {
    page.schedules.push_back(read_schedule_of(path, content, *loaded.graph));
    expect_shown(path, *loaded.graph, page.schedules.front());
    return page;
  }
  page.curve = read_curve_of(path, content, loaded.graph);
  PointSchedules schedules(std::filesystem::path(path).parent_path(), page, files);
  page.points.reserve(page.curve->points.size());
  for (const CurvePoint& point : page.curve->points) page.points.push_back(schedules.of(point));
  return page;
}

}  // namespace remora::cli
