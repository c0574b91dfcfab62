// SPDX-License-Identifier: Apache-2.0
//
// Published graphs at published budgets: what the literature and the project's prototypes reached must be reached,
// under a work limit, so that the result does not depend on the machine.
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

struct Figure {
  const char* graph;
  int percent;
  /// In 1/10,000 of a per cent, rounded: the overhead to reach.
  int overhead;
};

class PublishedGraph : public testing::TestWithParam<Figure> {};

TEST_P(PublishedGraph, ReachesItsFigure) {
  const auto [name, percent, overhead] = GetParam();
  const std::string path = std::string(REMORA_SHARED_DIR) + "/instances/" + name + ".json";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there: the shared instances are not part of the tree";
  const auto graph = std::make_shared<const Graph>(json::read_graph(json::Text(json::read_file(path))));
  const Instance unlimited(graph, {});
  const Bytes span = baseline_peak(unlimited) - graph->fixed_memory;
  const Bytes budget = graph->fixed_memory + Bytes(span.count() / 100 * percent + span.count() % 100 * percent / 100);
  SolveOptions options;
  options.work_limit = 300000;
  options.time_limit = kNoTimeLimit;
  const Schedule schedule = solve(unlimited.with_budget(budget), options);
  ASSERT_TRUE(schedule.has_steps());
  const Verdict verdict = verify(*graph, schedule);
  ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_LE(schedule.overhead() * 1e6, overhead + 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedGraph,
                         testing::Values(Figure{"fcn_8_vgg-train", 90, 294}, Figure{"fcn_8_vgg-train", 80, 1361},
                                         Figure{"fcn_8_vgg-train", 70, 8915}, Figure{"vgg16-train", 90, 19677},
                                         Figure{"rl100", 90, 7892}, Figure{"rl100", 80, 22965}),
                         [](const auto& figure) {
                           std::string name = figure.param.graph;
                           std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
                           return name + "At" + std::to_string(figure.param.percent);
                         });

}  // namespace
}  // namespace remora
