// SPDX-License-Identifier: Apache-2.0
//
// The C interface from inside, so that sanitizers see it; tests/library shows it to C and to Python.
#include <memory>
#include <string>
#include <vector>

#include "tests/frontends/capi/network.hpp"

namespace remora::test {
namespace {

TEST(CInterface, SolvesAGraphBuiltByCalls) {
  const GraphHandle graph = network(16);
  const InstanceHandle instance = under(graph, "75%");
  const ScheduleHandle schedule = solved(instance);
  EXPECT_EQ(remora_schedule_result(schedule.get()), REMORA_OPTIMAL);
  expect_valid(schedule, graph);
  EXPECT_LE(remora_schedule_peak(schedule.get()), remora_instance_budget(instance.get()));
  EXPECT_GT(remora_schedule_duration(schedule.get()), remora_instance_baseline_duration(instance.get()));
  EXPECT_EQ(remora_schedule_lower_bound(schedule.get()), remora_schedule_duration(schedule.get()));
  EXPECT_EQ(remora_schedule_gap(schedule.get()), 0);
  EXPECT_GT(remora_schedule_overhead(schedule.get()), 0);
}

TEST(CInterface, EveryPropertyOfAnOpComesThrough) {
  const GraphHandle graph = network(4);
  ASSERT_EQ(remora_graph_set_fixed_memory(graph.get(), 1000), REMORA_OK);
  ASSERT_EQ(remora_graph_set_op_type(graph.get(), 1, "Conv"), REMORA_OK);
  ASSERT_EQ(remora_graph_set_workspace(graph.get(), 1, 7), REMORA_OK);
  ASSERT_EQ(remora_graph_set_max_computes(graph.get(), 1, 1), REMORA_OK);
  ASSERT_EQ(remora_graph_set_phase(graph.get(), 2, REMORA_PHASE_BACKWARD, 1), REMORA_OK);
  ASSERT_EQ(remora_graph_add_after(graph.get(), 3, 0), REMORA_OK);
  const InstanceHandle instance = under(graph, "100%");
  // f2 reads t1 and writes t2 beside t0, which f3 reads.
  EXPECT_EQ(remora_instance_baseline_peak(instance.get()), 1000 + 300);
  const ScheduleHandle schedule = solved(instance);
  char* text = nullptr;
  ASSERT_EQ(remora_schedule_text(schedule.get(), graph.get(), &text), REMORA_OK);
  remora_schedule* made = nullptr;
  ASSERT_EQ(remora_schedule_parse(graph.get(), text, std::string(text).size(), &made), REMORA_OK);
  const ScheduleHandle parsed(made);
  EXPECT_EQ(ops_of(parsed), ops_of(schedule));
  remora_text_free(text);
  EXPECT_EQ(remora_graph_tensor_size(graph.get(), 2), 100);
  EXPECT_EQ(remora_graph_tensor_keep(graph.get(), 2), 0);
  EXPECT_STREQ(remora_graph_op_type(graph.get(), 1), "Conv");
  EXPECT_EQ(remora_graph_op_duration(graph.get(), 1), 10);
  EXPECT_EQ(remora_graph_op_workspace(graph.get(), 1), 7);
  ASSERT_EQ(remora_graph_op_input_count(graph.get(), 3), 2U);
  EXPECT_EQ(remora_graph_op_input(graph.get(), 3, 1), 0);
  EXPECT_EQ(remora_graph_op_input(graph.get(), 3, 2), -1);
  ASSERT_EQ(remora_graph_op_output_count(graph.get(), 3), 1U);
  EXPECT_EQ(remora_graph_op_output(graph.get(), 3, 0), 3);
  EXPECT_EQ(remora_graph_tensor_size(graph.get(), 4), -1);
  EXPECT_EQ(remora_graph_find_op(graph.get(), "f2"), 2);
  EXPECT_EQ(remora_graph_find_tensor(graph.get(), "t3"), 3);
  EXPECT_EQ(remora_graph_find_op(graph.get(), "nobody"), -1);
  EXPECT_STREQ(remora_graph_op_name(graph.get(), 3), "f3");
  EXPECT_EQ(remora_graph_op_name(graph.get(), 4), nullptr);
}

TEST(CInterface, AnOutputMayTakeOverAnInputsStorage) {
  const GraphHandle graph = network(2);
  remora_schedule* schedule = nullptr;
  EXPECT_EQ(remora_graph_add_in_place(graph.get(), 1, 0, 1), REMORA_BAD_INPUT);  // the wrong way round
  EXPECT_EQ(remora_graph_add_in_place(graph.get(), 1, 7, 0), REMORA_BAD_INPUT);
  const GraphHandle sound = network(2);
  EXPECT_EQ(remora_graph_add_in_place(sound.get(), 1, 1, 0), REMORA_OK);
  EXPECT_EQ(remora_graph_set_recompute_allocates_all(sound.get(), 1), REMORA_OK);
  const InstanceHandle tight = under(sound, "100");
  ASSERT_EQ(remora_solve(tight.get(), reproducible().get(), nullptr, nullptr, &schedule), REMORA_OK);
  const ScheduleHandle found(schedule);
  EXPECT_EQ(remora_schedule_result(schedule), REMORA_OPTIMAL);
  EXPECT_EQ(remora_schedule_peak(schedule), 100);
  expect_valid(found, sound);
}

TEST(CInterface, OpsMayHaveSeveralModes) {
  const GraphHandle graph = network(4);
  const std::int64_t half = 50;
  std::int32_t mode = 0;
  // f3 reads t2 and t0; by its other mode not t0, so that this need not stay.
  ASSERT_EQ(remora_graph_add_mode(graph.get(), 3, 13, 0, &half, 1, &mode), REMORA_OK);
  EXPECT_EQ(mode, 1);
  ASSERT_EQ(remora_graph_add_unread(graph.get(), 3, 1, 0), REMORA_OK);
  EXPECT_EQ(remora_graph_add_mode(graph.get(), 3, 13, 0, &half, 0, &mode), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_graph_add_mode(graph.get(), 3, -1, 0, &half, 1, &mode), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_graph_add_unread(graph.get(), 3, 2, 0), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_graph_add_unread(graph.get(), 3, 1, 3), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_graph_set_follows(graph.get(), 3, 2), REMORA_BAD_INPUT);  // f2 has one mode
  const InstanceHandle instance = under(graph, "200");
  const ScheduleHandle schedule = solved(instance);
  ASSERT_EQ(remora_schedule_result(schedule.get()), REMORA_OPTIMAL);
  expect_valid(schedule, graph);
  EXPECT_EQ(remora_schedule_duration(schedule.get()), 43);
  ASSERT_EQ(remora_schedule_step_count(schedule.get()), 4U);
  EXPECT_EQ(remora_schedule_step_mode(schedule.get(), 2), 0);
  EXPECT_EQ(remora_schedule_step_mode(schedule.get(), 3), 1);
  EXPECT_EQ(remora_schedule_step_mode(schedule.get(), 4), -1);
  ASSERT_EQ(remora_graph_add_mode(graph.get(), 2, 10, 0, &half, 1, nullptr), REMORA_OK);
  EXPECT_EQ(remora_graph_set_follows(graph.get(), 3, 2), REMORA_OK);
}

TEST(CInterface, ASequenceOfOnesOwnIsEvaluated) {
  const GraphHandle graph = network(8);
  const ScheduleHandle solution = solved(under(graph, "80%"));
  const std::vector<std::int32_t> ops = ops_of(solution);
  remora_schedule* made = nullptr;
  ASSERT_EQ(remora_schedule_of_sequence(under(graph, "80%").get(), ops.data(), ops.size(), &made), REMORA_OK);
  const ScheduleHandle same(made);
  EXPECT_EQ(remora_schedule_result(same.get()), REMORA_FEASIBLE);
  EXPECT_EQ(remora_schedule_duration(same.get()), remora_schedule_duration(solution.get()));
  EXPECT_EQ(remora_schedule_peak(same.get()), remora_schedule_peak(solution.get()));
  expect_valid(same, graph);

  ASSERT_EQ(remora_schedule_of_sequence(under(graph, "300").get(), ops.data(), ops.size(), &made), REMORA_OK);
  const ScheduleHandle above(made);
  EXPECT_EQ(remora_schedule_result(above.get()), REMORA_UNKNOWN);
  EXPECT_EQ(remora_schedule_step_count(above.get()), 0U);

  for (const std::vector<std::int32_t>& wrong : std::vector<std::vector<std::int32_t>>{
           {}, {1, 0}, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5, 6, 9}, {0, 0, 0, 1, 2, 3, 4, 5, 6, 7}}) {
    made = nullptr;
    EXPECT_EQ(remora_schedule_of_sequence(under(graph, "80%").get(), wrong.data(), wrong.size(), &made),
              REMORA_BAD_INPUT);
    EXPECT_EQ(made, nullptr);
    EXPECT_STRNE(remora_last_error(), "");
  }
}

struct Seen {
  std::vector<std::int64_t> incumbents{};
  int progress = 0;
  bool ends = false;
  ScheduleHandle kept{};
};

TEST(CInterface, CallbacksAreToldAndMayEndTheSearch) {
  const GraphHandle graph = network(40);
  for (const bool ends : {false, true}) {
    Seen seen{.ends = ends};
    remora_callbacks callbacks = callbacks_with(&seen);
    callbacks.progress = [](void* context, const remora_progress* progress) {
      auto& mine = *static_cast<Seen*>(context);
      ++mine.progress;
      EXPECT_NE(progress->source, nullptr);
      EXPECT_EQ(progress->size, sizeof(remora_progress));
      EXPECT_GT(progress->budget, 0);
      EXPECT_NE(progress->event, REMORA_EVENT_ROUND);
      return mine.ends && mine.progress == 2 ? 1 : 0;
    };
    callbacks.incumbent = [](void* context, const remora_schedule* schedule) {
      auto& mine = *static_cast<Seen*>(context);
      mine.incumbents.push_back(remora_schedule_duration(schedule));
      remora_schedule* copy = nullptr;
      EXPECT_EQ(remora_schedule_copy(schedule, &copy), REMORA_OK);
      mine.kept.reset(copy);
    };
    const ScheduleHandle schedule = solved(under(graph, "60%"), &callbacks);
    if (ends) {
      EXPECT_EQ(seen.progress, 2) << "not called again";
    } else {
      ASSERT_FALSE(seen.incumbents.empty());
      EXPECT_EQ(seen.incumbents.back(), remora_schedule_duration(schedule.get()));
      EXPECT_EQ(ops_of(seen.kept), ops_of(schedule));
      expect_valid(seen.kept, graph);
    }
    EXPECT_TRUE(ends || remora_schedule_result(schedule.get()) <= REMORA_FEASIBLE);
  }
}

TEST(CInterface, AStopServesSolvesAtOnceAndLater) {
  const GraphHandle graph = network(40);
  remora_stop* made = nullptr;
  ASSERT_EQ(remora_stop_new(&made), REMORA_OK);
  const StopHandle stop(made);
  remora_callbacks callbacks = callbacks_with(nullptr);
  callbacks.stop = stop.get();
  remora_stop_request(stop.get());
  EXPECT_NE(solved(under(graph, "60%"), &callbacks), nullptr);
  remora_stop_reset(stop.get());
  EXPECT_LE(remora_schedule_result(solved(under(graph, "60%"), &callbacks).get()), REMORA_FEASIBLE);
}

TEST(CInterface, OptionsAreReadAsTheyAreSet) {
  const OptionsHandle options = reproducible();
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"strategy", "cp"}, {"time-limit", "2.5"}, {"time_limit", "3.5"}, {"without", "benders"}}) {
    ASSERT_EQ(remora_options_set(options.get(), name, value), REMORA_OK);
    char* text = nullptr;
    ASSERT_EQ(remora_options_get(options.get(), name, &text), REMORA_OK);
    EXPECT_STREQ(text, value);
    remora_text_free(text);
  }
  EXPECT_EQ(remora_options_set(options.get(), "threads", "-3"), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_options_set(options.get(), "colour", "blue"), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_options_set(options.get(), "strategy", "magic"), REMORA_BAD_INPUT);
  EXPECT_EQ(remora_options_set(options.get(), "benders", "off"), REMORA_BAD_INPUT);
  char* text = nullptr;
  EXPECT_EQ(remora_options_get(options.get(), "colour", &text), REMORA_BAD_INPUT);
  ASSERT_EQ(remora_options_get(options.get(), "threads", &text), REMORA_OK);
  EXPECT_STREQ(text, "1") << "a refused value must change nothing";
  remora_text_free(text);
}

