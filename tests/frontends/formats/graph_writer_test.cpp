// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/json.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

TEST(WriteGraph, PutsATensorAndAnOpALine) {
  EXPECT_EQ(written(read_graph(Text(kEveryKey))), R"({
  "format": "remora-graph",
  "version": 1,
  "name": "every key",
  "fixed_memory": 7,
  "tensors": [
    {"name": "x", "size": 5},
    {"name": "h", "size": 6, "shape": [2,3]},
    {"name": "gh", "size": 8, "keep": true}
  ],
  "ops": [
    {"name": "f", "type": "Relu", "duration": 11, "workspace": 12, "inputs": ["x"], "outputs": ["h"], "max_computes": 3, "phase": "forward"},
    {"name": "g", "duration": 13, "inputs": ["h", "h"], "outputs": ["gh"], "recompute": "never", "phase": "backward", "backward_of": "f", "after": ["f"], "z_note": {"k":[1,2.5,null]}, "a_note": "é"}
  ],
  "meta": {"source":"by hand","duration_unit":"ns"},
  "later": {"than":"version 1"}
}
)");
}

TEST(WriteGraph, IsUndoneByReading) {
  for (const std::string_view text : {kFigure1, kEveryKey}) {
    const Graph graph = read_graph(Text(text));
    const std::string once = written(graph);
    EXPECT_EQ(read_graph(Text(once)), graph);
    EXPECT_EQ(written(read_graph(Text(once))), once);
  }
}

TEST(WriteGraph, WritesAnEmptyGraph) {
  const Graph graph{.name = "none"};
  EXPECT_EQ(read_graph(Text(written(graph))), graph);
}

TEST(WriteGraph, EscapesNames) {
  Graph graph;
  const std::string name =
      std::string("quote \" backslash \\ newline \n tab \t bell \a zero ") + '\0' + " é 漢 😀 \x7f/";
  const TensorId tensor = graph.add_tensor(name, Bytes(1));
  graph.add_op({.name = name, .outputs = {tensor}});
  EXPECT_EQ(read_graph(Text(written(graph))), graph);
}

TEST(WriteGraph, RefusesNamesThatAreNotUtf8) {
  for (const char* const name :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "a\x80"}) {
    Graph graph;
    graph.add_tensor(name, Bytes(1));
    const Fault fault = fault_of([&] { static_cast<void>(written(graph)); });
    EXPECT_EQ(fault.place, "$.tensors[0]");
    EXPECT_NE(fault.what.find("is not UTF-8"), std::string::npos) << fault.what;
  }
}

TEST(WriteGraph, RefusesTextsThatAreNoObject) {
  Graph graph = read_graph(Text(kFigure1));
  graph.meta = "[1]";
  EXPECT_EQ(fault_of([&] { static_cast<void>(written(graph)); }).place, "$.meta");
  graph.meta.clear();
  graph.ops[3].extra = "{\"note\": ";
  EXPECT_EQ(fault_of([&] { static_cast<void>(written(graph)); }).place, "$.ops[3]");
  graph.ops[3].extra = R"({"duration": 4})";
  EXPECT_NE(fault_of([&] { static_cast<void>(written(graph)); }).what.find("\"duration\""), std::string::npos);
}

TEST(WriteGraph, WritesTheSecondVersionWhereItIsNeeded) {
  Graph graph = read_graph(Text(kFigure1));
  EXPECT_NE(written(graph).find(R"("version": 1)"), std::string::npos);
  graph.ops[1].in_place = {{TensorId(1), TensorId(0)}};
  const std::string text = written(graph);
  EXPECT_NE(text.find(R"("version": 2)"), std::string::npos);
  EXPECT_NE(text.find(R"("in_place": [["b", "a"]])"), std::string::npos);
  graph.ops[2].extra = R"({"in_place": 3})";
  EXPECT_EQ(fault_of([&] { static_cast<void>(written(graph)); }).place, "$.ops[2]");
}

TEST(WriteGraph, WritesTheFourthVersionForAxes) {
  Graph graph = read_graph(Text(kFigure1));
  graph.tensors[0].size = Bytes(8);
  graph.tensors[1].size = Bytes(16);
  const Axis axis{4,
                  {{.tensor = TensorId(0), .rows = 4, .stride = Bytes(2)},
                   {.tensor = TensorId(1), .rows = 8, .stride = Bytes(1), .step = 2, .length = 2}},
                  {}};
  graph.ops[1].workspace = Bytes(5);
  graph.ops[1].axes = {axis, {1, {}, {TensorId(1)}, Bytes(5)}};
  const std::string text = written(graph);
  EXPECT_NE(text.find(R"("version": 4)"), std::string::npos);
  EXPECT_NE(text.find(R"("axes": [{"extent": 4, "cut": [{"tensor": "a"}, {"tensor": "b", "stride": 1, "step": 2}]}, )"
                      R"({"extent": 1, "sum": ["b"], "workspace": 5}])"),
            std::string::npos)
      << text;
  EXPECT_EQ(read_graph(Text(text)), graph);
  graph.ops[2].extra = R"({"axes": 3})";
  EXPECT_EQ(fault_of([&] { static_cast<void>(written(graph)); }).place, "$.ops[2]");
}

TEST(WriteGraph, RefusesAnInvalidGraph) {
  Graph graph = read_graph(Text(kFigure1));
  graph.ops[2].inputs[0] = TensorId(99);
  EXPECT_EQ(fault_of([&] { static_cast<void>(written(graph)); }).place, "ops[2].inputs[0]");
}

}  // namespace
}  // namespace remora::json
