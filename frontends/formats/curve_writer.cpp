// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>

#include "frontends/formats/curve_json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/schedule_keys.hpp"

namespace remora::json {
namespace {

void write_point(std::string& out, const Curve& curve, const CurvePoint& point) {
  ObjectText object(out);
  object.integer("budget", point.budget.count());
  object.number("part", curve.part_of_baseline(point.budget));
  object.string("status", word_of(point.status, kStatusWords));
  if (point.has_schedule()) {
    object.integer("duration", point.duration.count());
    object.number("overhead", curve.overhead(point));
    object.integer("peak_memory", point.peak_memory.count());
    object.integer("found_under", point.found_under.count());
  }
  object.integer("lower_bound", point.lower_bound.count());
  object.number("seconds", point.seconds);
  if (!point.schedule_file.empty()) object.string("schedule", point.schedule_file);
  object.close();
}

}  // namespace

void write_curve(std::ostream& out, const Curve& curve) {
  std::string text;
  ObjectText object(text, ",\n  ");
  object.string("format", "remora-curve");
  object.integer("version", 1);
  object.string("graph", curve.graph);
  if (!curve.graph_sha256.empty()) object.string("graph_sha256", curve.graph_sha256);
  object.string("order", word_of(curve.order, kOrderWords));
  object.integer("max_computes", curve.max_computes);
  object.integer("fixed_memory", curve.fixed_memory.count());
  object.integer("baseline_duration", curve.baseline_duration.count());
  object.integer("baseline_peak_memory", curve.baseline_peak_memory.count());
  object.integer("least_budget", curve.least_budget.count());
  if (const auto smallest = curve.smallest_feasible()) {
    object.integer("smallest_feasible", curve.points[*smallest].budget.count());
  }
  if (curve.knee) object.integer("knee", curve.points[*curve.knee].budget.count());
  object.number("seconds", curve.seconds);
  object.key("points");
  append_lines(text, 2, curve.points.size(), [&](std::size_t i) { write_point(text, curve, curve.points[i]); });
  object.close();
  text += '\n';
  out << text;
}

}  // namespace remora::json
