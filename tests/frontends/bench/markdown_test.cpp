// SPDX-License-Identifier: Apache-2.0
//
// The page of a suite: what its tables say of limits and of others' results.
#include "frontends/bench/markdown.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

namespace remora::bench {
namespace {

Suite two_instances() {
  Suite suite;
  suite.name = "s";
  suite.instances = {{.name = "near", .file = "near.json"}, {.name = "far", .file = "far.json"}};
  suite.contenders = {{.name = "auto"}};
  return suite;
}

std::string page_of(const Suite& suite) {
  std::vector<Result> results;
  for (const SuiteInstance& instance : suite.instances) {
    Result result;
    result.key = {instance.name, "80%", "auto", 1, instance.time_limit.value_or(suite.time_limit), suite.threads};
    result.ops = 10;
    result.edges = 12;
    result.status = "feasible";
    result.baseline_duration = 1000;
    result.duration = 1100;
    result.lower_bound = 1000;
    result.reached = 1.5;
    results.push_back(result);
  }
  const Comparison comparison = compare(suite, results);
  return markdown_page({suite, comparison, results, {}, {}, "remora bench s", results.size(), {}});
}

/// Every line of the first table has as many cells.
void expect_whole_table(const std::string& page) {
  std::istringstream lines(page);
  std::ptrdiff_t cells = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() && cells > 0) break;
    if (!line.starts_with("|")) continue;
    const auto count = std::count(line.begin(), line.end(), '|');
    if (cells == 0) cells = count;
    EXPECT_EQ(count, cells) << line;
  }
  EXPECT_GT(cells, 0);
}

TEST(Page, SaysOneLimitOnceAndHasNoColumnForWhatIsNotThere) {
  const std::string page = page_of(two_instances());
  expect_whole_table(page);
  EXPECT_NE(page.find("\n60 s and 2 threads a run"), std::string::npos) << page;
  EXPECT_NE(page.find("| instance | ops | edges | budget | auto | bound | best known |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| near | 10 | 12 | 80% | **10.0000** in 1.50 s | 0.0000 |  |\n"), std::string::npos) << page;
  EXPECT_EQ(page.find("orientation"), std::string::npos);
}

TEST(Page, TellsTheLimitOfEveryRowWhereTheyDiffer) {
  Suite suite = two_instances();
  suite.instances[1].time_limit = 300;
  const std::string page = page_of(suite);
  expect_whole_table(page);
  EXPECT_NE(page.find("\n60 to 300 s and 2 threads a run"), std::string::npos) << page;
  EXPECT_NE(page.find("| near | 10 | 12 | 80% | 60 s |"), std::string::npos) << page;
  EXPECT_NE(page.find("| far | 10 | 12 | 80% | 300 s |"), std::string::npos) << page;
}

TEST(Page, PutsWhatOthersPublishedBesideOurs) {
  Suite suite = two_instances();
  suite.instances[1].reference = Reference{.name = "HiRemate", .overhead = 22.3, .relative_peak = 36.6, .minutes = 147};
  const std::string page = page_of(suite);
  expect_whole_table(page);
  EXPECT_NE(page.find("best known | reference |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| 0.0000 |  | 22.3 at 36.6 % in 147 min (HiRemate) |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| 0.0000 |  |  |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("other graphs' granularity, GPU, PyTorch's peak"), std::string::npos) << page;
}

}  // namespace
}  // namespace remora::bench
