// SPDX-License-Identifier: Apache-2.0
//
// What the C interface refuses, and how it says so.
#include <limits>
#include <string>
#include <vector>

#include "tests/frontends/capi/network.hpp"

namespace remora::test {
namespace {

TEST(CRefusals, WrongCallsChangeNothingAndNameTheArgument) {
  const GraphHandle graph = network(4);
  std::int32_t tensor = -1;
  ASSERT_EQ(remora_graph_add_tensor(graph.get(), "out", 1, 0, &tensor), REMORA_OK);
  const std::int32_t nobody = 77;
  const auto refused = expect_argument_refused;
  refused(remora_graph_new(nullptr, nullptr), "made: is NULL");
  refused(remora_graph_add_tensor(graph.get(), nullptr, 1, 0, nullptr), "name: is NULL");
  refused(remora_graph_add_tensor(graph.get(), "", 1, 0, nullptr), "name: is empty");
  refused(remora_graph_add_tensor(graph.get(), "x", -1, 0, nullptr), "bytes: -1");
  refused(remora_graph_add_op(graph.get(), "x", 1, nullptr, 1, &tensor, 1, nullptr), "inputs: is NULL");
  refused(remora_graph_add_op(graph.get(), "x", 1, &nobody, 1, &tensor, 1, nullptr),
          "inputs[0]: there is no tensor 77");
  refused(remora_graph_add_op(graph.get(), "x", 1, nullptr, 0, &nobody, 1, nullptr),
          "outputs[0]: there is no tensor 77");
  refused(remora_graph_add_op(graph.get(), "x", 1, nullptr, 0, nullptr, 0, nullptr), "outputs: ");
  refused(remora_graph_add_op(graph.get(), "x", -1, nullptr, 0, &tensor, 1, nullptr), "duration: -1");
  refused(remora_graph_set_workspace(graph.get(), 9, 1), "op: there is no op 9; the graph has 4");
  refused(remora_graph_set_workspace(graph.get(), 0, -1), "bytes: -1");
  refused(remora_graph_set_fixed_memory(graph.get(), -1), "bytes: -1");
  refused(remora_graph_set_max_computes(graph.get(), 0, 0), "computes: an op runs at least once");
  refused(remora_graph_add_after(graph.get(), 0, 4), "before: there is no op 4");
  refused(remora_graph_add_after(graph.get(), 0, 2), "before: op 2 ('f2') was not added before op 0");
  refused(remora_graph_set_phase(graph.get(), 0, REMORA_PHASE_BACKWARD, 9), "backward_of: there is no op 9");
  refused(remora_graph_set_phase(graph.get(), 0, REMORA_PHASE_BACKWARD, 0), "backward_of: ");
  remora_schedule* made = nullptr;
  const InstanceHandle instance = under(network(4), "100%");
  refused(remora_schedule_of_sequence(instance.get(), &tensor, std::size_t{1} << 40U, nullptr), "made: is NULL");
  refused(remora_schedule_of_sequence(instance.get(), &tensor, std::size_t{1} << 40U, &made), "ops: ");
  refused(remora_schedule_of_sequence(instance.get(), &nobody, 1, &made), "ops[0]: there is no op 77");
  remora_instance* stated = nullptr;
  refused(remora_instance_new(graph.get(), "12 parsecs", 2, REMORA_ORDER_INPUT, &stated), "budget: '12 parsecs'");
  refused(remora_instance_new(graph.get(), "80%", -1, REMORA_ORDER_INPUT, &stated),
          "max_computes: must not be negative");
  EXPECT_EQ(stated, nullptr);
  const OptionsHandle options = reproducible();
  refused(remora_options_set(options.get(), "colour", "blue"), "name: there is no option 'colour'");
  refused(remora_options_set(options.get(), "time-limit", "soon"), "value: time_limit: expected a number");
  refused(remora_options_set(options.get(), "threads", "-3"), "value: threads: -3 is outside");
  refused(remora_options_set(options.get(), "strategy", "magic"), "value: strategy: 'magic'");
  EXPECT_EQ(remora_graph_op_count(graph.get()), 4);
  EXPECT_EQ(remora_graph_tensor_count(graph.get()), 5);
  // The names are free still.
  EXPECT_EQ(remora_graph_add_tensor(graph.get(), "x", 1, 0, nullptr), REMORA_OK);
  EXPECT_EQ(remora_graph_add_op(graph.get(), "x", 1, nullptr, 0, &tensor, 1, nullptr), REMORA_OK);
}

TEST(CRefusals, DuplicatesAreToldWhereTheyAreAdded) {
  const GraphHandle graph = network(4);
  const auto refused = expect_argument_refused;
  std::int32_t tensor = -1;
  ASSERT_EQ(remora_graph_add_tensor(graph.get(), "out", 1, 0, &tensor), REMORA_OK);
  refused(remora_graph_add_tensor(graph.get(), "t2", 1, 0, nullptr), "name: tensor 2 is already named 't2'");
  refused(remora_graph_add_op(graph.get(), "f1", 1, nullptr, 0, &tensor, 1, nullptr),
          "name: op 1 is already named 'f1'");
  const std::int32_t third = 3;
  refused(remora_graph_add_op(graph.get(), "twice", 1, nullptr, 0, &third, 1, nullptr),
          "outputs[0]: tensor 3 ('t3') is written by op 3 ('f3') already");
  const std::vector<std::int32_t> same{tensor, tensor};
  refused(remora_graph_add_op(graph.get(), "twice", 1, nullptr, 0, same.data(), 2, nullptr), "outputs[1]: ");
  refused(remora_graph_add_op(graph.get(), "loop", 1, &tensor, 1, &tensor, 1, nullptr), "outputs[0]: ");
  std::int32_t late = -1;
  ASSERT_EQ(remora_graph_add_tensor(graph.get(), "late", 1, 0, &late), REMORA_OK);
  ASSERT_EQ(remora_graph_add_op(graph.get(), "reader", 1, &late, 1, &tensor, 1, nullptr), REMORA_OK);
  refused(remora_graph_add_op(graph.get(), "writer", 1, nullptr, 0, &late, 1, nullptr),
          "outputs[0]: tensor 5 ('late') is read by op 4 ('reader'), which was added before");
  EXPECT_EQ(remora_graph_add_after(graph.get(), 3, 0), REMORA_OK);
  EXPECT_EQ(remora_graph_add_after(graph.get(), 3, 0), REMORA_OK) << "said twice, it is the same";
  EXPECT_EQ(remora_graph_add_in_place(graph.get(), 1, 1, 0), REMORA_OK);
  refused(remora_graph_add_in_place(graph.get(), 1, 1, 0), "output: tensor 1 ('t1') is in a pair already");
  EXPECT_NE(under(graph, "100%"), nullptr);
}

TEST(CRefusals, AFaultOfTheWholeGraphIsTheGraphs) {
  const GraphHandle graph = network(2);
  const ScheduleHandle schedule = solved(under(graph, "100%"));
  ASSERT_EQ(remora_graph_set_fixed_memory(graph.get(), std::numeric_limits<std::int64_t>::max()), REMORA_OK);
  remora_instance* instance = nullptr;
  expect_argument_refused(remora_instance_new(graph.get(), "80%", 2, REMORA_ORDER_INPUT, &instance),
                          "graph: tensor 0, size: fixed_memory and the sizes");
  remora_schedule* made = nullptr;
  expect_argument_refused(
      remora_schedule_place(schedule.get(), graph.get(), 1, nullptr, nullptr, nullptr, nullptr, nullptr, &made),
      "graph: tensor 0, size: fixed_memory and the sizes");
}

TEST(CRefusals, OnlyModelsAreWrittenUnderAModelsName) {
  const GraphHandle graph = network(2);
  const ScheduleHandle schedule = solved(under(graph, "100%"));
  const std::string path = testing::TempDir() + "remora_no_model.onnx";
  expect_argument_refused(remora_graph_write(graph.get(), path.c_str()),
                          path + ": would be no ONNX model; name another file");
  expect_argument_refused(remora_schedule_write(schedule.get(), graph.get(), path.c_str()),
                          path + ": would be no ONNX model");
  expect_argument_refused(remora_graph_write(graph.get(), nullptr), "path: is NULL");
}

TEST(CRefusals, WhatIsReadNamesTheTextOrTheFileAndThePlaceInIt) {
  remora_graph* read = nullptr;
  const std::string named = R"({"format": "remora-graph", "version": 1, "name": "g", "tensors": [{"name": "a\u0000b",
    "size": 1}], "ops": [{"name": "f", "duration": 1, "inputs": [], "outputs": ["a\u0000b"]}]})";
  expect_refused(remora_graph_parse(named.data(), named.size(), &read), "text: $.tensors[0].name: holds a NUL");
  expect_refused(remora_graph_read("/nowhere/graph.json", &read), "/nowhere/graph.json");
  const std::string model = "\x08\x08:\x10";  // as an ONNX file begins
  expect_refused(remora_graph_parse(model.data(), model.size(), &read), "text: not a graph in JSON; `remora convert`");
  remora_device_graph* devices = nullptr;
  expect_refused(remora_device_graph_parse(model.data(), model.size(), &devices), "text: not a graph in JSON");
  EXPECT_EQ(read, nullptr);
}

