// SPDX-License-Identifier: Apache-2.0
//
// What a finished solve says of itself.
#include "frontends/cli/showing/summary.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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

TEST(Summary, SaysWhatIsNotCounted) {
  Graph graph{.name = "parts"};
  graph.add_op({.name = "A", .outputs = {graph.add_tensor("a", Bytes(8))}});
  const auto told = [&](const char* meta) {
    graph.meta = meta;
    std::ostringstream out;
    print_headline(out, graph, {.status = Status::feasible, .steps = {{OpId(0)}}});
    const std::string text = out.str();
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(told(""), "graph       parts: 1 ops, 1 tensors");
  EXPECT_EQ(told(R"({"unknown_tensors": 1})"), told("") + ", 1 tensor of unknown size not counted");
  EXPECT_EQ(told(R"({"unknown_tensors": 2048})"), told("") + ", 2,048 tensors of unknown size not counted");
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

TEST(Summary, FitsTheTerminalWithoutASchedule) {
  Graph graph{.name = "wide", .fixed_memory = Bytes(1 << 30)};
  const TensorId a = graph.add_tensor("a", Bytes(1 << 20));
  graph.add_op({.name = std::string(30, 'x'), .outputs = {a}});
  Schedule schedule{.status = Status::infeasible, .budget = Bytes(1 << 10)};
  schedule.certificate = Certificate{.op = OpId(0), .required = Bytes(1 << 20)};
  for (const int width : {60, 100}) {
    std::ostringstream out;
    print_summary(out, graph, schedule, width);
    EXPECT_NE(out.str().find("infeasible  proved: no schedule stays within the budget"), std::string::npos)
        << out.str();
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  }
}

/// Columns of a line: bytes that begin a letter.
std::size_t columns_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

TEST(Summary, SaysForWhichNumberOfComputesAScheduleIsProved) {
  Graph graph{.name = "one"};
  graph.add_op({.name = "only", .duration = Duration(4), .outputs = {graph.add_tensor("end", Bytes(1))}});
  Schedule schedule{
      .status = Status::feasible, .budget = Bytes(2), .duration = Duration(4), .baseline_duration = Duration(4)};
  schedule.steps = {{.op = OpId(0)}};
  schedule.solver.max_computes = 2;
  schedule.solver.seconds = 3.1;
  const auto says = [&](const char* words) {
    std::ostringstream out;
    print_summary(out, graph, schedule, 100, {});
    return out.str().find(words) != std::string::npos;
  };
  EXPECT_TRUE(says("\n            with at most 2 runs per op\n"));
  schedule.solver.bound_for_any_number = true;
  EXPECT_TRUE(says("\n            with any number of runs per op\n"));
  EXPECT_FALSE(says("at most 2"));
  schedule.solver.bound_for_any_number = false;
  schedule.solver.optimal_for_max_computes = 2;
  EXPECT_TRUE(says("optimal with at most 2 runs per op; more were tried until 3.10 s"));
  schedule.status = Status::optimal;
  schedule.solver.optimal_for_max_computes = 0;
  EXPECT_TRUE(says("with at most 2 runs per op"));
  schedule.solver.optimal_for_max_computes = kAnyNumber;
  EXPECT_TRUE(says("with any number of runs per op"));
}

TEST(TextReport, FitsTheTerminalAndUsesIt) {
  Graph graph{.name = "wide", .fixed_memory = Bytes(1 << 10)};
  std::vector<TensorId> tensors;
  for (int i = 0; i < 3; ++i)
    tensors.push_back(graph.add_tensor(std::string(80, 'a') + std::to_string(i), Bytes(1 << 20)));
  graph.add_op({.name = std::string(90, 'x'), .duration = Duration(5), .outputs = {tensors[0]}});
  graph.add_op({.name = "middle", .duration = Duration(5), .outputs = {tensors[1], tensors[2]}});
  graph.add_op({.name = "last",
                .duration = Duration(5),
                .inputs = {tensors[0]},
                .outputs = {graph.add_tensor("end", Bytes(1))}});
  Schedule schedule{
      .status = Status::optimal, .budget = Bytes((2 << 20) + (1 << 10)), .baseline_duration = Duration(15)};
  schedule.steps = {{.op = OpId(0), .free = {tensors[0]}},
                    {.op = OpId(1), .free = {tensors[1], tensors[2]}},
                    {.op = OpId(0)},
                    {.op = OpId(2)}};
  const auto profile = report::profile_of(std::make_shared<const Graph>(graph), schedule);
  for (const int width : {60, 80, 160}) {
    std::ostringstream out;
    print_report(out, graph, schedule, profile, width);
    EXPECT_NE(out.str().find("fixed       |"), std::string::npos) << "the band";
    EXPECT_NE(out.str().find("  sum "), std::string::npos);
    EXPECT_NE(out.str().find("relieves"), std::string::npos);
    std::istringstream lines(out.str());
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns_of(line), static_cast<std::size_t>(width)) << line;
      longest = std::max(longest, columns_of(line));
    }
    EXPECT_GE(longest, static_cast<std::size_t>(width) - 20);
  }
}

