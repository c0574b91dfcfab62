// SPDX-License-Identifier: Apache-2.0
//
// Handles that free themselves, a graph to solve, and what errors must be like.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/capi/remora.h"

namespace remora::test {

template <auto free>
struct Free {
  template <class Handle>
  void operator()(Handle* handle) const {
    free(handle);
  }
};
using GraphHandle = std::unique_ptr<remora_graph, Free<remora_graph_free>>;
using InstanceHandle = std::unique_ptr<remora_instance, Free<remora_instance_free>>;
using OptionsHandle = std::unique_ptr<remora_options, Free<remora_options_free>>;
using ScheduleHandle = std::unique_ptr<remora_schedule, Free<remora_schedule_free>>;
using StopHandle = std::unique_ptr<remora_stop, Free<remora_stop_free>>;

/// A layer a tensor, the second half reading the first one's tensors in reverse order.
inline GraphHandle network(int layers) {
  remora_graph* made = nullptr;
  EXPECT_EQ(remora_graph_new("network", &made), REMORA_OK);
  GraphHandle graph(made);
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const std::string number = std::to_string(layer);
    std::int32_t tensor = -1;
    EXPECT_EQ(remora_graph_add_tensor(made, ("t" + number).c_str(), 100, 0, &tensor), REMORA_OK);
    EXPECT_EQ(tensor, layer);
    std::vector<std::int32_t> inputs;
    if (layer > 0) inputs.push_back(layer - 1);
    if (layer > layers / 2) inputs.push_back(layers - 1 - layer);
    std::int32_t op = -1;
    EXPECT_EQ(remora_graph_add_op(made, ("f" + number).c_str(), 10, inputs.data(), inputs.size(), &tensor, 1, &op),
              REMORA_OK);
    EXPECT_EQ(op, layer);
  }
  return graph;
}

inline InstanceHandle under(const GraphHandle& graph, const char* budget) {
  remora_instance* instance = nullptr;
  EXPECT_EQ(remora_instance_new(graph.get(), budget, 2, REMORA_ORDER_INPUT, &instance), REMORA_OK)
      << remora_last_error();
  return InstanceHandle(instance);
}

inline OptionsHandle reproducible() {
  remora_options* options = nullptr;
  EXPECT_EQ(remora_options_new(&options), REMORA_OK);
  EXPECT_EQ(remora_options_set(options, "work-limit", "5000"), REMORA_OK);
  EXPECT_EQ(remora_options_set(options, "threads", "1"), REMORA_OK);
  return OptionsHandle(options);
}

/// Nothing but the context, and the size.
inline remora_callbacks callbacks_with(void* context) {
  remora_callbacks callbacks{};
  callbacks.size = sizeof callbacks;
  callbacks.context = context;
  return callbacks;
}

inline ScheduleHandle solved(const InstanceHandle& instance, const remora_callbacks* callbacks = nullptr) {
  remora_schedule* schedule = nullptr;
  EXPECT_EQ(remora_solve(instance.get(), reproducible().get(), callbacks, nullptr, &schedule), REMORA_OK);
  return ScheduleHandle(schedule);
}

inline void expect_valid(const ScheduleHandle& schedule, const GraphHandle& graph) {
  int valid = 0;
  char* errors = nullptr;
  ASSERT_EQ(remora_schedule_verify(schedule.get(), graph.get(), &valid, &errors), REMORA_OK);
  EXPECT_EQ(valid, 1) << errors;
  EXPECT_EQ(errors, nullptr);
}

inline std::vector<std::int32_t> ops_of(const ScheduleHandle& schedule) {
  std::vector<std::int32_t> ops;
  for (std::size_t step = 0; step < remora_schedule_step_count(schedule.get()); ++step) {
    ops.push_back(remora_schedule_step_op(schedule.get(), step));
  }
  return ops;
}

/// Two wide tensors before what is left of each: one after the other needs half the memory.
inline constexpr std::string_view kWideFirst = R"({"format": "remora-graph", "version": 1, "name": "wide-first",
 "tensors": [{"name": "a", "size": 100}, {"name": "b", "size": 100}, {"name": "c", "size": 1, "keep": true},
             {"name": "d", "size": 1, "keep": true}],
 "ops": [{"name": "A", "duration": 5, "inputs": [], "outputs": ["a"]},
         {"name": "B", "duration": 5, "inputs": [], "outputs": ["b"]},
         {"name": "C", "duration": 5, "inputs": ["a"], "outputs": ["c"]},
         {"name": "D", "duration": 5, "inputs": ["b"], "outputs": ["d"]}]})";

inline void expect_refused(remora_status status, const char* words) {
  EXPECT_EQ(status, REMORA_BAD_INPUT) << words;
  const std::string error = remora_last_error();
  EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

/// The same, in words of this interface: the argument first, no JSON path and no flag of the command line.
inline void expect_argument_refused(remora_status status, const std::string& words) {
  expect_refused(status, words.c_str());
  const std::string error = remora_last_error();
  EXPECT_TRUE(error.starts_with(words)) << error;
  EXPECT_EQ(error.find("$."), std::string::npos) << error;
  EXPECT_EQ(error.find("--"), std::string::npos) << error;
}

}  // namespace remora::test
