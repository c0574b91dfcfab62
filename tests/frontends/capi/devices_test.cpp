// SPDX-License-Identifier: Apache-2.0
//
// Graphs over several devices by the C interface.
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "frontends/capi/remora_devices.h"
#include "tests/frontends/capi/network.hpp"

namespace remora::test {
namespace {

const std::string kTwoDevices = R"({"format": "remora-graph", "version": 2, "name": "two-devices",
 "devices": [{"name": "gpu"}, {"name": "cpu"}],
 "links": [{"from": "gpu", "to": "cpu", "latency": 1, "bytes": 2, "per": 1, "energy": 1},
           {"from": "cpu", "to": "gpu", "latency": 1, "bytes": 2, "per": 1, "energy": 9}],
 "tensors": [{"name": "x", "size": 4, "home": ["cpu"]}, {"name": "a", "size": 2},
             {"name": "b", "size": 2, "keep": true, "home": "gpu"}],
 "ops": [{"name": "A", "on": {"gpu": {"duration": 1, "energy": 4}, "cpu": {"duration": 3}}, "inputs": ["x"], "outputs": ["a"]},
         {"name": "B", "on": {"gpu": {"duration": 1, "workspace": 1}}, "inputs": ["a"], "outputs": ["b"]}]})";

using DeviceGraphHandle = std::unique_ptr<remora_device_graph, void (*)(remora_device_graph*)>;
using DeviceScheduleHandle = std::unique_ptr<remora_device_schedule, void (*)(remora_device_schedule*)>;

DeviceGraphHandle two_devices() {
  remora_device_graph* made = nullptr;
  EXPECT_EQ(remora_device_graph_parse(kTwoDevices.data(), kTwoDevices.size(), &made), REMORA_OK) << remora_last_error();
  return {made, &remora_device_graph_free};
}

remora_device_problem problem_of(const std::vector<std::int64_t>& budgets) {
  remora_device_problem problem = {};
  problem.size = sizeof problem;
  problem.budgets = budgets.data();
  problem.budget_count = budgets.size();
  return problem;
}

DeviceScheduleHandle solved(const DeviceGraphHandle& graph, const remora_device_problem& problem,
                            const remora_device_schedule* start = nullptr) {
  remora_device_schedule* made = nullptr;
  EXPECT_EQ(remora_device_solve(graph.get(), &problem, reproducible().get(), nullptr, start, &made), REMORA_OK)
      << remora_last_error();
  return {made, &remora_device_schedule_free};
}

remora_device_facts facts_of(const DeviceScheduleHandle& schedule) {
  remora_device_facts facts = {};
  facts.size = sizeof facts;
  EXPECT_EQ(remora_device_schedule_facts(schedule.get(), &facts), REMORA_OK) << remora_last_error();
  return facts;
}