TEST(CInterface, AHeartbeatComesEveryRoundAndMayEndTheSearch) {
  const GraphHandle graph = network(40);
  int beats = 0;
  remora_callbacks callbacks = callbacks_with(&beats);
  callbacks.heartbeat = [](void* context, const remora_progress* progress) {
    EXPECT_GE(progress->work, 0);
    return ++*static_cast<int*>(context) == 1 ? 1 : 0;
  };
  EXPECT_NE(solved(under(graph, "60%"), &callbacks), nullptr);
  EXPECT_LE(beats, 1) << "not called again";
}

TEST(CInterface, TheOrderIsFreedIfAskedToOrIfThatHelps) {
  remora_graph* made = nullptr;
  ASSERT_EQ(remora_graph_parse(kWideFirst.data(), kWideFirst.size(), &made), REMORA_OK);
  const GraphHandle graph(made);
  const OptionsHandle options = reproducible();
  for (const remora_order order : {REMORA_ORDER_INPUT, REMORA_ORDER_FREE, REMORA_ORDER_AUTO}) {
    remora_instance* stated = nullptr;
    ASSERT_EQ(remora_instance_new(graph.get(), "60%", 2, order, &stated), REMORA_OK) << remora_last_error();
    const InstanceHandle instance(stated);
    remora_schedule* answer = nullptr;
    ASSERT_EQ(remora_solve(instance.get(), options.get(), nullptr, nullptr, &answer), REMORA_OK);
    const ScheduleHandle schedule(answer);
    EXPECT_EQ(remora_schedule_result(schedule.get()), REMORA_OPTIMAL);
    // In input order both wide tensors are computed again.
    EXPECT_EQ(remora_schedule_duration(schedule.get()), order == REMORA_ORDER_INPUT ? 30 : 20);
  }
}

