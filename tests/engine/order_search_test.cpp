// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "engine/order/minimise_peak.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/verify.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

OrderResult search(const OrderProblem& problem, std::int64_t work_limit, int threads = 1, std::uint64_t seed = 1) {
  OrderSettings settings;
  settings.work_limit = work_limit;
  settings.threads = threads;
  settings.seed = seed;
  return minimise_peak(problem, settings, [] { return false; });
}

/// The order's peak is what a schedule in that order takes, which is valid, `after`, workspace and keep included.
void expect_sound(const Instance& instance, const OrderProblem& problem, const OrderResult& result) {
  ASSERT_TRUE(is_valid(problem, result.order));
  EXPECT_EQ(result.peak, peak_of(problem, result.order));
  EXPECT_LE(result.lower_bound, result.peak);
  const auto graph =
      std::make_shared<const Graph>(reordered(instance.graph(), Order(problem.sequence_of(result.order))));
  const Instance other(graph, {});
  const Schedule schedule = schedule_of(other, input_order(other));
  const Verdict verdict = verify(*graph, schedule);
  ASSERT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_EQ(baseline_peak(other), result.peak);
}

/// Of all orders, for a few nodes.
Bytes least_peak(const OrderProblem& problem) {
  std::vector<NodeId> order = given_order(problem);
  Bytes least = peak_of(problem, order);
  while (std::next_permutation(order.begin(), order.end())) {
    if (is_valid(problem, order)) least = std::min(least, peak_of(problem, order));
  }
  return least;
}

Instance layered(std::int64_t ops, std::int64_t seed = 1) {
  generate::LayeredOptions options;
  options.ops = ops;
  options.seed = seed;
  return {std::make_shared<const Graph>(generate::generate_layered(options)), {}};
}

TEST(OrderSearch, FindsTheLeastPeakOfTinyGraphs) {
  std::mt19937 random(5);
  const int rounds = 150;
  int optimal = 0;
  for (int round = 0; round < rounds; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 1, .most_ops = 7, .largest_size = 20}), {});
    const OrderProblem problem(instance);
    const OrderResult result = search(problem, 300);
    expect_sound(instance, problem, result);
    const Bytes least = least_peak(problem);
    EXPECT_GE(result.peak, least);
    EXPECT_LE(result.lower_bound, least);
    if (result.peak == least) ++optimal;
  }
  EXPECT_GE(optimal, rounds * 95 / 100);
}

TEST(OrderSearch, IsSoundOnGraphsThatUseEverything) {
  std::mt19937 random(6);
  for (int round = 0; round < 20; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 10, .most_ops = 60}), {});
    const OrderProblem problem(instance);
    expect_sound(instance, problem, search(problem, 500));
  }
}

TEST(OrderSearch, SequencesWithRecomputesGetNoWorse) {
  std::mt19937 random(9);
  const Instance instance(test::training_chain(8), {});
  for (int round = 0; round < 10; ++round) {
    Sequence sequence = input_order(instance);
    for (int i = 0; i < 6; ++i) {
      const auto place = static_cast<std::ptrdiff_t>(1 + random() % (sequence.size() - 1));
      sequence.insert(sequence.begin() + place, sequence[random() % static_cast<std::size_t>(place)]);
    }
    const OrderProblem problem(instance, sequence);
    const OrderResult result = search(problem, 300);
    ASSERT_TRUE(is_valid(problem, result.order));
    EXPECT_EQ(result.peak, peak_of(problem, result.order));
    EXPECT_LE(result.peak, peak_of(problem, given_order(problem)));
    EXPECT_LE(evaluate(instance, problem.sequence_of(result.order)).peak, result.peak);
  }
}

TEST(OrderSearch, UnderAWorkLimitThreadsDoNotMatter) {
  for (const std::int64_t seed : {1, 2, 3}) {
    const Instance instance = layered(80, seed);
    const OrderProblem problem(instance);
    const auto number = static_cast<std::uint64_t>(seed);
    const OrderResult one = search(problem, 3000, 1, number);
    const OrderResult two = search(problem, 3000, 2, number);
    const OrderResult many = search(problem, 3000, 9, number);
    EXPECT_EQ(one.order, two.order);
    EXPECT_EQ(one.order, many.order);
    EXPECT_EQ(one.work, two.work);
    EXPECT_LT(one.peak, peak_of(problem, given_order(problem)));
  }
}

TEST(OrderSearch, TellsOfEveryBetterOrder) {
  const Instance instance = layered(80);
  const OrderProblem problem(instance);
  OrderSettings settings;
  settings.work_limit = 2000;
  Bytes last = peak_of(problem, given_order(problem));
  int told = 0;
  settings.improved = [&](const std::vector<NodeId>& order, Bytes peak) {
    EXPECT_LT(peak, last);
    EXPECT_EQ(peak, peak_of(problem, order));
    last = peak;
    ++told;
  };
  const OrderResult result = minimise_peak(problem, settings, [] { return false; });
  EXPECT_GT(told, 0);
  EXPECT_EQ(result.peak, last);
}

