// SPDX-License-Identifier: Apache-2.0
//
// The local search's evaluator against the one evaluator, after every change.
#include "engine/search/local/plan_evaluator.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/search/local/local_search.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/useful_plan.hpp"

namespace remora {
namespace {

Bytes overflow_of(const Instance& instance, const Evaluation& evaluation) {
  Bytes overflow;
  for (const Bytes memory : evaluation.memory) {
    if (memory > instance.budget()) overflow += memory - instance.budget();
  }
  return overflow;
}

/// Memory at every event, sums, retention and crossing, as `evaluate` sees them.
void expect_same(const Instance& instance, const PlanEvaluator& evaluator) {
  const RecomputePlan plan = evaluator.plan();
  ASSERT_TRUE(std::is_sorted(plan.begin(), plan.end()));
  const auto sequence = sequence_of(instance, plan);
  const Evaluation truth = evaluate(instance, sequence);
  std::vector<EventKey> events;
  auto next = plan.begin();
  for (Stage stage{0}; stage <= instance.op_count(); ++stage) {
    for (; next != plan.end() && next->stage == stage; ++next) events.emplace_back(*next);
    if (stage < instance.op_count()) events.push_back(EventKey::first_compute(stage));
  }
  ASSERT_EQ(events.size(), sequence.size());
  std::vector<EventKey> overflowing;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(evaluator.memory(events[i]), truth.memory[i]) << "event " << i;
    if (truth.memory[i] > instance.budget()) overflowing.push_back(events[i]);
  }
  EXPECT_EQ(evaluator.overflowing(), overflowing);
  EXPECT_EQ(evaluator.extra(), extra_duration(instance, plan));
  EXPECT_EQ(evaluator.overflow(), overflow_of(instance, truth));
  // Who is retained across which event without being used at it.
  std::vector<std::set<int>> crossing(events.size());
  for (const RetentionInterval& interval : truth.intervals) {
    const int last_step = static_cast<int>(sequence.size()) - 1;
    // What is kept is retained beyond the last step.
    const bool beyond = instance.keep(interval.tensor) && interval.last_step == last_step;
    for (int step = interval.first_step + 1; step < (beyond ? last_step + 1 : interval.last_step); ++step) {
      const auto inputs = instance.inputs(sequence[static_cast<std::size_t>(step)]);
      if (std::find(inputs.begin(), inputs.end(), interval.tensor) == inputs.end()) {
        crossing[static_cast<std::size_t>(step)].insert(interval.tensor);
      }
    }
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    for (TensorId t{0}; t < instance.tensor_count(); t = TensorId(t + 1)) {
      if (!instance.producer(t).valid()) continue;
      ASSERT_EQ(evaluator.crosses(t, events[i]), crossing[i].contains(t)) << "tensor " << t << " event " << i;
    }
  }
}

Recompute recompute_at_random(const Instance& instance, std::mt19937& random) {
  const auto n = static_cast<unsigned>(instance.op_count());
  const auto op = static_cast<std::int32_t>(random() % n);
  return {Stage(op) + 1 + static_cast<int>(random() % (n - static_cast<unsigned>(op))), OpId(op)};
}

void change_at_random(const Instance& instance, int changes, std::mt19937& random) {
  PlanEvaluator evaluator(instance);
  expect_same(instance, evaluator);
  for (int i = 0; i < changes; ++i) {
    const Recompute recompute = recompute_at_random(instance, random);
    const Bytes overflow = evaluator.overflow();
    const Duration extra = evaluator.extra();
    if (evaluator.can_add(recompute)) {
      const PlanChange change = evaluator.probe(recompute);
      evaluator.add(recompute);
      EXPECT_EQ(evaluator.overflow(), overflow + change.overflow);
      EXPECT_EQ(evaluator.extra(), extra + change.extra);
    } else if (evaluator.contains(recompute)) {
      const bool needed = evaluator.needed(recompute);
      const bool useful = evaluator.useful(recompute);
      const auto useless_before = test::without_useless(instance, evaluator.plan());
      EXPECT_TRUE(useful || !std::binary_search(useless_before.begin(), useless_before.end(), recompute));
      evaluator.remove(recompute);
      if (overflow == Bytes(0)) {
        EXPECT_EQ(needed, evaluator.overflow() > Bytes(0));
      }
    } else {
      continue;
    }
    expect_same(instance, evaluator);
    if (testing::Test::HasFatalFailure()) return;
  }
  PlanEvaluator again(instance);
  if (again.can_add({Stage(1), OpId(0)})) again.add({Stage(1), OpId(0)});
  again.assign(evaluator.plan());
  EXPECT_EQ(again.overflow(), evaluator.overflow());
  EXPECT_EQ(again.plan(), evaluator.plan());
  expect_same(instance, again);
}

TEST(PlanEvaluator, AgreesWithEvaluateAfterEveryChange) {
  for (unsigned seed = 1; seed <= 800; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto graph = test::random_graph(random, {.least_ops = 2, .most_ops = 14, .in_place = seed > 400});
    const Instance unlimited(graph, {.max_computes = 2 + static_cast<int>(random() % 3)});
    const auto peak = static_cast<std::uint64_t>(baseline_peak(unlimited).count());
    change_at_random(unlimited.with_budget(Bytes(static_cast<std::int64_t>(random() % (peak + 1)))), 60, random);
    if (HasFatalFailure()) return;
  }
}

TEST(PlanEvaluator, AgreesWithEvaluateOnALayeredGraph) {
  std::mt19937 random(5);
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 80, .edges = 260, .seed = 5}));
  const Instance unlimited(graph, {.max_computes = 3});
  change_at_random(unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 8 / 10)), 200, random);
}

