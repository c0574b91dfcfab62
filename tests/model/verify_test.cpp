// SPDX-License-Identifier: Apache-2.0
#include "model/verify.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "model/evaluate.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

/// A valid schedule of figure 1 with A recomputed for E: A B C D A E.
Schedule valid_schedule() {
  const Instance instance(test::figure_1(), {});
  Schedule schedule;
  schedule.budget = Bytes(3);
  schedule.duration = Duration(6);
  schedule.peak_memory = Bytes(3);
  Sequence sequence;
  for (const int v : {0, 1, 2, 3, 0, 4}) sequence.emplace_back(v);
  schedule.steps = steps_of(instance, sequence);
  return schedule;
}

TEST(Verify, AcceptsAValidSchedule) {
  const Verdict verdict = verify(*test::figure_1(), valid_schedule());
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_EQ(verdict.duration, Duration(6));
  EXPECT_EQ(verdict.peak, Bytes(3));
  EXPECT_EQ(verdict.peak_step, 2);
  EXPECT_EQ(verdict.recomputes, 1);
}

struct Fault {
  const char* name;
  std::function<void(Graph&, Schedule&)> inject;
  const char* expected;
};

class VerifyFault : public testing::TestWithParam<Fault> {};

TEST_P(VerifyFault, IsReported) {
  Graph graph = *test::figure_1();
  Schedule schedule = valid_schedule();
  GetParam().inject(graph, schedule);
  const Verdict verdict = verify(graph, schedule);
  ASSERT_FALSE(verdict.valid());
  EXPECT_NE(verdict.errors.front().find(GetParam().expected), std::string::npos) << verdict.errors.front();
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyFault,
    testing::Values(
        Fault{"UnknownOp", [](Graph&, Schedule& s) { s.steps[1].op = OpId(5); },
              "step 1: op 5 is not one of the graph's 5"},
        Fault{"NoOp", [](Graph&, Schedule& s) { s.steps[1].op = OpId::none(); }, "step 1: op -1 is not one of"},
        Fault{"UnknownTensor", [](Graph&, Schedule& s) { s.steps[1].free.emplace_back(1 << 30); },
              "step 1 (B): frees tensor 1073741824, which is not one of the graph's 5"},
        Fault{"NoTensor", [](Graph&, Schedule& s) { s.steps[0].free.emplace_back(); }, "frees tensor -1"},
        Fault{"Endless",
              [](Graph& g, Schedule& s) {
                g.ops[0].duration = Duration(std::int64_t{1} << 56);
                s.steps.insert(s.steps.begin(), 128, s.steps[0]);
                s.order = OrderMode::free;
              },
              "the duration up to here is beyond 64 bits"},
        Fault{"GraphsOwnTensor", [](Graph& g, Schedule&) { g.ops[2].inputs.emplace_back(99); },
              "op C of the graph names"},
        Fault{"GraphsOwnOutput", [](Graph& g, Schedule&) { g.ops[2].outputs.emplace_back(); },
              "op C of the graph names"},
        Fault{"GraphsOwnOp", [](Graph& g, Schedule&) { g.ops[2].after.emplace_back(5); }, "op C of the graph names"},
        Fault{"Budget", [](Graph&, Schedule& s) { s.budget = Bytes(2); }, "exceed the budget of 2"},
        Fault{"Duration", [](Graph&, Schedule& s) { s.duration = Duration(5); }, "says duration 5, replay gives 6"},
        Fault{"Peak", [](Graph&, Schedule& s) { s.peak_memory = Bytes(9); }, "says peak_memory 9, replay gives 3"},
        Fault{"MissingInput", [](Graph&, Schedule& s) { s.steps.erase(s.steps.begin() + 4); },
              "input a is not resident"},
        Fault{"MissingOp", [](Graph&, Schedule& s) { s.steps.pop_back(); }, "op E is never computed"},
        Fault{"DoubleFree", [](Graph&, Schedule& s) { s.steps[3].free.push_back(TensorId(0)); }, "not resident"},
        Fault{"KeepReleased", [](Graph&, Schedule& s) { s.steps[5].free.push_back(TensorId(4)); },
              "tensor e must be resident at the end"},
        Fault{"Never", [](Graph& g, Schedule&) { g.ops[0].recompute = false; }, "recompute is 'never'"},
        Fault{"OwnLimit", [](Graph& g, Schedule&) { g.ops[0].max_computes = 1; }, "max_computes is 1"},
        Fault{"SolversLimit", [](Graph&, Schedule& s) { s.solver.max_computes = 1; }, "the schedule allows 1"},
        Fault{"After", [](Graph& g, Schedule&) { g.ops[0].after = {OpId(1)}; }, "op B must come first"},
        Fault{"GraphInputFreed",
              [](Graph& g, Schedule& s) { s.steps[0].free.push_back(g.add_tensor("data", Bytes(0))); },
              "an input of the graph"},
        Fault{"StageOrder",
              [](Graph&, Schedule& s) {
                s.budget = Bytes(9);
                // A B C B A D ...: nothing is released before D, so all inputs are there.
                s.steps.insert(s.steps.begin() + 3, Step{OpId(0), {}});
                s.steps.insert(s.steps.begin() + 3, Step{OpId(1), {}});
                for (std::size_t i = 0; i < 4; ++i) s.steps[i].free.clear();
              },
              "recomputes of a stage do not follow the input order"}),
    [](const auto& fault) { return fault.param.name; });

TEST(Verify, FreeOrderMayReorderFirstComputes) {
  const auto graph = test::figure_1();
  const Instance instance(graph, {});
  Schedule schedule = valid_schedule();
  Sequence sequence;
  for (const int v : {0, 2, 1, 3, 0, 4}) sequence.emplace_back(v);
  schedule.steps = steps_of(instance, sequence);
  EXPECT_FALSE(verify(*graph, schedule).valid());
  schedule.order = OrderMode::free;
  EXPECT_TRUE(verify(*graph, schedule).valid());
}

}  // namespace
}  // namespace remora
