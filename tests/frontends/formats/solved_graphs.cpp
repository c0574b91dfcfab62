// SPDX-License-Identifier: Apache-2.0
#include "tests/frontends/formats/solved_graphs.hpp"

#include <cstddef>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::test {
namespace {

constexpr int kComputesPerOp = 3;

std::vector<std::shared_ptr<const Graph>> generated_graphs() {
  std::vector<std::shared_ptr<const Graph>> all;
  const auto add = [&](Graph graph) { all.push_back(std::make_shared<const Graph>(std::move(graph))); };
  add(generate::generate_layered({.ops = 60, .seed = 3}));
  add(generate::generate_layered({.ops = 120, .seed = 4}));
  add(test::generate_chain({.layers = 12}));
  add(test::generate_unet({}));
  add(test::generate_transformer({}));
  all.push_back(training_chain(10));
  return all;
}

void add_verified(const std::shared_ptr<const Graph>& graph, const std::string& how, Schedule schedule,
                  std::vector<SolvedGraph>& solved) {
  const Verdict verdict = verify(*graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  solved.push_back({graph->name + " by " + how, graph, std::move(schedule)});
}

/// What the engine finds under budgets between the fixed memory and the peak without recompute.
void add_solved(const std::shared_ptr<const Graph>& graph, std::vector<SolvedGraph>& solved) {
  const Instance unlimited(graph, {.max_computes = kComputesPerOp});
  const Bytes peak = baseline_peak(unlimited);
  for (const int percent : {60, 75, 90, 100}) {
    const Bytes budget = peak - Bytes((peak - graph->fixed_memory).count() / 100 * (100 - percent));
    for (const bool searches : {false, true}) {
      // Each test program of CTest makes them anew, so they must be cheap, not good.
      SolveOptions options{.time_limit = kNoTimeLimit, .work_limit = 300, .threads = 1, .covering = Covering::off};
      if (searches) options.workers = Workers::local;
      if (!searches) options.strategy = Strategy::greedy;
      options.period_bound = false;
      Schedule schedule = solve(unlimited.with_budget(budget), options);
      if (schedule.has_schedule()) add_verified(graph, searches ? "local" : "greedy", std::move(schedule), solved);
    }
  }
}

/// Any recomputes in any stages: with the first computes in the input order every choice is a valid sequence.
void add_random_plan(std::mt19937& random, std::vector<SolvedGraph>& solved) {
  const auto graph = random_graph(random, {.most_ops = 12});
  const Instance instance(graph, {.max_computes = kComputesPerOp});
  std::vector<int> computes(graph->ops.size(), 0);
  Sequence sequence;
  for (int stage = 0; stage <= instance.op_count(); ++stage) {
    for (int i = 0; i < stage; ++i) {
      if (random() % 4 != 0 || computes[static_cast<std::size_t>(i)] == instance.max_computes(OpId(i))) continue;
      ++computes[static_cast<std::size_t>(i)];
      sequence.emplace_back(i);
    }
    if (stage == instance.op_count()) break;
    ++computes[static_cast<std::size_t>(stage)];
    sequence.emplace_back(stage);
  }
  const Evaluation evaluation = evaluate(instance, sequence);
  Schedule schedule{.status = Status::feasible, .budget = evaluation.peak, .duration = evaluation.duration};
  schedule.peak_memory = evaluation.peak;
  schedule.steps = steps_of(instance, sequence);
  add_verified(graph, "chance", std::move(schedule), solved);
}

std::vector<SolvedGraph> solve_all() {
  std::vector<SolvedGraph> solved;
  for (const auto& graph : generated_graphs()) add_solved(graph, solved);
  std::mt19937 random(17);
  for (int round = 0; round < 80; ++round) add_random_plan(random, solved);
  return solved;
}

}  // namespace

const std::vector<SolvedGraph>& solved_graphs() {
  static const std::vector<SolvedGraph> solved = solve_all();
  return solved;
}

Schedule with_late_releases(const Graph& graph, Schedule schedule, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<OpId> producer(graph.tensors.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const TensorId t : graph.ops[i].outputs) producer[static_cast<std::size_t>(t)] = OpId(i);
  }
  const std::vector<Step> written = schedule.steps;
  for (Step& step : schedule.steps) step.free.clear();
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const TensorId t : written[i].free) {
      std::size_t latest = i;
      while (latest + 1 < written.size() && written[latest + 1].op != producer[static_cast<std::size_t>(t)]) ++latest;
      schedule.steps[i + random() % (latest - i + 1)].free.push_back(t);
    }
  }
  schedule.budget = Bytes::max();
  schedule.peak_memory = verify(graph, schedule).peak;
  const Verdict verdict = verify(graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  return schedule;
}

}  // namespace remora::test
