// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "frontends/report/figures.hpp"

namespace remora::report {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;

/// Four budgets: none, feasible, optimal, optimal without recompute.
Curve sample() {
  Curve curve{.graph = "sample",
              .baseline_duration = Duration(100),
              .baseline_peak_memory = Bytes(8 * kMiB),
              .least_budget = Bytes(2 * kMiB)};
  curve.points = {
      {.budget = Bytes(1 * kMiB), .status = Status::infeasible, .lower_bound = Duration(130)},
      {.budget = Bytes(4 * kMiB), .status = Status::feasible, .duration = Duration(120), .lower_bound = Duration(110)},
      {.budget = Bytes(6 * kMiB), .status = Status::optimal, .duration = Duration(105), .lower_bound = Duration(105)},
      {.budget = Bytes(8 * kMiB), .status = Status::optimal, .duration = Duration(100), .lower_bound = Duration(100)}};
  return curve;
}

std::vector<std::pair<double, double>> points_of(const Figure& figure, const std::string& name, Join join) {
  const auto& all = figure.series;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Series& series) { return series.name == name && series.join == join; });
  return found == all.end() ? std::vector<std::pair<double, double>>{} : found->points;
}

using Points = std::vector<std::pair<double, double>>;

TEST(CurveFigure, ShowsKnownSchedulesAndBoundsInPerCent) {
  const Figure figure = curve_figure(sample());
  EXPECT_EQ(figure.x.label, "budget (MiB)");
  EXPECT_EQ(points_of(figure, "shortest known", Join::steps), (Points{{4, 20}, {6, 5}, {8, 0}}));
  EXPECT_EQ(points_of(figure, "shortest known", Join::none), (Points{{4, 20}, {6, 5}, {8, 0}}));
  EXPECT_EQ(points_of(figure, "proved optimal", Join::none), (Points{{6, 5}, {8, 0}}));
  // The bound of 6 MiB holds just above 4 MiB already.
  EXPECT_EQ(points_of(figure, "lower bound", Join::steps), (Points{{4, 10}, {4, 5}, {6, 5}, {6, 0}, {8, 0}}));
}

std::vector<std::pair<double, double>> noted(const Figure& figure, const std::string& words) {
  std::vector<std::pair<double, double>> found;
  for (const Note& note : figure.notes) {
    if (note.words == words) found.emplace_back(note.x, note.y);
  }
  return found;
}

TEST(CurveFigure, NamesTheKneeAndTheSmallestBudget) {
  Curve curve = sample();
  EXPECT_TRUE(noted(curve_figure(curve), "knee").empty());
  curve.knee = 2;
  const Figure figure = curve_figure(curve);
  EXPECT_EQ(noted(figure, "knee"), (Points{{6, 5}}));
  EXPECT_EQ(noted(figure, "smallest feasible"), (Points{{4, 20}}));
  EXPECT_EQ(noted(figure, "none below (proved)"), (Points{{2, 20}}));
  EXPECT_EQ(points_of(figure, "", Join::line), (Points{{2, 0}, {2, 20}}));
  curve.knee = 1;
  EXPECT_EQ(noted(curve_figure(curve), "knee, smallest feasible"), (Points{{4, 20}}));
}

TEST(CurveFigure, CountsAboveFixedMemoryWhichHasABand) {
  Curve curve = sample();
  curve.fixed_memory = Bytes(1 * kMiB);
  const Figure figure = curve_figure(curve);
  EXPECT_EQ(figure.x.label, "budget above fixed memory (MiB)");
  EXPECT_EQ(figure.x.band, "fixed 1.00 MiB");
  EXPECT_EQ(points_of(figure, "shortest known", Join::steps), (Points{{3, 20}, {5, 5}, {7, 0}}));
  const std::string text = svg(figure);
  EXPECT_NE(text.find("class=\"band\""), std::string::npos);
  EXPECT_NE(text.find("fixed 1.00 MiB"), std::string::npos);
  EXPECT_EQ(svg(curve_figure(sample())).find("class=\"band\""), std::string::npos);
}

TEST(CurveFigure, StandsWithoutAnySchedule) {
  Curve curve = sample();
  curve.points.resize(1);
  EXPECT_NE(svg(curve_figure(curve)).find("</svg>"), std::string::npos);
  curve.points.clear();
  EXPECT_NE(svg(curve_figure(curve)).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace remora::report