TEST(CDevices, SolvesUnderABudgetForEachDevice) {
  const DeviceGraphHandle graph = two_devices();
  ASSERT_EQ(remora_device_graph_device_count(graph.get()), 2);
  EXPECT_EQ(remora_device_graph_find_device(graph.get(), "cpu"), 1);
  EXPECT_EQ(remora_device_graph_find_device(graph.get(), "tpu"), -1);
  EXPECT_STREQ(remora_device_graph_op_name(graph.get(), 1), "B");
  EXPECT_EQ(remora_device_graph_op_name(graph.get(), 2), nullptr);
  EXPECT_STREQ(remora_device_graph_tensor_name(graph.get(), 0), "x");

  const std::vector<std::int64_t> budgets{6};
  const DeviceScheduleHandle schedule = solved(graph, problem_of(budgets));
  const remora_device_facts facts = facts_of(schedule);
  EXPECT_EQ(facts.result, REMORA_OPTIMAL);
  EXPECT_EQ(facts.duration, 5);
  EXPECT_EQ(facts.lower_bound, 5);
  EXPECT_EQ(facts.energy, 13);
  EXPECT_EQ(facts.optimal_for_max_computes, std::numeric_limits<int>::max());
  remora_device_problem twice = problem_of(budgets);
  twice.max_computes = 2;
  EXPECT_EQ(facts_of(solved(graph, twice)).optimal_for_max_computes, 0);
  ASSERT_EQ(facts.step_count, 3U);
  EXPECT_EQ(remora_device_schedule_budget(schedule.get(), 0), 6);
  EXPECT_EQ(remora_device_schedule_budget(schedule.get(), 1), -1);
  EXPECT_LE(remora_device_schedule_peak(schedule.get(), 0), 6);
  EXPECT_EQ(remora_device_schedule_peak(schedule.get(), 7), -1);
  remora_device_step step = {};
  step.size = sizeof step;
  ASSERT_EQ(remora_device_schedule_step(schedule.get(), 0, &step), REMORA_OK);
  EXPECT_EQ(step.op, -1);
  EXPECT_EQ(step.tensor, 0);
  EXPECT_EQ(step.device, 1);
  EXPECT_EQ(step.to, 0);
  ASSERT_EQ(remora_device_schedule_step(schedule.get(), 1, &step), REMORA_OK);
  EXPECT_EQ(step.op, 0);
  EXPECT_EQ(step.to, -1);
  ASSERT_EQ(step.release_count, 1U);
  std::int32_t tensor = -1;
  std::int32_t device = -1;
  ASSERT_EQ(remora_device_schedule_release(schedule.get(), 1, 0, &tensor, &device), REMORA_OK);
  EXPECT_EQ(tensor, 0);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(remora_device_schedule_release(schedule.get(), 1, 1, &tensor, &device), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_device_schedule_step(schedule.get(), 3, &step), REMORA_BAD_INPUT);
  int valid = 0;
  ASSERT_EQ(remora_device_schedule_verify(schedule.get(), graph.get(), &valid, nullptr), REMORA_OK);
  EXPECT_EQ(valid, 1);
}

TEST(CDevices, HeedsObjectiveAndLimits) {
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> none{-1, -1};
  remora_device_problem problem = problem_of(none);
  problem.objective = REMORA_LEAST_ENERGY;
  EXPECT_EQ(facts_of(solved(graph, problem)).energy, 9) << "A on the CPU, a copied";
  problem.duration_limit = 5;
  EXPECT_EQ(facts_of(solved(graph, problem)).energy, 13);
  problem.energy_limit = 12;
  EXPECT_EQ(facts_of(solved(graph, problem)).result, REMORA_INFEASIBLE);
}

TEST(CDevices, TellHowItGoes) {
  struct Received {
    std::vector<std::int64_t> durations{};
    std::size_t incumbents = 0;
    int answer = 0;
  };
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> budgets{6};
  const remora_device_problem problem = problem_of(budgets);
  Received received;
  remora_device_callbacks callbacks = {};
  callbacks.size = sizeof callbacks;
  callbacks.context = &received;
  callbacks.progress = [](void* context, const remora_progress* update) {
    auto& here = *static_cast<Received*>(context);
    if (update->phase == 2) here.durations.push_back(update->duration);
    EXPECT_LE(update->lower_bound, update->duration);
    return here.answer;
  };
  callbacks.incumbent = [](void* context, const remora_device_schedule* schedule) {
    remora_device_facts facts = {};
    facts.size = sizeof facts;
    EXPECT_EQ(remora_device_schedule_facts(schedule, &facts), REMORA_OK);
    EXPECT_GT(facts.step_count, 0U);
    ++static_cast<Received*>(context)->incumbents;
  };
  const auto solve = [&] {
    remora_device_schedule* made = nullptr;
    EXPECT_EQ(
        remora_device_solve_with_callbacks(graph.get(), &problem, reproducible().get(), &callbacks, nullptr, &made),
        REMORA_OK);
    return DeviceScheduleHandle{made, &remora_device_schedule_free};
  };
  EXPECT_EQ(facts_of(solve()).duration, 5);
  ASSERT_FALSE(received.durations.empty());
  EXPECT_EQ(received.durations.back(), 5);
  EXPECT_GE(received.incumbents, 1U);
  // The first update end it.
  received = Received();
  received.answer = 1;
  static_cast<void>(solve());
  EXPECT_LE(received.durations.size(), 1U);
  callbacks.size = 0;
  remora_device_schedule* made = nullptr;
  EXPECT_EQ(remora_device_solve_with_callbacks(graph.get(), &problem, nullptr, &callbacks, nullptr, &made),
            REMORA_BAD_INPUT);
}