TEST(OrderSearch, StopsAtTheTarget) {
  const Instance instance = layered(80);
  const OrderProblem problem(instance);
  const Bytes best = search(problem, 2000).peak;
  OrderSettings settings;
  settings.target = best + Bytes((peak_of(problem, given_order(problem)) - best).count() / 2);
  // Without a limit: it ends because the target is reached.
  const OrderResult result = minimise_peak(problem, settings, [] { return false; });
  EXPECT_LE(result.peak, settings.target);
  settings.target = peak_of(problem, given_order(problem));
  const OrderResult given = minimise_peak(problem, settings, [] { return false; });
  EXPECT_EQ(given.order, given_order(problem));
  EXPECT_EQ(given.work, 0);
}

TEST(OrderSearch, CancelledGivesTheOrderItHas) {
  const Instance instance = layered(300);
  const OrderProblem problem(instance);
  std::atomic<bool> cancel{true};
  const OrderResult none = minimise_peak(problem, {}, [&cancel] { return cancel.load(); });
  EXPECT_EQ(none.order, given_order(problem));
  cancel = false;
  OrderSettings settings;
  settings.improved = [&cancel](const std::vector<NodeId>&, Bytes) { cancel = true; };
  const OrderResult first = minimise_peak(problem, settings, [&cancel] { return cancel.load(); });
  EXPECT_LT(first.peak, none.peak);
  expect_sound(instance, problem, first);
}

TEST(OrderSearch, NoOpAndOneOp) {
  Graph graph;
  graph.fixed_memory = Bytes(2);
  const Instance empty(std::make_shared<const Graph>(graph), {});
  const OrderResult nothing = search(OrderProblem(empty), 0);
  EXPECT_TRUE(nothing.order.empty());
  EXPECT_EQ(nothing.peak, Bytes(2));
  EXPECT_EQ(nothing.lower_bound, Bytes(2));
  Op op;
  op.name = "only";
  op.outputs.push_back(graph.add_tensor("t", Bytes(5)));
  graph.add_op(std::move(op));
  const Instance one(std::make_shared<const Graph>(graph), {});
  const OrderResult single = search(OrderProblem(one), 0);
  EXPECT_EQ(single.order.size(), 1U);
  EXPECT_EQ(single.peak, Bytes(7));
}

TEST(OrderStarts, AreValidWithNoiseAndWithout) {
  std::mt19937 random(4);
  Random numbers(1);
  for (int round = 0; round < 30; ++round) {
    const Instance instance(test::random_graph(random, {.least_ops = 1, .most_ops = 50}), {});
    const OrderProblem problem(instance);
    for (const double noise : {0.0, 1.0}) {
      EXPECT_TRUE(is_valid(problem, list_order(problem, noise, numbers)));
      EXPECT_TRUE(is_valid(problem, depth_first_order(problem, noise, numbers)));
    }
  }
}

/// A complete binary tree towards its root: level by level all leaves' outputs stay, depth first one a level.
TEST(OrderStarts, DepthFirstIsBestForATree) {
  const int levels = 5;
  Graph graph;
  std::vector<TensorId> row;
  for (int level = levels; level >= 0; --level) {
    std::vector<TensorId> next;
    for (int i = 0; i < 1 << level; ++i) {
      Op op;
      op.name = std::to_string(level) + "." + std::to_string(i);
      if (!row.empty()) op.inputs = {row[static_cast<std::size_t>(2 * i)], row[static_cast<std::size_t>(2 * i + 1)]};
      next.push_back(graph.add_tensor("t" + op.name, Bytes(1)));
      op.outputs.push_back(next.back());
      graph.add_op(std::move(op));
    }
    row = next;
  }
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  const OrderProblem problem(instance);
  Random random(1);
  EXPECT_EQ(peak_of(problem, given_order(problem)), Bytes((1 << levels) + 1));
  EXPECT_EQ(peak_of(problem, depth_first_order(problem, 0, random)), Bytes(levels + 2));
}

struct OrderFigure {
  const char* graph;
  /// Of the input order's peak, in tenths of a per cent.
  int least;
};

class PublishedOrder : public testing::TestWithParam<OrderFigure> {};

TEST_P(PublishedOrder, ReachesItsFigure) {
  const auto [name, least] = GetParam();
  const std::string path = std::string(REMORA_SHARED_DIR) + "/instances/" + name + ".json";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there: the shared instances are not part of the tree";
  const Instance instance(std::make_shared<const Graph>(json::read_graph(json::Text(json::read_file(path)))), {});
  const OrderProblem problem(instance);
  const OrderResult result = search(problem, 100'000, 2);
  expect_sound(instance, problem, result);
  EXPECT_LE(1000 * result.peak.count(), least * baseline_peak(instance).count());
}

INSTANTIATE_TEST_SUITE_P(OrderSearch, PublishedOrder,
                         testing::Values(OrderFigure{"rl100", 795}, OrderFigure{"rl500", 872}),
                         [](const auto& each) { return std::string(each.param.graph); });

}  // namespace
}  // namespace remora