TEST(CRefusals, ACallbackStructSaysItsSize) {
  const GraphHandle graph = network(12);
  const InstanceHandle instance = under(graph, "80%");
  remora_schedule* made = nullptr;
  remora_callbacks callbacks{};
  const auto refused = [&] {
    expect_argument_refused(remora_solve(instance.get(), reproducible().get(), &callbacks, nullptr, &made),
                            "callbacks: its size is ");
  };
  refused();
  callbacks.size = sizeof(void*);
  refused();
  callbacks.size = ~std::size_t{0};
  refused();
  // Of a program that was built with a later header: what this library doesn't know must be 0.
  struct Later {
    remora_callbacks known{};
    void* unknown = nullptr;
  } later;
  later.known.size = sizeof later;
  ASSERT_EQ(remora_solve(instance.get(), reproducible().get(), &later.known, nullptr, &made), REMORA_OK);
  remora_schedule_free(made);
  made = nullptr;
  later.unknown = &later;
  expect_argument_refused(remora_solve(instance.get(), reproducible().get(), &later.known, nullptr, &made),
                          "callbacks: sets what only a later Remora");
  EXPECT_EQ(made, nullptr);
}

TEST(CRefusals, ScheduleOfAnotherGraphIsRefused) {
  const GraphHandle large = network(12);
  const GraphHandle small = network(4);
  const ScheduleHandle schedule = solved(under(large, "100%"));
  int valid = 1;
  EXPECT_EQ(remora_schedule_verify(schedule.get(), small.get(), &valid, nullptr), REMORA_BAD_INPUT);
  char* text = nullptr;
  EXPECT_EQ(remora_schedule_text(schedule.get(), small.get(), &text), REMORA_BAD_INPUT);
  remora_schedule* made = nullptr;
  EXPECT_EQ(remora_solve(under(small, "100%").get(), nullptr, nullptr, schedule.get(), &made), REMORA_BAD_INPUT);
  EXPECT_EQ(made, nullptr);
}

