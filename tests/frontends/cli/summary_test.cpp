// SPDX-License-Identifier: Apache-2.0
//
// What a finished solve says of itself.
#include "frontends/cli/showing/summary.hpp"

#include <sstream>

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

TEST(Summary, HasNoLineForStatisticsThatAreNotThere) {
  EXPECT_EQ(summary_of({}).find("figures"), std::string::npos);
}

}  // namespace
}  // namespace remora::cli