TEST(CInterface, LeavesTheComputesToTheEngine) {
  const GraphHandle graph = network(40);
  const OptionsHandle options = reproducible();
  const auto solved_with = [&](std::int32_t computes) {
    remora_instance* stated = nullptr;
    EXPECT_EQ(remora_instance_new(graph.get(), "25%", computes, REMORA_ORDER_INPUT, &stated), REMORA_OK);
    const InstanceHandle instance(stated);
    remora_schedule* answer = nullptr;
    EXPECT_EQ(remora_solve(instance.get(), options.get(), nullptr, nullptr, &answer), REMORA_OK);
    return ScheduleHandle(answer);
  };
  EXPECT_GE(remora_schedule_result(solved_with(2).get()), REMORA_INFEASIBLE);
  const ScheduleHandle schedule = solved_with(0);
  EXPECT_LE(remora_schedule_result(schedule.get()), REMORA_FEASIBLE);
  expect_valid(schedule, graph);
}

TEST(CInterface, HandlesThatAreNoneAnswerNothing) {
  EXPECT_EQ(remora_curve_point_count(nullptr), 0U);
  EXPECT_EQ(remora_curve_schedule(nullptr, 0), nullptr);
  EXPECT_EQ(remora_curve_knee(nullptr), -1);
  EXPECT_EQ(remora_ordering_op(nullptr, 0), -1);
  EXPECT_EQ(remora_graph_op_count(nullptr), 0);
  EXPECT_EQ(remora_graph_tensor_name(nullptr, 0), nullptr);
  EXPECT_EQ(remora_instance_baseline_peak(nullptr), 0);
  EXPECT_EQ(remora_schedule_result(nullptr), REMORA_UNKNOWN);
  EXPECT_EQ(remora_schedule_step_op(nullptr, 0), -1);
  EXPECT_EQ(remora_schedule_step_release(nullptr, 0, 0), -1);
  EXPECT_EQ(remora_schedule_gap(nullptr), 1);
  remora_stop_request(nullptr);
}

