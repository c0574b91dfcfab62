// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "model/error.hpp"

namespace remora::interchange {
namespace {

constexpr const char* kCheckmate = R"({"directed": true, "graph": {"name": "two"}, "nodes": [
  {"id": 0, "name": "conv", "backward": false, "cost_cpu": 7, "cost_ram": 100},
  {"id": 1, "name": "conv", "backward": true, "cost_cpu": 14, "cost_ram": 60}],
  "links": [{"source": 0, "target": 1}, {"source": 0, "target": 1}]})";

constexpr const char* kLayered = R"({"graph": {"order": [0, 9, 4]}, "nodes": [
  {"name": 0, "duration": 1, "out_cost": 10}, {"name": 4, "duration": 2, "out_cost": 20},
  {"name": 9, "duration": 3, "out_cost": 30}],
  "links": [{"0": 9, "1": 4}, {"0": 0, "1": 4}, {"0": 0, "1": 9}]})";

TEST(NodeLink, ReadsCheckmatesDialect) {
  EXPECT_TRUE(looks_like_node_link(kCheckmate));
  const Graph graph = read_node_link(kCheckmate).graph;
  EXPECT_EQ(graph.name, "two");
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[0].name, "conv#0");
  EXPECT_EQ(graph.ops[0].phase, Phase::forward);
  EXPECT_EQ(graph.ops[1].name, "conv#1");
  EXPECT_EQ(graph.ops[1].phase, Phase::backward);
  EXPECT_EQ(graph.ops[1].duration, Duration(14));
  EXPECT_EQ(graph.ops[1].inputs, std::vector<TensorId>{TensorId(0)});
  EXPECT_EQ(graph.tensors[1].size, Bytes(60));
}

TEST(NodeLink, ReadsTheLayeredDialectInItsOrder) {
  const Graph graph = read_node_link(kLayered).graph;
  ASSERT_EQ(graph.ops.size(), 3U);
  EXPECT_EQ(graph.ops[1].name, "9#1");
  EXPECT_EQ(graph.ops[1].duration, Duration(3));
  EXPECT_EQ(graph.ops[2].name, "4#2");
  EXPECT_EQ(graph.ops[2].inputs, (std::vector<TensorId>{TensorId(0), TensorId(1)}));
  EXPECT_EQ(graph.ops[2].phase, Phase::none);
}

/// As networkx writes a graph of two nodes with edge b -> a: 3.6 calls the list of links `key` "edges", 3.3 "links".
std::string networkx(const std::string& key, const std::string& duration, const std::string& size) {
  return R"({"directed": true, "multigraph": false, "graph": {}, "nodes": [{")" + duration + R"(": 3, ")" + size +
         R"(": 64.0, "id": "a"}, {")" + duration + R"(": 5, ")" + size + R"(": 32, "id": "b"}], ")" + key +
         R"(": [{"source": "b", "target": "a"}]})";
}

TEST(NodeLink, ReadsWhatNetworkxWritesByCommonNames) {
  for (const std::string links : {"links", "edges"}) {
    for (const std::string duration : {"duration", "time", "cost", "cost_cpu"}) {
      for (const std::string size : {"size", "memory", "bytes", "cost_ram", "out_cost"}) {
        const NodeLinkGraph read = read_node_link(networkx(links, duration, size));
        ASSERT_EQ(read.graph.ops.size(), 2U);
        // The nodes are listed in an order that cannot run.
        EXPECT_EQ(read.graph.ops[0].name, "b#0");
        EXPECT_EQ(read.graph.ops[0].duration, Duration(5));
        EXPECT_EQ(read.graph.tensors[0].size, Bytes(32));
        EXPECT_EQ(read.graph.ops[1].name, "a#1");
        EXPECT_EQ(read.graph.ops[1].inputs, std::vector<TensorId>{TensorId(0)});
        EXPECT_EQ(read.graph.tensors[1].size, Bytes(64));
        EXPECT_EQ(read.taken, "node-link: durations are \"" + duration + "\", sizes of outputs \"" + size +
                                  "\", names \"id\", links \"" + links + "\"");
      }
    }
  }
}

TEST(NodeLink, TakesTuplesAsIds) {
  const Graph graph = read_node_link(R"({"directed": true, "nodes": [{"id": ["a", 0], "time": 3, "memory": 64},
      {"id": ["a", 1], "time": 5, "memory": 32}], "edges": [{"source": ["a", 0], "target": ["a", 1]}]})")
                          .graph;
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.ops[0].name, "[\"a\",0]#0");
  EXPECT_EQ(graph.ops[1].inputs, std::vector{graph.ops[0].outputs[0]});
}

