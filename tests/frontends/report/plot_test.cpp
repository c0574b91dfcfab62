// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <gtest/gtest.h>

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

TEST(AxisScale, StandsWithoutValuesAndWithOne) {
  EXPECT_FALSE(AxisScale({}, {}).ticks().empty());
  EXPECT_GT(AxisScale({}, {3}).place(3), 0);
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
  const std::string text = svg({"title", {}, {}, {a, b, b}});
  EXPECT_EQ(occurrences(text, "<circle"), 4U);  // three points and the legend
  EXPECT_EQ(occurrences(text, ">first<"), 1U);
  EXPECT_EQ(occurrences(text, ">second<"), 1U);
}

TEST(Plot, LeavesOutASeriesWithoutPoints) {
  const std::string text = svg({"title", {}, {}, {{"full", Join::none, {{1, 1}}}, {"empty", Join::none, {}}}});
  EXPECT_EQ(occurrences(text, ">full<"), 1U);
  EXPECT_EQ(occurrences(text, ">empty<"), 0U);
}

TEST(Plot, EscapesNamesAndSaysWhereThereIsNothing) {
  const std::string text = svg({"a < b & \"c\"", {}, {}, {}});
  EXPECT_EQ(svg({"t", {}, {}, {{"<s>", Join::none, {{1, 1}}}}}).find("<s>"), std::string::npos);
  EXPECT_NE(text.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(text.find("nothing to show"), std::string::npos);
}

}  // namespace
}  // namespace remora::report