TEST(CInterface, GivesAddresses) {
  const GraphHandle graph = network(12);
  const InstanceHandle instance = under(graph, "80%");
  remora_schedule* made = nullptr;
  ASSERT_EQ(remora_solve_with_addresses(instance.get(), reproducible().get(), 4, nullptr, nullptr, &made), REMORA_OK)
      << remora_last_error();
  const ScheduleHandle schedule(made);
  expect_valid(schedule, graph);
  EXPECT_GT(remora_schedule_arena(made), 0);
  EXPECT_LE(remora_schedule_arena(made), remora_instance_budget(instance.get()));
  EXPECT_EQ(remora_schedule_offset(made, 0, remora_schedule_step_op(made, 0)) % 4, 0);
  EXPECT_EQ(remora_schedule_offset(made, 0, 11), -1);
  EXPECT_EQ(remora_schedule_offset(made, 1000, 0), -1);
  EXPECT_EQ(remora_schedule_workspace_offset(made, 0), -1);
  EXPECT_EQ(remora_schedule_input_offset(made, 0), -1);
  char* text = nullptr;
  ASSERT_EQ(remora_schedule_text(made, graph.get(), &text), REMORA_OK);
  EXPECT_NE(std::string(text).find("\"version\": 2"), std::string::npos);
  remora_text_free(text);
  const ScheduleHandle plain = solved(instance);
  EXPECT_EQ(remora_schedule_arena(plain.get()), -1);
  EXPECT_EQ(remora_schedule_arena(nullptr), -1);
  EXPECT_EQ(remora_solve_with_addresses(instance.get(), nullptr, 0, nullptr, nullptr, &made), REMORA_BAD_INPUT);
}