/// One input copied and two ops in a chain: nothing to overlap, but the replay is the other one.
TEST(CDevices, LetsCopiesOverlap) {
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> budgets{6};
  remora_device_problem problem = problem_of(budgets);
  problem.copies = REMORA_COPIES_OVERLAP;
  const DeviceScheduleHandle schedule = solved(graph, problem);
  const remora_device_facts facts = facts_of(schedule);
  EXPECT_EQ(facts.copies, REMORA_COPIES_OVERLAP);
  EXPECT_EQ(facts.result, REMORA_OPTIMAL);
  EXPECT_EQ(facts.duration, 5);
  int valid = 0;
  ASSERT_EQ(remora_device_schedule_verify(schedule.get(), graph.get(), &valid, nullptr), REMORA_OK);
  EXPECT_EQ(valid, 1);
  problem.copies = 2;
  remora_device_schedule* made = nullptr;
  EXPECT_EQ(remora_device_solve(graph.get(), &problem, nullptr, nullptr, nullptr, &made), REMORA_BAD_INPUT);
}

TEST(CDevices, SaysWhyThereIsNoSchedule) {
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> budgets{4};
  const auto line_of = [](const remora_device_schedule* schedule) {
    char* text = nullptr;
    EXPECT_EQ(remora_device_schedule_refusal_text(schedule, &text), REMORA_OK) << remora_last_error();
    const std::string line = text;
    remora_text_free(text);
    return line;
  };
  const DeviceScheduleHandle none = solved(graph, problem_of(budgets));
  EXPECT_EQ(facts_of(none).result, REMORA_INFEASIBLE);
  EXPECT_EQ(
      line_of(none.get()),
      "no schedule stays within the budgets: 'B' can run on no device: 'gpu' needs at least 5 B (5 bytes), and its "
      "budget is 4 B (4 bytes); try a larger budget, a smaller batch or splitting the op");
  const std::vector<std::int64_t> roomy{6};
  EXPECT_EQ(line_of(solved(graph, problem_of(roomy)).get()), "");
}

TEST(CDevices, StartsFromASchedule) {
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> tight{5};
  const DeviceScheduleHandle first = solved(graph, problem_of(tight));
  const std::vector<std::int64_t> roomy{6};
  const DeviceScheduleHandle second = solved(graph, problem_of(roomy), first.get());
  EXPECT_EQ(facts_of(second).duration, 5);
  // Of a graph that was read once more the names are looked up.
  const DeviceGraphHandle again = two_devices();
  EXPECT_EQ(facts_of(solved(again, problem_of(tight), second.get())).duration, 6);
}

