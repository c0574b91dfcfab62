// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/interchange.hpp"
#include "model/error.hpp"
#include "tests/support/refusal.hpp"

namespace remora::interchange {
namespace {

/// forward a -> b, and a way back from b through a.
Graph training_graph() {
  Graph graph{.name = "training"};
  const TensorId a = graph.add_tensor("a_out", Bytes(8));
  const TensorId b = graph.add_tensor("b_out", Bytes(8));
  const TensorId back = graph.add_tensor("back_out", Bytes(8));
  const OpId first = graph.add_op({.name = "a", .duration = Duration(10), .outputs = {a}});
  graph.add_op({.name = "b", .duration = Duration(20), .inputs = {a}, .outputs = {b}});
  graph.add_op({.name = "back", .duration = Duration(30), .inputs = {b, a}, .outputs = {back}, .backward_of = first});
  return graph;
}

double three(OpId, OpId) {
  return 3;
}

std::string refusal(const std::string& text) {
  return remora::test::refusal_of(
      [&] {
        Graph graph = training_graph();
        const CostTable table = read_costs(text, "costs.csv");
        apply_costs(graph, table, cost_names(graph), three);
      },
      "accepted");
}

TEST(CostTable, GivesOpsWhatWasMeasured) {
  Graph graph = training_graph();
  const CostTable table =
      read_costs("name,device,duration,workspace,energy\r\na,cpu,100,7,\n\nb_out,cpu,50,,12\n", "costs.csv");
  EXPECT_EQ(table.device, "cpu");
  const std::string said = apply_costs(graph, table, cost_names(graph), three);
  EXPECT_EQ(said, "durations of 2 of 3 ops by costs.csv, 1 of backward ops scaled from them, 0 as without it");
  EXPECT_EQ(graph.ops[0].duration, Duration(100));
  EXPECT_EQ(graph.ops[0].workspace, Bytes(7));
  EXPECT_EQ(graph.ops[1].duration, Duration(50));
  EXPECT_EQ(graph.ops[1].extra, R"({"energy":12})");
  EXPECT_EQ(graph.ops[2].duration, Duration(300));
  EXPECT_EQ(graph.meta, R"({"costs":"costs.csv"})");
}

TEST(CostTable, LeavesWhatItDoesNotCoverAlone) {
  Graph graph = training_graph();
  const CostTable table = read_costs("duration,name\n,a\n5,back\n", "costs.csv");
  EXPECT_EQ(apply_costs(graph, table, cost_names(graph), three),
            "durations of 1 of 3 ops by costs.csv, 0 of backward ops scaled from them, 2 as without it");
  EXPECT_EQ(graph.ops[0].duration, Duration(10));
  EXPECT_EQ(graph.ops[2].duration, Duration(5));
}

TEST(CostTable, ReadsQuotedNames) {
  const CostTable table = read_costs("name,duration\n\"a,\"\"b\"\"\nc\",1\nd,2\n", "costs.csv");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].name, "a,\"b\"\nc");
  EXPECT_EQ(table.rows[1].line, 4);
}

TEST(CostTable, NamesThatStandForNoOpAreNoCosts) {
  Graph graph = training_graph();
  CostNames names = cost_names(graph);
  names.emplace("view", OpId());
  apply_costs(graph, read_costs("name,duration\nview,1\n", "costs.csv"), names, three);
  EXPECT_EQ(graph.ops, training_graph().ops);
}

TEST(CostTable, RefusesWithTheLine) {
  EXPECT_EQ(refusal("name,duration\na,1\nnothing,2\n"), R"(costs.csv: line 3: there is no op or node "nothing")");
  EXPECT_EQ(refusal("name,duration\na,1\na_out,2\n"), R"(costs.csv: line 3: "a_out" is the op of line 2)");
  EXPECT_EQ(refusal("name,duration\na,1\na,2\n"), R"(costs.csv: line 3: the name "a" is there twice)");
  EXPECT_EQ(refusal("name,duration\na,1.5\n"),
            R"(costs.csv: line 2: duration must be a whole number from 0, not "1.5")");
  EXPECT_EQ(refusal("name,duration\na,-1\n"), R"(costs.csv: line 2: duration must be a whole number from 0, not "-1")");
  EXPECT_EQ(refusal("name,duration\na\n"), "costs.csv: line 2: has 1 fields, not 2");
  EXPECT_EQ(refusal("name,device,duration\na,cpu,1\nb,gpu,1\n"),
            R"(costs.csv: line 3: is of device "gpu", the rows before of "cpu")");
  EXPECT_EQ(refusal("op,time\na,1\n"),
            "costs.csv: line 1: a table of costs begins with name,device,duration,workspace,energy");
  EXPECT_EQ(refusal(""), "costs.csv: the table of costs is empty");
  EXPECT_EQ(refusal("name,duration\n\"a,1\n"), "costs.csv: line 2: a quoted field has no end");
  EXPECT_EQ(refusal("name,duration\na,9223372036854775807\n").substr(0, 16), "ops[0].duration:");
}

}  // namespace
}  // namespace remora::interchange
