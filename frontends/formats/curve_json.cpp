// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <ostream>
#include <string>
#include <utility>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"

namespace remora::json {
namespace {

CurvePoint read_point(const Node& node) {
  node.expect_object();
  CurvePoint point;
  point.budget = Bytes(node.at("budget").integer());
  point.status = read_word(node.at("status"), kStatusWords);
  if (point.has_schedule()) {
    point.duration = Duration(node.at("duration").integer());
    point.peak_memory = Bytes(node.at("peak_memory").integer());
    point.found_under = Bytes(node.at("found_under").integer());
    if (point.peak_memory > point.budget) node.fail("its peak_memory is above its budget");
  }
  point.lower_bound = Duration(node.at("lower_bound").integer());
  if (point.has_schedule()) {
    if (point.lower_bound > point.duration) node.fail("its lower_bound is above its duration");
    const bool proved = point.status == Status::optimal;
    if (proved != (point.lower_bound == point.duration)) node.fail("its status does not fit its lower_bound");
  }
  if (node.has("slices")) point.slices = static_cast<int>(node.at("slices").integer(1, kMaxSlices));
  if (node.has("max_computes")) {
    point.max_computes = static_cast<int>(node.at("max_computes").integer(1, std::numeric_limits<int>::max()));
  }
  if (node.has("seconds")) point.seconds = node.at("seconds").number();
  if (node.has("schedule")) point.schedule_file = node.at("schedule").string();
  return point;
}

/// The shape of every curve: what a smaller budget permits, a larger one permits too.
void check_order(const Node& node, const CurvePoint& before, const CurvePoint& point) {
  if (point.budget <= before.budget) node.fail("its budget is not above that of the point before it");
  const bool proves = point.max_computes >= before.max_computes;
  if (proves && point.lower_bound > before.lower_bound) {
    node.fail("its lower_bound is above that of a smaller budget");
  }
  if (proves && point.status == Status::infeasible && before.status != Status::infeasible) {
    node.fail("it is infeasible, though a smaller budget is not");
  }
  if (!before.has_schedule()) return;
  if (!point.has_schedule()) node.fail("it has no schedule, though a smaller budget has one");
  if (point.duration > before.duration) node.fail("its duration is above that of a smaller budget");
}

void read_points(const Node& points, Curve& curve) {
  points.expect_array();
  curve.points.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Node node = points.element(i);
    CurvePoint point = read_point(node);
    if (i > 0) check_order(node, curve.points.back(), point);
    curve.points.push_back(std::move(point));
  }
}

std::size_t read_knee(const Node& node, const Curve& curve) {
  const Bytes budget(node.integer());
  const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const CurvePoint& point) { return point.budget == budget; });
  if (found == curve.points.end() || !found->has_schedule()) node.fail("must be the budget of a point with a schedule");
  return static_cast<std::size_t>(found - curve.points.begin());
}

}  // namespace

Curve read_curve(Text text) {
  const Document document = parse(text.view());
  const Node root(document);
  expect_format(root, "remora-curve");
  Curve curve;
  curve.graph = root.at("graph").string();
  if (root.has("graph_sha256")) curve.graph_sha256 = root.at("graph_sha256").string();
  curve.reading = reading_of(root);
  if (root.has("device")) curve.device = root.at("device").string();
  curve.order = read_word(root.at("order"), kOrderWords);
  curve.max_computes = static_cast<int>(root.at("max_computes").integer(1, std::numeric_limits<int>::max()));
  curve.fixed_memory = Bytes(root.at("fixed_memory").integer());
  curve.baseline_duration = Duration(root.at("baseline_duration").integer());
  curve.baseline_peak_memory = Bytes(root.at("baseline_peak_memory").integer());
  curve.least_budget = Bytes(root.at("least_budget").integer());
  if (root.has("seconds")) curve.seconds = root.at("seconds").number();
  const Node points = root.at("points");
  read_points(points, curve);
  if (root.has("knee")) {
    const Node knee = root.at("knee");
    curve.knee = read_knee(knee, curve);
  }
  return curve;
}

bool is_curve(Text text) {
  const Document document = parse(text.view());
  return document.is_object() && document.contains("format") && document.at("format") == "remora-curve";
}

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
  if (point.max_computes > 0) object.integer("max_computes", point.max_computes);
  if (point.slices > 0) object.integer("slices", point.slices);
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
  if (!curve.reading.empty()) object.strings("reading", curve.reading);
  if (!curve.device.empty()) object.string("device", curve.device);
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