TEST(CRefusals, AScheduleWithoutStepsSaysWhy) {
  const GraphHandle graph = network(6);
  const ScheduleHandle none = solved(under(graph, "150B"));
  EXPECT_EQ(remora_schedule_result(none.get()), REMORA_INFEASIBLE);
  remora_refusal refusal{};
  expect_argument_refused(remora_schedule_refusal(none.get(), graph.get(), &refusal), "filled: its size");
  refusal.size = sizeof refusal;
  ASSERT_EQ(remora_schedule_refusal(none.get(), graph.get(), &refusal), REMORA_OK) << remora_last_error();
  EXPECT_EQ(refusal.reason, REMORA_REASON_OP);
  EXPECT_EQ(refusal.op, 4);
  EXPECT_EQ(refusal.needed, 300);
  EXPECT_GE(refusal.lower_bound, 300);
  const ScheduleHandle some = solved(under(graph, (std::to_string(refusal.enough) + "B").c_str()));
  EXPECT_GT(remora_schedule_step_count(some.get()), 0U);
  char* text = nullptr;
  ASSERT_EQ(remora_schedule_refusal_text(none.get(), graph.get(), &text), REMORA_OK);
  EXPECT_NE(std::string(text).find("'f4' alone needs 300 B"), std::string::npos) << text;
  remora_text_free(text);
  ASSERT_EQ(remora_schedule_refusal(some.get(), graph.get(), &refusal), REMORA_OK);
  EXPECT_EQ(refusal.reason, REMORA_REASON_NONE);
  EXPECT_EQ(refusal.op, -1);
  ASSERT_EQ(remora_schedule_refusal_text(some.get(), graph.get(), &text), REMORA_OK);
  EXPECT_STREQ(text, "");
  remora_text_free(text);
  expect_argument_refused(remora_schedule_refusal(none.get(), network(2).get(), &refusal), "schedule: ");
}

TEST(CRefusals, APercentageWithAddressesIsOfTheArena) {
  remora_graph* made = nullptr;
  ASSERT_EQ(remora_graph_new("small2", &made), REMORA_OK);
  const GraphHandle graph(made);
  std::vector<std::int32_t> tensors(4);
  const std::vector<std::int64_t> sizes{512, 4, 4, 512};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    ASSERT_EQ(remora_graph_add_tensor(made, ("t" + number).c_str(), sizes[i], 0, &tensors[i]), REMORA_OK);
    const std::size_t inputs = i == 3 ? 3 : 0;
    ASSERT_EQ(remora_graph_add_op(made, ("f" + number).c_str(), 1, tensors.data(), inputs, &tensors[i], 1, nullptr),
              REMORA_OK);
  }
  const auto placed = [&](const char* budget) {
    remora_schedule* schedule = nullptr;
    EXPECT_EQ(
        remora_solve_with_addresses(under(graph, budget).get(), reproducible().get(), 64, nullptr, nullptr, &schedule),
        REMORA_OK)
        << remora_last_error();
    return ScheduleHandle(schedule);
  };
  const ScheduleHandle all = placed("100%");
  EXPECT_EQ(remora_schedule_budget(all.get()), 1092);
  EXPECT_EQ(remora_schedule_arena(all.get()), 1092);
  const ScheduleHandle none = placed("1091B");
  EXPECT_EQ(remora_schedule_result(none.get()), REMORA_INFEASIBLE);
  remora_refusal refusal{};
  refusal.size = sizeof refusal;
  ASSERT_EQ(remora_schedule_refusal(none.get(), graph.get(), &refusal), REMORA_OK);
  EXPECT_EQ(refusal.lower_bound, 1092);
  EXPECT_EQ(refusal.enough, 1092);
}

}  // namespace
}  // namespace remora::test