TEST(CInterface, PlacesBuffers) {
  // c lies where a was; d has a gap where b needs the room; e must lie at 8.
  const int64_t gap[] = {1, 3};
  const remora_buffer buffers[] = {{0, 2, 4, 1, -1, nullptr, 0},
                                   {1, 3, 4, 4, -1, nullptr, 0},
                                   {2, 4, 4, 1, -1, nullptr, 0},
                                   {0, 4, 4, 1, -1, gap, 1},
                                   {0, 4, 2, 1, 8, nullptr, 0}};
  remora_result result = REMORA_UNKNOWN;
  int64_t offsets[5];
  int64_t arena = 0;
  int64_t bound = 0;
  ASSERT_EQ(remora_place(buffers, 5, -1, nullptr, nullptr, &result, offsets, &arena, &bound), REMORA_OK)
      << remora_last_error();
  EXPECT_EQ(result, REMORA_OPTIMAL);
  EXPECT_EQ(arena, 10);
  EXPECT_EQ(bound, 10);
  EXPECT_EQ(offsets[4], 8);
  EXPECT_EQ(offsets[1] % 4, 0);
  EXPECT_NE(offsets[0], offsets[1]);
  EXPECT_NE(offsets[0], offsets[3]);
  ASSERT_EQ(remora_place(buffers, 5, 9, nullptr, nullptr, &result, offsets, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(result, REMORA_INFEASIBLE);
  ASSERT_EQ(remora_place(buffers, 5, 10, nullptr, nullptr, &result, nullptr, nullptr, nullptr), REMORA_OK);
  EXPECT_EQ(result, REMORA_OPTIMAL);
  ASSERT_EQ(remora_place(nullptr, 0, -1, nullptr, nullptr, nullptr, nullptr, &arena, nullptr), REMORA_OK);
  EXPECT_EQ(arena, 0);
  EXPECT_EQ(remora_place(nullptr, 1, -1, nullptr, nullptr, &result, offsets, &arena, &bound), REMORA_BAD_INPUT);
  const remora_buffer wrong = {0, 2, 4, 0, -1, nullptr, 0};
  EXPECT_EQ(remora_place(&wrong, 1, -1, nullptr, nullptr, &result, offsets, &arena, &bound), REMORA_BAD_INPUT);
  EXPECT_NE(std::string(remora_last_error()).find("buffers[0]"), std::string::npos) << remora_last_error();
}

TEST(CInterface, PlacesASchedule) {
  const GraphHandle graph = network(12);
  const InstanceHandle instance = under(graph, "80%");
  const ScheduleHandle plain = solved(instance);
  remora_result result = REMORA_UNKNOWN;
  int64_t arena = 0;
  remora_schedule* made = nullptr;
  ASSERT_EQ(remora_schedule_place(plain.get(), graph.get(), 1, nullptr, nullptr, &result, &arena, nullptr, &made),
            REMORA_OK)
      << remora_last_error();
  const ScheduleHandle placed(made);
  EXPECT_EQ(result, REMORA_OPTIMAL);
  EXPECT_EQ(remora_schedule_arena(made), arena <= remora_instance_budget(instance.get()) ? arena : -1);
  expect_valid(placed, graph);
  // At multiples of a quarter of the budget hardly anything fits beside another.
  ASSERT_EQ(remora_schedule_place(plain.get(), graph.get(), remora_instance_budget(instance.get()) / 4 + 1, nullptr,
                                  nullptr, nullptr, &arena, nullptr, &made),
            REMORA_OK);
  const ScheduleHandle apart(made);
  EXPECT_GT(arena, remora_instance_budget(instance.get()));
  EXPECT_EQ(remora_schedule_arena(made), -1);
  EXPECT_EQ(remora_schedule_place(plain.get(), graph.get(), 0, nullptr, nullptr, nullptr, nullptr, nullptr, &made),
            REMORA_BAD_INPUT);
  EXPECT_EQ(remora_schedule_place(nullptr, graph.get(), 1, nullptr, nullptr, nullptr, nullptr, nullptr, &made),
            REMORA_BAD_INPUT);
}

}  // namespace
}  // namespace remora::test
