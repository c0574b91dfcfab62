// SPDX-License-Identifier: Apache-2.0
//
// A small graph for two devices, and calls of remora_devices.h with it, right and wrong. What a solve gives is valid, and
// within what was asked for.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frontends/capi/remora_devices.h"
#include "tests/fuzz/target.hpp"

namespace remora::fuzz {
namespace {

template <class Thing>
struct Freed {
  void (*free)(Thing*);
  void operator()(Thing* thing) const { free(thing); }
};
using GraphHandle = std::unique_ptr<remora_device_graph, Freed<remora_device_graph>>;
using ScheduleHandle = std::unique_ptr<remora_device_schedule, Freed<remora_device_schedule>>;

ScheduleHandle held(remora_device_schedule* schedule) {
  return {schedule, {remora_device_schedule_free}};
}

void expect_answer(remora_status status, const void* made) {
  expect((status == REMORA_OK) == (made != nullptr), "a call gives something or says why not");
  if (status != REMORA_OK) expect(std::strlen(remora_last_error()) > 0, "an error says something");
}

/// Small as a rule, now and then at an edge.
std::string amount(Draw& draw) {
  return draw.below(4) == 0 ? std::to_string(draw.amount()) : std::to_string(draw.below(7));
}

/// A chain with a leap or two; the second device may have no way to an op, or be a store.
std::string graph_text(Draw& draw) {
  const std::uint32_t ops = 1 + draw.below(5);
  std::string tensors = R"({"name": "x", "size": 2, "home": ["b"]})";
  std::string steps;
  for (std::uint32_t i = 0; i < ops; ++i) {
    const std::string number = std::to_string(i);
    tensors +=
        R"(, {"name": "t)" + number + R"(", "size": )" + amount(draw) + (i + 1 == ops ? R"(, "keep": true})" : "}");
    const std::string before = i == 0 ? "x" : "t" + std::to_string(i - 1);
    const std::string leap = i > 1 && draw.below(2) == 0 ? R"(, "t)" + std::to_string(draw.below(i - 1)) + "\"" : "";
    std::string on =
        R"("a": {"duration": )" + amount(draw) + R"(, "workspace": )" + std::to_string(draw.below(3)) + "}";
    if (draw.below(2) == 0) on += R"(, "b": {"duration": )" + amount(draw) + R"(, "energy": )" + amount(draw) + "}";
    steps += (i == 0 ? "" : ", ") + (R"({"name": "o)" + number) + R"(", "on": {)" + on + R"(}, "inputs": [")" + before +
             "\"" + leap + R"(], "outputs": ["t)" + number + R"("]})";
  }
  const std::string there = R"({"from": "a", "to": "b", "latency": )" + amount(draw) + R"(, "bytes": 2, "per": 1})";
  const std::string back = R"({"from": "b", "to": "a", "latency": 0, "bytes": 1, "per": )" + amount(draw) + "}";
  return R"({"format": "remora-graph", "version": 2, "name": "fuzz", "devices": [{"name": "a"}, {"name": "b", "fixed_memory": )" +
         std::to_string(draw.below(3)) + R"(}], "links": [)" + there + ", " + back + R"(], "tensors": [)" + tensors +
         R"(], "ops": [)" + steps + "]}";
}

void ask(const remora_device_graph* graph, Draw& draw) {
  const std::int32_t id = static_cast<std::int32_t>(draw.below(9)) - 2;
  static_cast<void>(remora_device_graph_device_name(graph, id));
  static_cast<void>(remora_device_graph_op_name(graph, id));
  static_cast<void>(remora_device_graph_tensor_name(graph, id));
  static_cast<void>(remora_device_graph_find_device(graph, std::string(draw.text(4)).c_str()));
  expect(remora_device_graph_find_device(graph, "b") == 1, "a device is found by its name");
}

void ask(const remora_device_schedule* schedule, std::size_t steps, Draw& draw) {
  for (std::size_t i = 0; i <= steps; ++i) {
    remora_device_step step{};
    step.size = sizeof step;
    const bool known = remora_device_schedule_step(schedule, i, &step) == REMORA_OK;
    expect(known == (i < steps), "a step beyond the last is none");
    std::int32_t tensor = 0;
    std::int32_t device = 0;
    for (std::size_t k = 0; known && k <= step.release_count; ++k) {
      const remora_status status = remora_device_schedule_release(schedule, i, k, &tensor, &device);
      expect((status == REMORA_OK) == (k < step.release_count), "a release beyond the last is none");
    }
  }
  const std::int32_t id = static_cast<std::int32_t>(draw.below(5)) - 2;
  static_cast<void>(remora_device_schedule_peak(schedule, id));
  static_cast<void>(remora_device_schedule_budget(schedule, id));
}

void check(const remora_device_graph* graph, const remora_device_schedule* schedule,
           const remora_device_problem& problem, Draw& draw) {
  remora_device_facts facts{};
  facts.size = sizeof facts;
  expect(remora_device_schedule_facts(schedule, &facts) == REMORA_OK, "an answer has its facts");
  ask(schedule, facts.step_count, draw);
  char* text = nullptr;
  if (remora_device_schedule_text(schedule, &text) == REMORA_OK) {
    remora_device_schedule* again = nullptr;
    expect_answer(remora_device_schedule_parse(graph, text, std::strlen(text), &again), again);
    expect(again != nullptr, "a written schedule is read");
    static_cast<void>(held(again));
    remora_text_free(text);
  }
  if (facts.result != REMORA_OPTIMAL && facts.result != REMORA_FEASIBLE) return;
  int valid = 0;
  text = nullptr;
  expect(remora_device_schedule_verify(schedule, graph, &valid, &text) == REMORA_OK && valid == 1,
         "a schedule that a solve gives is valid");
  remora_text_free(text);
  const std::int64_t worth = facts.objective == REMORA_LEAST_ENERGY ? facts.energy : facts.duration;
  expect(facts.lower_bound <= worth, "a bound is no more than what was found");
  expect(problem.duration_limit == 0 || facts.duration <= problem.duration_limit, "the duration's limit");
  expect(problem.energy_limit == 0 || facts.energy <= problem.energy_limit, "the energy's limit");
  for (std::size_t d = 0; d < problem.budget_count && d < 2; ++d) {
    const std::int64_t budget = problem.budgets[d];
    expect(budget < 0 || remora_device_schedule_peak(schedule, static_cast<std::int32_t>(d)) <= budget, "the budget");
  }
}

}  // namespace

