// SPDX-License-Identifier: Apache-2.0
//
// Many budgets and other orders by the C interface.
#include <vector>

#include "tests/frontends/capi/network.hpp"

namespace remora::test {
namespace {

TEST(CSweeps, SweepsBudgets) {
  const GraphHandle graph = network(16);
  const InstanceHandle instance = under(graph, "100%");
  int sessions = 0;
  remora_callbacks callbacks = callbacks_with(&sessions);
  callbacks.progress = [](void* context, const remora_progress* progress) {
    EXPECT_GT(progress->budget, 0);
    ++*static_cast<int*>(context);
    return 0;
  };
  const std::vector<const char*> budgets{"100%", "75%", "10%"};
  remora_curve* curve = nullptr;
  ASSERT_EQ(remora_sweep(instance.get(), reproducible().get(), budgets.data(), budgets.size(), 0, &callbacks, &curve),
            REMORA_OK)
      << remora_last_error();
  EXPECT_GE(sessions, 3);
  ASSERT_EQ(remora_curve_point_count(curve), 3U);
  EXPECT_EQ(remora_curve_schedule(curve, 3), nullptr);
  EXPECT_EQ(remora_schedule_result(remora_curve_schedule(curve, 0)), REMORA_INFEASIBLE);
  for (std::size_t point = 1; point < 3; ++point) {
    const remora_schedule* const schedule = remora_curve_schedule(curve, point);
    int valid = 0;
    ASSERT_EQ(remora_schedule_verify(schedule, graph.get(), &valid, nullptr), REMORA_OK);
    EXPECT_EQ(valid, 1);
    EXPECT_LE(remora_schedule_peak(schedule), remora_schedule_budget(schedule));
  }
  EXPECT_EQ(remora_schedule_duration(remora_curve_schedule(curve, 2)),
            remora_instance_baseline_duration(instance.get()));
  EXPECT_GT(remora_curve_least_budget(curve), 0);
  EXPECT_GE(remora_curve_knee(curve), -1);
  EXPECT_EQ(remora_curve_write(curve, "/nowhere/curve.json"), REMORA_BAD_INPUT);
  remora_curve_free(curve);
  curve = nullptr;
  ASSERT_EQ(remora_sweep(instance.get(), reproducible().get(), nullptr, 0, 5, nullptr, &curve), REMORA_OK);
  EXPECT_LE(remora_curve_point_count(curve), 5U);
  EXPECT_GE(remora_curve_point_count(curve), 2U);
  remora_curve_free(curve);
  curve = nullptr;
  const std::vector<const char*> wrong{"100%", "much"};
  expect_argument_refused(remora_sweep(instance.get(), nullptr, wrong.data(), 2, 0, nullptr, &curve),
                          "budgets[1]: 'much'");
  expect_argument_refused(remora_sweep(instance.get(), nullptr, nullptr, 2, 0, nullptr, &curve), "budgets: is NULL");
  expect_argument_refused(remora_sweep(instance.get(), nullptr, nullptr, 0, 1, nullptr, &curve), "points: ");
  EXPECT_EQ(curve, nullptr);
}

TEST(CSweeps, FindsAnOrderOfSmallPeak) {
  remora_graph* made = nullptr;
  ASSERT_EQ(remora_graph_parse(kWideFirst.data(), kWideFirst.size(), &made), REMORA_OK);
  const GraphHandle graph(made);
  const InstanceHandle instance = under(graph, "100%");
  remora_ordering* ordering = nullptr;
  ASSERT_EQ(remora_order_ops(instance.get(), reproducible().get(), nullptr, nullptr, &ordering), REMORA_OK);
  EXPECT_EQ(remora_instance_baseline_peak(instance.get()), 201);
  EXPECT_EQ(remora_ordering_peak(ordering), 102);
  EXPECT_EQ(remora_ordering_lower_bound(ordering), 102);
  ASSERT_EQ(remora_ordering_op_count(ordering), 4U);
  EXPECT_EQ(remora_ordering_op(ordering, 4), -1);
  std::vector<std::int32_t> ops;
  for (std::size_t place = 0; place < 4; ++place) ops.push_back(remora_ordering_op(ordering, place));
  remora_ordering_free(ordering);
  ASSERT_EQ(remora_graph_reordered(graph.get(), ops.data(), ops.size(), &made), REMORA_OK);
  const GraphHandle better(made);
  EXPECT_EQ(remora_instance_baseline_peak(under(better, "100%").get()), 102);
  EXPECT_STREQ(remora_graph_op_name(made, 0), remora_graph_op_name(graph.get(), ops[0]));
  made = nullptr;
  const std::vector<std::int32_t> wrong{2, 0, 1, 3};
  expect_argument_refused(remora_graph_reordered(graph.get(), wrong.data(), 4, &made), "ops: ");
  expect_argument_refused(remora_graph_reordered(graph.get(), wrong.data(), 3, &made),
                          "ops: an order has every op once");
  const std::vector<std::int32_t> twice{0, 0, 1, 3};
  expect_argument_refused(remora_graph_reordered(graph.get(), twice.data(), 4, &made),
                          "ops[1]: op 0 ('A') is there twice");
  expect_argument_refused(remora_order_ops(instance.get(), nullptr, "little", nullptr, &ordering), "target: 'little'");
}

}  // namespace
}  // namespace remora::test
