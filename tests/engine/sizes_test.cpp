// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/sizes.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

/// A chain of layers, forward and backward, each of which reads what its layer made: sizes grow with `size`, and one
/// workspace with its square.
std::shared_ptr<const Graph> chain(int layers, std::int64_t size) {
  auto graph = std::make_shared<Graph>();
  graph->name = "chain";
  std::vector<TensorId> made;
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i);
    Op op{.name = "f" + name, .type = "f", .duration = Duration(size * (3 + i % 3))};
    if (i > 0) op.inputs = {made.back()};
    made.push_back(graph->add_tensor("x" + name, Bytes(size * (10 + i % 2))));
    op.outputs = {made.back()};
    if (i == layers / 2) op.workspace = Bytes(size * size / 4);
    graph->add_op(std::move(op));
  }
  TensorId gradient = graph->add_tensor("g", Bytes(size * 10));
  graph->add_op(
      {.name = "loss", .type = "loss", .duration = Duration(1), .inputs = {made.back()}, .outputs = {gradient}});
  for (int i = layers - 1; i >= 0; --i) {
    const TensorId next = graph->add_tensor("g" + std::to_string(i), Bytes(size * 10), i == 0);
    graph->add_op({.name = "b" + std::to_string(i),
                   .type = "b",
                   .duration = Duration(size * 6),
                   .inputs = {gradient, made[static_cast<std::size_t>(i)]},
                   .outputs = {next}});
    gradient = next;
  }
  return graph;
}

SizesRequest asked_of(const std::vector<std::int64_t>& sizes, int most, const std::string& budget) {
  SizesRequest asked{.most = most};
  for (const std::int64_t size : sizes) asked.graphs.push_back(chain(12, size));
  asked.request.options.work_limit = 2000;
  asked.request.options.threads = 1;
  asked.request.graph = asked.graphs.back();
  asked.request.budget = budget_of(budget, asked.request);
  return asked;
}

TEST(Sizes, RangesHoldTheBudgetAtEverySize) {
  const std::vector<std::int64_t> sizes{4, 10, 16, 22, 28, 34, 40};
  for (int most = 1; most <= 4; ++most) {
    const SizesRequest asked = asked_of(sizes, most, "60%");
    const SizesAnswer answer = solve_sizes(asked);
    ASSERT_FALSE(answer.ranges.empty());
    EXPECT_LE(answer.ranges.size(), static_cast<std::size_t>(most));
    EXPECT_EQ(answer.ranges.back().last, sizes.size() - 1);
    EXPECT_LE(answer.baseline_duration, answer.lower_bound);
    EXPECT_LE(answer.lower_bound, answer.duration);
    std::size_t first = 0;
    double sum = 0;
    for (const SizeRange& range : answer.ranges) {
      EXPECT_TRUE(verify(*asked.graphs[range.last], range.schedule).valid());
      for (std::size_t i = first; i <= range.last; ++i) {
        const Instance instance(asked.graphs[i], {.budget = asked.request.budget});
        const Evaluation found = evaluate(instance, computes_of(range.schedule));
        EXPECT_LE(found.peak, asked.request.budget);
        sum += static_cast<double>(found.duration.count());
      }
      first = range.last + 1;
    }
    EXPECT_EQ(sum, answer.duration);
    if (most == 1) {
      EXPECT_GT(answer.duration, answer.baseline_duration);
    }
    if (most == 4) {
      EXPECT_EQ(answer.ranges.front().schedule.overhead(), 0) << "the smallest need no recompute";
    }
  }
}

TEST(Sizes, MoreSchedulesAreNotSlower) {
  const std::vector<std::int64_t> sizes{4, 10, 16, 22, 28, 34, 40};
  double last = std::numeric_limits<double>::infinity();
  for (int most = 1; most <= 5; ++most) {
    const double now = solve_sizes(asked_of(sizes, most, "55%")).duration;
    EXPECT_LE(now, last);
    last = now;
  }
}

TEST(Sizes, WhatDoesNotFitAtTheLargestHasNoRanges) {
  const SizesAnswer answer = solve_sizes(asked_of({4, 40}, 4, "5%"));
  EXPECT_TRUE(answer.ranges.empty());
  EXPECT_EQ(answer.largest.schedule.status, Status::infeasible);
}

TEST(Sizes, OtherOpsAreRefused) {
  SizesRequest asked = asked_of({4, 40}, 4, "60%");
  asked.graphs.front() = chain(11, 4);
  EXPECT_THROW(solve_sizes(asked), InputError);
  EXPECT_FALSE(are_alike(*chain(11, 4), *chain(12, 4)));
  EXPECT_TRUE(are_alike(*chain(12, 4), *chain(12, 40)));
}

TEST(Sizes, MemoryThatGrowsAsSizesShrinkIsRefused) {
  SizesRequest asked = asked_of({4, 40}, 1, "60%");
  auto larger = std::make_shared<Graph>(*asked.graphs.front());
  larger->ops[3].workspace = asked.request.budget + Bytes(1);
  asked.graphs.front() = larger;
  EXPECT_THROW(solve_sizes(asked), InputError);
}

/// The same by trying all subsets.
double least_sum(const std::vector<std::vector<double>>& durations, const std::vector<std::size_t>& reach, int most) {
  const std::size_t sizes = *std::ranges::max_element(reach);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << reach.size(); ++chosen) {
    if (std::popcount(chosen) > most) continue;
    double sum = 0;
    for (std::size_t i = 0; i < sizes; ++i) {
      // By the schedule of the smallest reach that serves it.
      std::size_t nearest = sizes + 1;
      double time = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < reach.size(); ++k) {
        if ((chosen >> k & 1U) == 0 || reach[k] <= i || reach[k] > nearest) continue;
        if (reach[k] == nearest)
          time = std::numeric_limits<double>::infinity();  // of two alike one is enough
        else
          time = durations[k][i];
        nearest = reach[k];
      }
      sum += time;
    }
    least = std::min(least, sum);
  }
  return least;
}

TEST(Sizes, ChosenSchedulesHaveTheSmallestSum) {
  std::mt19937 draw(3);
  const auto below = [&](unsigned n) { return static_cast<std::size_t>(draw() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t sizes = 1 + below(6);
    std::vector<std::size_t> reach(below(5), 0);
    for (std::size_t& reached : reach) reached = 1 + below(static_cast<unsigned>(sizes));
    reach.push_back(sizes);
    std::vector<std::vector<double>> durations(reach.size(), std::vector<double>(sizes));
    for (auto& row : durations) {
      for (double& time : row) time = 1 + static_cast<double>(below(9));
    }
    const int most = 1 + static_cast<int>(below(4));
    const std::vector<std::size_t> mine = fewest_schedules(durations, reach, most);
    ASSERT_LE(mine.size(), static_cast<std::size_t>(most));
    ASSERT_EQ(reach[mine.back()], sizes);
    double sum = 0;
    std::size_t first = 0;
    for (const std::size_t k : mine) {
      for (std::size_t i = first; i < reach[k]; ++i) sum += durations[k][i];
      first = reach[k];
    }
    ASSERT_EQ(sum, least_sum(durations, reach, most));
  }
}

}  // namespace
}  // namespace remora
