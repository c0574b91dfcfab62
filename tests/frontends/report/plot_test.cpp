// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/report/page.hpp"

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
  const Series a{"first", Look::known, Join::none, {{1, 1}, {2, 2}, {3, 1}}};
  const Series b{"second", Look::bound, Join::line, {{1, 2}, {2, 3}}};
  const std::string text = svg({"title", {}, {}, {a, b, b}, {}, {}});
  EXPECT_EQ(occurrences(text, "<circle"), 4U);  // three points and the legend
  EXPECT_EQ(occurrences(text, ">first<"), 1U);
  EXPECT_EQ(occurrences(text, ">second<"), 1U);
}

TEST(Plot, LeavesOutASeriesWithoutPoints) {
  const Series full{"full", Look::known, Join::none, {{1, 1}}};
  const std::string text = svg({"title", {}, {}, {full, {"empty", Look::known, Join::none, {}}}, {}, {}});
  EXPECT_EQ(occurrences(text, ">full<"), 1U);
  EXPECT_EQ(occurrences(text, ">empty<"), 0U);
}

/// What the page's style sheet says of a variable, in the light scheme or in the dark one.
std::string colour_of(const std::string& name, bool dark) {
  const std::string style(kPageStyle);
  std::size_t at = style.find("--" + name + ": ");
  if (dark) at = style.find("--" + name + ": ", at + 1);
  const std::size_t begin = at + name.size() + 4;
  return style.substr(begin, 7);
}

TEST(Plot, HasThePagesColoursInBothSchemes) {
  const std::string text = svg({"title", {}, {}, {{"s", Look::known, Join::none, {{1, 1}}}}, {}, {}});
  const std::size_t dark = text.find("prefers-color-scheme:dark");
  ASSERT_NE(dark, std::string::npos);
  for (const char* name : {"ink", "muted", "line", "back", "after", "before", "budget"}) {
    EXPECT_LT(text.find(colour_of(name, false)), dark) << name << " " << colour_of(name, false);
    EXPECT_NE(text.find(colour_of(name, true), dark), std::string::npos) << name;
  }
}

TEST(Plot, HatchesWhatIsAboveTheLimitAndFillsTheSchedule) {
  const Series before{"before", Look::input_order, Join::steps, {{0, 1}, {1, 5}, {2, 1}, {3, 1}}};
  const Series after{"after", Look::schedule, Join::steps, {{0, 1}, {3, 1}}};
  const std::string text = svg({"title", {}, {}, {after, before}, {}, 3.0});
  EXPECT_EQ(occurrences(text, "class=\"fill\""), 1U);
  const std::size_t over = text.find("class=\"over\"");
  ASSERT_NE(over, std::string::npos);
  EXPECT_EQ(occurrences(text.substr(over, text.find("/>", over) - over), "M"), 1U) << "one stretch of three";
}

TEST(Plot, WritesNothingBesideTheAxisOverAnother) {
  Axis across{.label = "step", .most = 100.0, .beside_label = "time"};
  for (int i = 0; i <= 100; ++i) across.beside.emplace_back(i, "time " + std::to_string(i));
  const std::string text = svg({"t", across, {}, {{"s", Look::schedule, Join::steps, {{0, 1}, {100, 1}}}}, {}, {}});
  EXPECT_EQ(occurrences(text, ">time 0<"), 1U);
  EXPECT_EQ(occurrences(text, ">time 1<"), 0U);
  EXPECT_GT(occurrences(text, ">time "), 5U);
  EXPECT_LT(occurrences(text, ">time "), 15U);
}

TEST(Labels, StandAsideOfMarksAndOfEachOther) {
  Labels labels({0, 0, 700, 300});
  std::vector<Box> taken;
  const auto place = [&](const std::string& words, double x, double y) {
    const Box box = labels.place(words, x, y);
    for (const Box& other : taken) EXPECT_FALSE(box.meets(other)) << words;
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.right, 700);
    taken.push_back(box);
  };
  for (const double x : {100.0, 112.0, 130.0}) {
    taken.push_back({x - 6, 94, x + 6, 106});
    labels.avoid(taken.back());
  }
  place("none below (proved)", 100, 100);
  place("smallest feasible", 100, 100);
  place("knee", 112, 100);
  place("none below (proved)", 690, 290);
}

TEST(Plot, EscapesNamesAndSaysWhereThereIsNothing) {
  const std::string text = svg({"a < b & \"c\"", {}, {}, {}, {}, {}});
  EXPECT_EQ(svg({"t", {}, {}, {{"<s>", Look::known, Join::none, {{1, 1}}}}, {}, {}}).find("<s>"), std::string::npos);
  EXPECT_NE(text.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(text.find("nothing to show"), std::string::npos);
}

}  // namespace
}  // namespace remora::report
