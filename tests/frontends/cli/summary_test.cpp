// SPDX-License-Identifier: Apache-2.0
//
// What a finished solve says of itself.
#include "frontends/cli/showing/summary.hpp"

#include <sstream>

#include <gtest/gtest.h>

#include "frontends/cli/showing/sweep_table.hpp"

namespace remora::cli {
namespace {

std::string summary_of(const SolverReport& report) {
  const Schedule schedule{.graph = "empty", .solver = report};
  std::ostringstream out;
  print_summary(out, Graph{.name = "empty"}, schedule);
  return out.str();
}

TEST(Summary, TellsStatisticsInOneLine) {
  const std::string text = summary_of(
      {.statistics = {
           {"levels", 3}, {"distinct_groups", 1028}, {"share", 0.25}, {"compose", 1.25, Statistic::Unit::seconds}}});
  EXPECT_NE(text.find("\nfigures     levels 3, distinct groups 1,028, share 0.25, compose 1.250 s\n"),
            std::string::npos)
      << text;
}

TEST(Summary, FitsTheTerminal) {
  Graph graph{.name = "wide"};
  const TensorId a = graph.add_tensor(std::string(200, 'a'), Bytes(1 << 20));
  graph.add_op({.name = std::string(100, 'x'), .type = "Convolution", .duration = Duration(5), .outputs = {a}});
  Schedule schedule{.status = Status::feasible, .baseline_duration = Duration(5)};
  schedule.steps = {{OpId(0)}, {OpId(0)}};
  for (const int width : {60, 100, 180}) {
    std::ostringstream out;
    print_summary(out, graph, schedule, width);
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    EXPECT_EQ(out.str().find("Convolution") == std::string::npos, width == 60);
  }
}

TEST(CurveTable, SaysTheLeastBudgetInOneRow) {
  Curve curve{.graph = "g", .baseline_duration = Duration(100), .baseline_peak_memory = Bytes(2 << 20)};
  curve.least_budget = Bytes(1 << 20);
  curve.points = {{.budget = Bytes((1 << 20) - 1), .status = Status::infeasible},
                  {.budget = Bytes(1 << 20), .status = Status::optimal, .duration = Duration(120)},
                  {.budget = Bytes(2 << 20), .status = Status::optimal, .duration = Duration(100)}};
  std::ostringstream out;
  print_curve(out, Graph{.name = "g"}, curve);
  EXPECT_EQ(out.str().find("infeasible"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("optimal, the least budget\n"), std::string::npos) << out.str();
}

TEST(Summary, HasNoLineForStatisticsThatAreNotThere) {
  EXPECT_EQ(summary_of({}).find("figures"), std::string::npos);
}

}  // namespace
}  // namespace remora::cli