TEST(CDevices, WritesAndReads) {
  const DeviceGraphHandle graph = two_devices();
  const std::vector<std::int64_t> budgets{6};
  const DeviceScheduleHandle schedule = solved(graph, problem_of(budgets));
  char* text = nullptr;
  ASSERT_EQ(remora_device_schedule_text(schedule.get(), &text), REMORA_OK);
  remora_device_schedule* made = nullptr;
  ASSERT_EQ(remora_device_schedule_parse(graph.get(), text, std::strlen(text), &made), REMORA_OK);
  char* again = nullptr;
  ASSERT_EQ(remora_device_schedule_text(made, &again), REMORA_OK);
  EXPECT_STREQ(again, text);
  remora_text_free(again);
  std::string wrong = text;
  remora_text_free(text);
  remora_device_schedule_free(made);
  wrong.replace(wrong.find("\"duration\": 5"), 13, "\"duration\": 4");
  ASSERT_EQ(remora_device_schedule_parse(graph.get(), wrong.data(), wrong.size(), &made), REMORA_OK);
  int valid = 1;
  char* errors = nullptr;
  ASSERT_EQ(remora_device_schedule_verify(made, graph.get(), &valid, &errors), REMORA_OK);
  EXPECT_EQ(valid, 0);
  EXPECT_NE(std::string(errors).find("says duration 4"), std::string::npos) << errors;
  remora_text_free(errors);
  remora_device_schedule_free(made);
  EXPECT_EQ(remora_device_schedule_write(schedule.get(), "/nowhere/s.json"), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_device_graph_write(graph.get(), "/nowhere/g.json"), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_device_graph_write(graph.get(), "/dev/null.ONNX"), REMORA_BAD_INPUT);
  EXPECT_STREQ(remora_last_error(), "/dev/null.ONNX: would be no ONNX model; name another file");
}

TEST(CDevices, RefusesWhatMeansNothing) {
  const DeviceGraphHandle graph = two_devices();
  remora_device_schedule* made = nullptr;
  const auto refused = [&](const remora_device_problem& problem, const char* place) {
    EXPECT_EQ(remora_device_solve(graph.get(), &problem, nullptr, nullptr, nullptr, &made), REMORA_BAD_INPUT) << place;
    EXPECT_EQ(std::string(remora_last_error()).find(place), 0U) << remora_last_error();
  };
  const std::vector<std::int64_t> budgets{1, 2, 3};
  remora_device_problem problem = problem_of(budgets);
  refused(problem, "problem.budgets: 3 are too many");
  problem.budget_count = 1;
  problem.order = REMORA_ORDER_AUTO;
  refused(problem, "problem.order");
  problem.order = REMORA_ORDER_INPUT;
  problem.objective = 7;
  refused(problem, "problem.objective");
  problem.objective = 0;
  problem.energy_limit = -3;
  refused(problem, "problem.energy_limit");
  problem.energy_limit = 0;
  problem.size = 0;
  refused(problem, "problem: its size is 0");
  EXPECT_EQ(remora_device_solve(graph.get(), nullptr, nullptr, nullptr, nullptr, &made), REMORA_BAD_INPUT);
  remora_device_graph* none = nullptr;
  EXPECT_EQ(remora_device_graph_parse("{}", 2, &none), REMORA_BAD_INPUT);
  EXPECT_EQ(none, nullptr);
}

/// A struct of a later header: what this library does not know must be zero; one of an earlier one is filled as far as it goes.
TEST(CDevices, StructsMayGrow) {
  const DeviceGraphHandle graph = two_devices();
  struct {
    remora_device_problem problem;
    std::int64_t later;
  } grown = {};
  grown.problem.size = sizeof grown;
  remora_device_schedule* made = nullptr;
  ASSERT_EQ(remora_device_solve(graph.get(), &grown.problem, reproducible().get(), nullptr, nullptr, &made), REMORA_OK);
  grown.later = 1;
  remora_device_schedule* other = nullptr;
  EXPECT_EQ(remora_device_solve(graph.get(), &grown.problem, nullptr, nullptr, nullptr, &other), REMORA_BAD_INPUT);
  EXPECT_NE(std::string(remora_last_error()).find("only a later Remora"), std::string::npos);
  remora_device_facts facts = {};
  facts.size = offsetof(remora_device_facts, step_count);
  facts.step_count = 77;
  ASSERT_EQ(remora_device_schedule_facts(made, &facts), REMORA_OK);
  EXPECT_EQ(facts.step_count, 77U) << "not the caller's";
  EXPECT_EQ(facts.duration, 5);
  facts.size = 0;
  EXPECT_EQ(remora_device_schedule_facts(made, &facts), REMORA_BAD_INPUT);
  remora_device_schedule_free(made);
}

}  // namespace
}  // namespace remora::test