void fuzz_device_calls(Input bytes) {
  Draw draw(bytes);
  const std::string text = graph_text(draw);
  remora_device_graph* parsed = nullptr;
  expect_answer(remora_device_graph_parse(text.data(), text.size(), &parsed), parsed);
  const GraphHandle graph(parsed, {remora_device_graph_free});
  if (graph == nullptr) return;
  ask(graph.get(), draw);
  remora_options* options = nullptr;
  expect(remora_options_new(&options) == REMORA_OK, "options");
  const std::unique_ptr<remora_options, Freed<remora_options>> held_options(options, {remora_options_free});
  for (const auto& [name, value] : {std::pair{"time_limit", "0.3"}, {"work_limit", "60"}, {"threads", "1"}}) {
    expect(remora_options_set(options, name, value) == REMORA_OK, "usual options");
  }
  std::vector<ScheduleHandle> schedules;
  for (int call = 0; call < 3 && !draw.empty(); ++call) {
    std::vector<std::int64_t> budgets(draw.below(4));
    for (std::int64_t& budget : budgets) budget = draw.below(3) == 0 ? draw.amount() : 3 + draw.below(20);
    remora_device_problem problem{};
    problem.size = sizeof problem;
    problem.budgets = budgets.data();
    problem.budget_count = budgets.size();
    problem.objective = static_cast<std::int32_t>(draw.below(9) == 0 ? draw.below(4) : draw.below(2));
    problem.order = static_cast<std::int32_t>(draw.below(9) == 0 ? draw.below(4) : draw.below(2));
    problem.max_computes = static_cast<std::int32_t>(draw.below(4)) - (draw.below(9) == 0 ? 1 : 0);
    problem.duration_limit = draw.below(4) == 0 ? draw.amount() : 0;
    problem.energy_limit = draw.below(4) == 0 ? draw.amount() : 0;
    problem.copies = static_cast<std::int32_t>(draw.below(9) == 0 ? draw.below(4) : draw.below(2));
    const remora_device_schedule* warm = nullptr;
    if (!schedules.empty() && draw.below(2) == 0) warm = schedules.back().get();
    remora_device_schedule* made = nullptr;
    expect_answer(remora_device_solve(graph.get(), &problem, options, nullptr, warm, &made), made);
    if (made == nullptr) continue;
    schedules.push_back(held(made));
    check(graph.get(), made, problem, draw);
  }
}

}  // namespace remora::fuzz
