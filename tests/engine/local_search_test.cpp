// SPDX-License-Identifier: Apache-2.0
//
// Moves that are taken back leave nothing behind, repairs hold the budget, and what the workers find is true.
#include "engine/search/local/local_search.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "engine/search/workers/cp_workers.hpp"
#include "engine/search/workers/local_workers.hpp"
#include "engine/search/workers/relaxation_workers.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

Instance layered_problem(int ops, int percent, int max_computes = 2) {
  const auto graph =
      std::make_shared<const Graph>(generate::generate_layered({.ops = ops, .edges = 3 * ops, .seed = 2}));
  const Instance unlimited(graph, {.max_computes = max_computes});
  return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * percent / 100));
}

Recompute random_recompute(const Instance& instance, Random& random) {
  const auto n = static_cast<std::size_t>(instance.op_count());
  const std::size_t op = random.below(n);
  return {Stage(op + 1 + random.below(n - op)), OpId(op)};
}

TEST(PlanMoves, ChangesAreTakenBackExactly) {
  const Instance instance = layered_problem(120, 80, 3);
  PlanMoves moves(instance);
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const RecomputePlan before = moves.state().plan();
    const Bytes overflow = moves.state().overflow();
    const std::size_t mark = moves.mark();
    for (int i = 0; i < 10; ++i) {
      const Recompute recompute = random_recompute(instance, random);
      if (moves.state().contains(recompute)) {
        moves.remove_chain(recompute);
      } else if (moves.state().can_add(recompute)) {
        moves.add_chain(recompute, {.most = 6, .recomputed = 0.8}, random);
      }
    }
    if (round % 3 == 0) {
      moves.keep();
      continue;
    }
    moves.undo_to(mark);
    ASSERT_EQ(moves.state().plan(), before);
    ASSERT_EQ(moves.state().overflow(), overflow);
  }
  ASSERT_FALSE(moves.state().plan().empty());
}

TEST(PlanMoves, CrossingTensorsAreThoseRetainedWithoutBeingUsed) {
  const Instance instance = layered_problem(60, 80, 3);
  PlanMoves moves(instance);
  Random random(5);
  for (int i = 0; i < 60; ++i) {
    const Recompute recompute = random_recompute(instance, random);
    if (moves.state().can_add(recompute)) moves.add(recompute);
  }
  std::vector<EventKey> events;
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) events.push_back(EventKey::first_compute(op));
  for (const Recompute& recompute : moves.state().plan()) events.emplace_back(recompute);
  for (const EventKey event : events) {
    std::vector<TensorId> found;
    moves.find_crossing(event, found);
    std::sort(found.begin(), found.end());
    // What `crosses` says is tested against `evaluate` elsewhere.
    std::vector<TensorId> truth;
    for (TensorId t{0}; t < instance.tensor_count(); t = TensorId(t + 1)) {
      if (instance.producer(t).valid() && moves.state().crosses(t, event)) truth.push_back(t);
    }
    EXPECT_EQ(found, truth);
  }
}

TEST(PlanMoves, AChainRecomputesWhatCouldOnlyBeRetainedAboveTheBudget) {
  // a -> b -> c ... and at the end a use of b: recomputing b needs a, which is long gone.
  Graph graph;
  std::vector<TensorId> t;
  for (int i = 0; i < 6; ++i) t.push_back(graph.add_tensor("t" + std::to_string(i), Bytes(2)));
  graph.add_op({.name = "A", .duration = Duration(1), .outputs = {t[0]}});
  graph.add_op({.name = "B", .duration = Duration(1), .inputs = {t[0]}, .outputs = {t[1]}});
  graph.add_op({.name = "C", .duration = Duration(1), .inputs = {t[1]}, .outputs = {t[2]}});
  graph.add_op({.name = "D", .duration = Duration(1), .inputs = {t[2]}, .outputs = {t[3]}});
  graph.add_op({.name = "E", .duration = Duration(1), .inputs = {t[3]}, .outputs = {t[4]}});
  graph.add_op({.name = "F", .duration = Duration(1), .inputs = {t[4], t[1]}, .outputs = {t[5]}});
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(4)});
  PlanMoves moves(instance);
  Random random(1);
  moves.add_chain({Stage(5), OpId(1)}, {}, random);
  EXPECT_EQ(moves.state().plan(), (RecomputePlan{{Stage(5), OpId(0)}, {Stage(5), OpId(1)}}));
  moves.remove_chain({Stage(5), OpId(1)});
  EXPECT_TRUE(moves.state().plan().empty());
}

