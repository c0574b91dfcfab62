// SPDX-License-Identifier: Apache-2.0
//
// Which plots there are, and what is in them.
#include "frontends/bench/figures.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace remora::bench {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// One contender that says nothing of its phases, and one that does.
Row row_of(std::int64_t ops, double compose) {
  Row row{.instance = "graph-" + std::to_string(ops), .ops = ops, .budget = "50%", .cells = {Cell(), Cell()}};
  row.cells[1].statistics = {{"levels", 3}, {"partition_seconds", 0.5}, {"compose_seconds", compose}};
  return row;
}

const report::Figure* find(const std::vector<NamedFigure>& figures, const std::string& name) {
  const auto at = std::find_if(figures.begin(), figures.end(), [&](const NamedFigure& f) { return f.name == name; });
  return at == figures.end() ? nullptr : &at->figure;
}

TEST(Figures, ShowTheTimeOfEachPhaseAgainstSizeWhereItIsTold) {
  const Comparison comparison{.contenders = {"auto", "hierarchical"}, .rows = {row_of(2000, 8), row_of(1000, 2)}};
  const auto list = figures(comparison);
  const report::Figure* figure = find(list, "phases-size");
  ASSERT_NE(figure, nullptr);
  ASSERT_EQ(figure->panels.size(), 1U);
  const auto& panel = figure->panels[0];
  EXPECT_EQ(panel.title, "hierarchical, budget 50%");
  ASSERT_EQ(panel.series.size(), 2U);
  EXPECT_EQ(panel.series[0].name, "partition");
  EXPECT_EQ(panel.series[0].points, (Points{{1000, 0.5}, {2000, 0.5}}));
  EXPECT_EQ(panel.series[1].name, "compose");
  EXPECT_EQ(panel.series[1].points, (Points{{1000, 2}, {2000, 8}}));
}

TEST(Figures, HaveNoPhasesOfOneSizeOrOfNobody) {
  const Comparison one_size{.contenders = {"auto", "hierarchical"}, .rows = {row_of(1000, 2)}};
  EXPECT_EQ(find(figures(one_size), "phases-size"), nullptr);
  Comparison silent{.contenders = {"auto", "hierarchical"}, .rows = {row_of(1000, 2), row_of(2000, 2)}};
  for (Row& row : silent.rows) row.cells[1].statistics = {{"levels", 3}};
  EXPECT_EQ(find(figures(silent), "phases-size"), nullptr);
  EXPECT_NE(find(figures(silent), "time-size"), nullptr);
}

}  // namespace
}  // namespace remora::bench
