// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <gtest/gtest.h>

#include "frontends/report/axis_scale.hpp"

namespace remora::report {
namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(AxisScale, BeginsAtZeroAndEndsAboveTheGreatestValue) {
  const AxisScale scale({}, {0.7, 3.3});
  EXPECT_EQ(scale.ticks(), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(scale.place(0), 0);
  EXPECT_DOUBLE_EQ(scale.place(4), 1);
  EXPECT_DOUBLE_EQ(scale.place(1), 0.25);
}

TEST(AxisScale, KeepsTheEndsThatItIsGiven) {
  const AxisScale scale({.least = 50.0, .most = 100.0}, {60, 70});
  EXPECT_DOUBLE_EQ(scale.place(75), 0.5);
  EXPECT_EQ(scale.ticks().front(), 50);
  EXPECT_EQ(scale.ticks().back(), 100);
}

TEST(AxisScale, HasTicksWhereTheEndsAreNearlyEqual) {
  const AxisScale scale({.least = 4e12, .most = 4e12 + 1}, {});
  ASSERT_GE(scale.ticks().size(), 4U);
  ASSERT_LE(scale.ticks().size(), 7U);
  for (const double tick : scale.ticks()) {
    EXPECT_GE(tick, 4e12 - 0.01);
    EXPECT_LE(tick, 4e12 + 1.21);
  }
}

TEST(AxisScale, GivesEqualRatiosEqualLengthsWhereItIsLogarithmic) {
  const AxisScale scale({.logarithmic = true}, {0.01, 1000, 0, -5});
  EXPECT_FALSE(scale.shows(0));
  EXPECT_FALSE(scale.shows(-1));
  EXPECT_NEAR(scale.place(1) - scale.place(0.1), scale.place(100) - scale.place(10), 1e-12);
  EXPECT_EQ(scale.ticks(), (std::vector<double>{0.01, 0.1, 1, 10, 100, 1000}));
}

TEST(AxisScale, HasTwosAndFivesWithinFewDecades) {
  const AxisScale scale({.logarithmic = true}, {1, 50});
  EXPECT_EQ(scale.ticks(), (std::vector<double>{1, 2, 5, 10, 20, 50}));
}

TEST(AxisScale, StandsWithoutValuesAndWithOne) {
  for (const bool logarithmic : {false, true}) {
    EXPECT_FALSE(AxisScale({.logarithmic = logarithmic}, {}).ticks().empty());
    const AxisScale one({.logarithmic = logarithmic}, {3});
    EXPECT_GT(one.place(3), 0);
  }
}

TEST(AxisScale, WritesTicksAsPeopleDo) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(0.5), "0.5");
  EXPECT_EQ(tick_text(10000), "10,000");
  EXPECT_EQ(tick_text(-20), "-20");
}

TEST(Plot, DrawsAMarkAPointAndOneLegendEntryASeries) {
  const Series a{"first", Join::none, {{1, 1}, {2, 2}, {3, 1}}};
  const Series b{"second", Join::line, {{1, 2}, {2, 3}}};
  const std::string text = svg({"title", {{"left", {}, {}, {a, b}}, {"right", {}, {}, {b}}}, 2});
  EXPECT_EQ(occurrences(text, "<circle"), 4U);  // three points and the legend
  EXPECT_EQ(occurrences(text, ">first<"), 1U);
  EXPECT_EQ(occurrences(text, ">second<"), 1U);
}

TEST(Plot, LeavesOutWhatALogarithmicAxisCannotShow) {
  const Series series{"s", Join::none, {{0, 1}, {1, 1}, {10, 1}}};
  const std::string text = svg({"title", {{"p", {.logarithmic = true}, {}, {series}}}, 1});
  EXPECT_EQ(occurrences(text, "<circle"), 3U);
}

TEST(Plot, EscapesNamesAndSaysWhereThereIsNothing) {
  const std::string text = svg({"a < b & \"c\"", {{"p", {}, {}, {{"<s>", Join::none, {}}}}}, 1});
  EXPECT_EQ(text.find("<s>"), std::string::npos);
  EXPECT_NE(text.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(text.find("nothing to show"), std::string::npos);
}

}  // namespace
}  // namespace remora::report
