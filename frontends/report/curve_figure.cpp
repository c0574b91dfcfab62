// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/curve_figure.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/report/memory_unit.hpp"

namespace remora::report {
namespace {

constexpr double kPercent = 100;
constexpr double kMargin = 0.05;

/// Turns a curve's amounts into places of its figure.
class CurvePlaces {
 public:
  explicit CurvePlaces(const Curve& curve) : curve_(curve) {
    Bytes least = curve.least_budget > Bytes(0) || curve.points.empty() ? curve.least_budget : curve.points[0].budget;
    Bytes most = least;
    for (const CurvePoint& point : curve.points) {
      least = std::min(least, point.budget);
      most = std::max(most, point.budget);
    }
    unit_ = memory_unit_for(most);
    // Budgets of interest begin far from 0; a margin keeps the marks off the border.
    if (most > least) first_ = across(least) - kMargin * (across(most) - across(least));
  }

  [[nodiscard]] Axis axis() const { return {.label = std::string("budget (") + unit_.name + ")", .least = first_}; }
  [[nodiscard]] double across(Bytes budget) const { return unit_.amount(budget); }
  [[nodiscard]] std::pair<double, double> known(const CurvePoint& point) const {
    return {across(point.budget), kPercent * curve_.overhead(point)};
  }
  [[nodiscard]] std::pair<double, double> bound(const CurvePoint& point) const {
    return {across(point.budget), kPercent * curve_.least_overhead(point)};
  }

 private:
  const Curve& curve_;
  MemoryUnit unit_{};
  std::optional<double> first_{};
};

/// A path by Join::steps holds a value to its right; a bound holds to the left.
std::vector<std::pair<double, double>> bounds(const Curve& curve, const CurvePlaces& places) {
  std::vector<std::pair<double, double>> points;
  for (const CurvePoint& point : curve.points) {
    if (point.status == Status::infeasible) continue;
    const auto place = places.bound(point);
    if (!points.empty()) points.emplace_back(points.back().first, place.second);
    points.push_back(place);
  }
  return points;
}

}  // namespace

Figure curve_figure(const Curve& curve) {
  const CurvePlaces places(curve);
  std::vector<std::pair<double, double>> known;
  std::vector<std::pair<double, double>> proved;
  double highest = 0;
  for (const CurvePoint& point : curve.points) {
    if (!point.has_schedule()) continue;
    known.push_back(places.known(point));
    if (point.status == Status::optimal) proved.push_back(known.back());
    highest = std::max(highest, known.back().second);
  }
  Panel panel;
  panel.x = places.axis();
  panel.y = {.label = "overhead (%)"};
  // Of one name, so of one style: the stairs, and a mark on each.
  panel.series.push_back({"shortest known", Join::steps, known});
  panel.series.push_back({"shortest known", Join::none, known});
  panel.series.push_back({"lower bound", Join::steps, bounds(curve, places)});
  panel.series.push_back({"proved optimal", Join::none, proved});
  if (curve.knee) panel.series.push_back({"knee", Join::none, {places.known(curve.points[*curve.knee])}});
  if (const auto smallest = curve.smallest_feasible()) {
    panel.series.push_back({"smallest feasible", Join::none, {places.known(curve.points[*smallest])}});
  }
  if (curve.least_budget > Bytes(0)) {
    const double x = places.across(curve.least_budget);
    panel.series.push_back({"none below (proved)", Join::line, {{x, 0}, {x, highest}}});
  }
  return {.title = curve.graph + ": overhead against budget", .panels = {panel}, .columns = 1};
}

}  // namespace remora::report