TEST(PlanEvaluator, SumsOfHugeSizesStayWithin64Bits) {
  // A chain whose tensors fill 62 bits together, 600 events above a budget of nothing.
  Graph graph;
  constexpr int kOps = 600;
  constexpr std::int64_t kSize = (std::int64_t{1} << 62) / kOps;
  for (int i = 0; i < kOps; ++i) {
    const TensorId t = graph.add_tensor("t" + std::to_string(i), Bytes(kSize), true);
    Op op{.name = "op" + std::to_string(i), .duration = Duration(1), .outputs = {t}};
    if (i > 0) op.inputs = {TensorId(i - 1)};
    graph.add_op(op);
  }
  const Instance instance(std::make_shared<const Graph>(graph), {.budget = Bytes(1)});
  PlanEvaluator evaluator(instance);
  EXPECT_GT(evaluator.overflow(), Bytes(0));
  for (const Stage stage : {Stage(300), Stage(600)}) {
    const Recompute recompute{stage, OpId(2)};
    const Bytes before = evaluator.overflow();
    const PlanChange change = evaluator.probe(recompute);
    EXPECT_NE(change.overflow, Bytes(0));
    evaluator.add(recompute);
    EXPECT_EQ(evaluator.overflow(), before + change.overflow);
    EXPECT_GT(evaluator.overflow(), Bytes(0));
    evaluator.remove(recompute);
  }
}

TEST(LifespanIndex, KnowsWhoIsThere) {
  std::mt19937 random(7);
  for (int stages = 1; stages <= 40; ++stages) {
    LifespanIndex index(stages);
    std::vector<std::vector<int>> truth(static_cast<std::size_t>(stages));
    for (int t = 0; t < 20; ++t) {
      const int first = static_cast<int>(random() % static_cast<unsigned>(stages));
      const int last = first - 1 + static_cast<int>(random() % static_cast<unsigned>(stages - first + 1));
      index.add(Stage(first), Stage(last), TensorId(t));
      for (int stage = first; stage <= last; ++stage) truth[static_cast<std::size_t>(stage)].push_back(t);
    }
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<int> here;
      index.visit(Stage(stage), [&](TensorId t) { here.push_back(t); });
      std::sort(here.begin(), here.end());
      EXPECT_EQ(here, truth[static_cast<std::size_t>(stage)]);
    }
  }
}

}  // namespace
}  // namespace remora