TEST(NodeLink, SaysWhatWasNotTaken) {
  const NodeLinkGraph read = read_node_link(
      R"({"nodes": [{"id": 1, "name": "n", "cost": 1, "time": 2, "bytes": 3, "memory": 4}], "edges": []})");
  EXPECT_EQ(read.graph.ops[0].duration, Duration(2));
  EXPECT_EQ(read.graph.tensors[0].size, Bytes(4));
  EXPECT_TRUE(read.taken.ends_with("names \"name\", links \"edges\"; not used: cost, bytes")) << read.taken;
}

TEST(NodeLink, SaysWhereAFaultIs) {
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto message = [](const std::string& text) -> std::string {
    try {
      read_node_link(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(replaced(kCheckmate, "\"target\": 1", "\"target\": 5")).find("$.links[0].target"),
            std::string::npos);
  EXPECT_NE(message(replaced(kCheckmate, "\"cost_cpu\": 7", "\"cost_cpu\": -7")).find("$.nodes[0].cost_cpu"),
            std::string::npos);
  EXPECT_NE(message(replaced(kCheckmate, "\"id\": 1", "\"id\": 0")).find("$.nodes[1].id"), std::string::npos);
  EXPECT_NE(message(replaced(kLayered, "[0, 9, 4]", "[0, 9]")).find("$.graph.order"), std::string::npos);
  EXPECT_NE(message(replaced(kLayered, "[0, 9, 4]", "[0, 9, 9]")).find("twice"), std::string::npos);
  EXPECT_NE(message(replaced(kLayered, "[0, 9, 4]", "[0, 4, 9]")), "") << "not topological";
  EXPECT_NE(message(replaced(kLayered, "\"links\"", "\"lynx\"")).find("neither links nor edges"), std::string::npos);
  EXPECT_NE(message("[]"), "");
  const std::string today = networkx("edges", "time", "memory");
  EXPECT_NE(message(replaced(today, "\"time\"", "\"hours\"")).find("$.nodes[0]: has no duration: none of cost_cpu, "),
            std::string::npos);
  EXPECT_NE(message(replaced(today, "\"memory\"", "\"weight\"")).find("has no size: none of"), std::string::npos);
  EXPECT_NE(message(replaced(today, "64.0", "64.5")).find("$.nodes[0].memory: must be a whole number"),
            std::string::npos);
  EXPECT_NE(message(replaced(today, "64.0", "-1")), "");
  EXPECT_NE(message(replaced(today, "\"directed\": true", "\"directed\": false")).find("undirected"),
            std::string::npos);
  EXPECT_NE(message(replaced(today, "\"graph\": {}", "\"links\": []")).find("both links and edges"), std::string::npos);
  EXPECT_NE(message(replaced(today, "\"target\": \"a\"", "\"target\": \"b\"")).find("cycle"), std::string::npos);
}

TEST(NodeLink, ARemoraGraphIsNone) {
  EXPECT_FALSE(looks_like_node_link(R"({"format": "remora-graph", "name": "nodes", "ops": ["nodes"]})"));
}

class PublishedNodeLink : public testing::TestWithParam<const char*> {};

TEST_P(PublishedNodeLink, IsTheGraphOfTheSharedInstances) {
  const std::string folder = REMORA_SHARED_DIR;
  const std::string name = std::string(GetParam()) + ".json";
  if (!std::filesystem::exists(folder + "/node_link/" + name)) {
    GTEST_SKIP() << folder << "/node_link is not there: the shared data are not part of the tree";
  }
  const Graph read = read_node_link(json::read_file(folder + "/node_link/" + name)).graph;
  const Graph known = json::read_graph(json::Text(json::read_file(folder + "/instances/" + name)));
  ASSERT_EQ(read.ops.size(), known.ops.size());
  for (std::size_t i = 0; i < read.ops.size(); ++i) {
    EXPECT_EQ(read.ops[i].name, known.ops[i].name);
    EXPECT_EQ(read.ops[i].duration, known.ops[i].duration);
    EXPECT_EQ(read.ops[i].inputs, known.ops[i].inputs);
    EXPECT_EQ(read.ops[i].outputs, known.ops[i].outputs);
    EXPECT_EQ(read.tensors[i].size, known.tensors[i].size);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedNodeLink,
                         testing::Values("rl100", "fcn_8_vgg-train", "vgg16-train", "segnet-train", "mobilenet-train"),
                         [](const auto& graph) {
                           std::string name = graph.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
                           return name;
                         });

}  // namespace
}  // namespace remora::interchange