TEST(Repair, APlanThatItCompletesHoldsTheBudgetAndNeedsItsRecomputes) {
  const Instance instance = layered_problem(150, 85);
  int held = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    PlanMoves moves(instance);
    Random random(seed);
    Repair repair(moves, random);
    const std::function<bool()> interrupted = [] { return false; };
    if (!repair.run({.interrupted = interrupted})) continue;
    ++held;
    repair.prune(interrupted);
    const RecomputePlan plan = moves.state().plan();
    EXPECT_LE(evaluate(instance, sequence_of(instance, plan)).peak, instance.budget());
    for (const Recompute& recompute : plan) EXPECT_TRUE(moves.state().needed(recompute));
  }
  EXPECT_GT(held, 5);
}

/// Runs a worker for a few rounds; what it reports must be true and better.
template <class WorkerType>
Solution improve(const Instance& instance, int rounds) {
  WorkerType worker(7);
  Solution incumbent = make_solution(instance, RecomputePlan{});
  const CoverFacts cover;
  const std::function<bool()> interrupted = [] { return false; };
  for (int round = 0; round < rounds; ++round) {
    const RoundInput input{instance, incumbent, Duration(0), cover, interrupted, kRoundEffort / 10};
    RoundResult result = worker.run(input);
    EXPECT_GT(result.work, Work(0));
    if (!result.solution) continue;
    const Solution again = make_solution(instance, result.solution->plan());
    EXPECT_EQ(again.peak, result.solution->peak);
    EXPECT_EQ(again.extra, result.solution->extra);
    if (better(instance, again, incumbent)) incumbent = again;
  }
  return incumbent;
}

TEST(LocalSearch, WorkersFindTheOptimumOfSmallGraphs) {
  std::mt19937 random(11);
  int feasible = 0;
  int ruin = 0;
  int annealing = 0;
  for (int round = 0; round < 60; ++round) {
    const auto graph = test::random_graph(random, {.least_ops = 5, .most_ops = 7});
    const Instance unlimited(graph, {});
    const Instance instance = unlimited.with_budget(std::max(Bytes(0), baseline_peak(unlimited) - Bytes(3)));
    const auto truth = test::optimum(instance);
    if (!truth) continue;
    ++feasible;
    const auto holds = [&](const Solution& solution) {
      if (solution.peak > instance.budget()) return false;
      EXPECT_GE(instance.baseline_duration() + solution.extra, *truth);
      return instance.baseline_duration() + solution.extra == *truth;
    };
    ruin += holds(improve<RuinWorker>(instance, 2)) ? 1 : 0;
    annealing += holds(improve<AnnealingWorker>(instance, 2)) ? 1 : 0;
  }
  // They prove nothing, but graphs of seven ops hide little from them.
  EXPECT_GT(feasible, 20);
  EXPECT_GE(ruin, feasible * 9 / 10);
  EXPECT_GE(annealing, feasible * 9 / 10);
}

TEST(LocalSearch, ARepairThatIsTooLongForOneRoundGoesOnInTheNext) {
  const Instance instance = layered_problem(600, 85);
  RoundingWorker worker(7);
  const CoverFacts cover;
  const std::function<bool()> interrupted = [] { return false; };
  Solution incumbent = make_solution(instance, RecomputePlan{});
  int rounds = 0;
  for (; incumbent.peak > instance.budget() && rounds < 1000; ++rounds) {
    const RoundInput input{instance, incumbent, Duration(0), cover, interrupted, Effort{1000}};
    ASSERT_TRUE(worker.ready(input));
    RoundResult result = worker.run(input);
    if (result.solution && better(instance, *result.solution, incumbent)) incumbent = *std::move(result.solution);
  }
  EXPECT_LE(incumbent.peak, instance.budget());
  EXPECT_GT(rounds, 10);
  // With a schedule it waits for the relaxation.
  EXPECT_FALSE(worker.ready({instance, incumbent, Duration(0), cover, interrupted}));
}

TEST(LocalSearch, ASearchTriesFewerNodesWhereTheyTakeLong) {
  const Instance instance = layered_problem(4000, 85);
  SolveOptions options;
  options.neighbourhood_nodes = 1'000'000;
  PeakWorker worker(options, 7);
  const CoverFacts cover;
  const std::function<bool()> interrupted = [] { return false; };
  const Solution incumbent = make_solution(instance, RecomputePlan{});
  const RoundResult result = worker.run({instance, incumbent, Duration(0), cover, interrupted, Effort{1000}});
  EXPECT_LT(result.work, Work(2000));
}

}  // namespace
}  // namespace remora
