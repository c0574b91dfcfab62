// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/cli/showing/progress.hpp"
#include "tests/support/random_graph.hpp"

namespace remora::cli {
namespace {

TEST(ProgressBar, ShowsThePartOfTheLimitThatIsUsedAndWipesItself) {
  const Instance instance(remora::test::figure_1(), {.budget = Bytes(3)});
  SolveOptions options;
  options.time_limit = 10;
  std::ostringstream out;
  {
    ProgressBar bar(instance, options, out);
    bar.show({.seconds = 2.5, .phase = 1, .duration = Duration(5), .peak = Bytes(6), .lower_bound = Duration(5)});
    EXPECT_EQ(out.str(), "\r\033[K[=====>              ]  25 %      2.5 s  phase 1  peak 200.0 % of the budget");
    // Too soon to be seen.
    bar.show({.seconds = 2.6, .phase = 2});
    EXPECT_EQ(out.str().find("phase 2"), std::string::npos);
    out.str("");
    bar.show({.seconds = 20, .phase = 2, .duration = Duration(6), .peak = Bytes(3), .lower_bound = Duration(6)});
    EXPECT_EQ(out.str(), "\r\033[K[====================] 100 %     20.0 s  phase 2  overhead 20.000 %  gap 0.000 %");
    out.str("");
  }
  EXPECT_EQ(out.str(), "\r\033[K");
}

TEST(ProgressBar, GivesWayToALineOfTheTableAndKeepsToTheTerminalsWidth) {
  const Instance instance(remora::test::figure_1(), {.budget = Bytes(3)});
  std::ostringstream out;
  ProgressBar bar(instance, {}, out, 40);
  bar.wipe();
  EXPECT_EQ(out.str(), "");
  const Progress progress{
      .seconds = 2.5, .phase = 2, .duration = Duration(6), .peak = Bytes(3), .lower_bound = Duration(6)};
  bar.show(progress);
  EXPECT_EQ(out.str().size(), std::string("\r\033[K").size() + 39);
  out.str("");
  bar.wipe();
  EXPECT_EQ(out.str(), "\r\033[K");
  out.str("");
  // At once, though hardly any time has passed.
  bar.show(progress);
  EXPECT_NE(out.str(), "");
}

TEST(ProgressBar, UsesTheWorkLimitWhereTimeHasNone) {
  const Instance instance(remora::test::figure_1(), {.budget = Bytes(3)});
  SolveOptions options;
  options.time_limit = kNoTimeLimit;
  options.work_limit = 1000;
  std::ostringstream out;
  ProgressBar bar(instance, options, out);
  bar.show(
      {.seconds = 1, .phase = 2, .duration = Duration(6), .peak = Bytes(3), .lower_bound = Duration(6), .work = 500});
  EXPECT_NE(out.str().find(" 50 %"), std::string::npos);
}

}  // namespace
}  // namespace remora::cli