TEST(CurveTable, FitsSixtyColumns) {
  Curve curve{.graph = "g", .baseline_duration = Duration(100), .baseline_peak_memory = Bytes(2 << 20)};
  curve.least_budget = Bytes(1 << 20);
  curve.points = {{.budget = Bytes(1000), .status = Status::infeasible},
                  {.budget = Bytes(1 << 20), .status = Status::optimal, .duration = Duration(120)}};
  for (const int width : {60, 100}) {
    std::ostringstream out;
    print_curve(out, Graph{.name = "g"}, curve, width);
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    EXPECT_EQ(out.str().find("peak  status") == std::string::npos, width == 60);
    EXPECT_NE(out.str().find("proved      every schedule"), std::string::npos) << out.str();
  }
}

TEST(CurveTable, IsFollowedByTheCurve) {
  Curve curve{.graph = "g", .baseline_duration = Duration(100), .baseline_peak_memory = Bytes(4000)};
  curve.points = {{.budget = Bytes(1000), .status = Status::infeasible},
                  {.budget = Bytes(2000), .status = Status::optimal, .duration = Duration(140)},
                  {.budget = Bytes(3000), .status = Status::feasible, .duration = Duration(120)}};
  std::ostringstream of_two;
  print_curve_chart(of_two, curve, 53);
  EXPECT_EQ(of_two.str(), "");
  curve.points.push_back({.budget = Bytes(4000), .status = Status::optimal, .duration = Duration(100)});
  std::ostringstream out;
  print_curve_chart(out, curve, 53);
  const auto blocks = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "█";
    return text;
  };
  // 40 columns of 75 bytes; nothing is known below 2000 bytes.
  const std::string none(13, ' ');
  std::string expected = "40.000 %    |" + none + blocks(13) + std::string(14, ' ') + "\n";
  for (int i = 0; i < 3; ++i) expected += std::string(12, ' ') + "|" + none + blocks(13) + std::string(14, ' ') + "\n";
  for (int i = 0; i < 3; ++i) expected += std::string(12, ' ') + "|" + none + blocks(26) + " \n";
  expected += "overhead    |" + none + blocks(26) + "▁\n" + "budget       1000 B" + std::string(26, ' ') + "3.91 KiB\n";
  EXPECT_EQ(out.str(), expected);
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
  EXPECT_NE(out.str().find("optimal, the minimum budget\n"), std::string::npos) << out.str();
}

TEST(CurveTable, HasNoTwoRowsThatLookTheSame) {
  Curve curve{.graph = "g",
              .fixed_memory = Bytes(1 << 20),
              .baseline_duration = Duration(100),
              .baseline_peak_memory = Bytes(3 << 20)};
  curve.points = {{.budget = Bytes(1 << 10), .status = Status::infeasible},
                  {.budget = Bytes(2 << 20), .status = Status::unknown},
                  {.budget = Bytes((2 << 20) + 4), .status = Status::feasible, .duration = Duration(120)}};
  std::ostringstream out;
  print_curve(out, Graph{.name = "g"}, curve);
  EXPECT_EQ(out.str().find("unknown"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("-50"), std::string::npos) << "a budget below fixed memory is no part\n" << out.str();
}

TEST(Summary, HasNoLineForStatisticsThatAreNotThere) {
  EXPECT_EQ(summary_of({}).find("figures"), std::string::npos);
}

}  // namespace
}  // namespace remora::cli
