// SPDX-License-Identifier: Apache-2.0
#include "model/graph.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/quote.hpp"
#include "tests/support/refusal.hpp"

namespace remora {
namespace {

template <class List, class Index>
concept HasPlace = requires(List list, Index index) {
  list[index];
};
static_assert(HasPlace<decltype(Graph::tensors), TensorId> && HasPlace<decltype(Graph::ops), OpId>);
static_assert(!HasPlace<decltype(Graph::tensors), OpId> && !HasPlace<decltype(Graph::ops), TensorId>);
static_assert(!HasPlace<const decltype(Graph::tensors), OpId>);

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

/// x (an input of the graph) -> A -> a -> B -> b, and C after A.
Graph small_graph() {
  Graph graph{.name = "small", .fixed_memory = Bytes(1)};
  const TensorId x = graph.add_tensor("x", Bytes(2));
  const TensorId a = graph.add_tensor("a", Bytes(3));
  const TensorId b = graph.add_tensor("b", Bytes(4), true);
  const TensorId c = graph.add_tensor("c", Bytes(5));
  graph.add_op({.name = "A", .duration = Duration(1), .inputs = {x}, .outputs = {a}});
  graph.add_op({.name = "B", .duration = Duration(2), .workspace = Bytes(6), .inputs = {a, a}, .outputs = {b}});
  graph.add_op({.name = "C", .duration = Duration(3), .outputs = {c}, .backward_of = OpId(0), .after = {OpId(0)}});
  return graph;
}

struct Case {
  std::string message;
  std::function<void(Graph&)> spoil;
};

std::string message_of(const Graph& graph) {
  return remora::test::refusal_of([&] { validate(graph); }, "valid");
}

TEST(Validate, AcceptsASoundGraph) {
  EXPECT_EQ(message_of(small_graph()), "valid");
  EXPECT_EQ(message_of(Graph()), "valid");
}

TEST(Validate, NamesTheFaultAndItsPlace) {
  const std::vector<Case> cases = {
      {"fixed_memory: must not be negative, but is -1", [](Graph& g) { g.fixed_memory = Bytes(-1); }},
      {"tensors[1].size: must not be negative, but is -3", [](Graph& g) { g.tensors[1].size = Bytes(-3); }},
      {"ops[1].duration: must not be negative, but is -3", [](Graph& g) { g.ops[1].duration = Duration(-3); }},
      {"ops[1].workspace: must not be negative, but is -3", [](Graph& g) { g.ops[1].workspace = Bytes(-3); }},
      {"ops[1].max_computes: must be at least 1, but is 0 (op \"B\")", [](Graph& g) { g.ops[1].max_computes = 0; }},
      {"tensors[1].name: a name must not be empty", [](Graph& g) { g.tensors[1].name.clear(); }},
      {"ops[2].name: a name must not be empty", [](Graph& g) { g.ops[2].name.clear(); }},
      {"tensors[3].name: the name \"x\" is taken by tensor 0", [](Graph& g) { g.tensors[3].name = g.tensors[0].name; }},
      {"ops[2].name: the name \"A\" is taken by op 0", [](Graph& g) { g.ops[2].name = g.ops[0].name; }},
      {"ops[1].inputs[1]: no tensor has the number 4", [](Graph& g) { g.ops[1].inputs[1] = TensorId(4); }},
      {"ops[1].inputs[1]: no tensor has the number -1", [](Graph& g) { g.ops[1].inputs[1] = TensorId(); }},
      {"ops[1].outputs[0]: no tensor has the number 9", [](Graph& g) { g.ops[1].outputs[0] = TensorId(9); }},
      {"ops[2].after[0]: no op has the number 3", [](Graph& g) { g.ops[2].after[0] = OpId(3); }},
      {"ops[2].backward_of: no op has the number 3", [](Graph& g) { g.ops[2].backward_of = OpId(3); }},
      {"ops[2].backward_of: the op \"C\" cannot be its own backward op",
       [](Graph& g) { g.ops[2].backward_of = OpId(2); }},
      {"ops[2].outputs: the op \"C\" has no outputs", [](Graph& g) { g.ops[2].outputs.clear(); }},
      {"ops[2].outputs[1]: the op \"C\" lists the tensor \"c\" twice",
       [](Graph& g) { g.ops[2].outputs.emplace_back(3); }},
      {"ops[2].outputs[1]: the tensor \"a\" has two producers, \"A\" (op 0) and \"C\"",
       [](Graph& g) { g.ops[2].outputs.emplace_back(1); }},
      {"ops[0].inputs[1]: the op \"A\" is listed before \"C\" (op 2), the producer of its input \"c\"",
       [](Graph& g) {
         g.ops[2].after.clear();
         g.ops[0].inputs.emplace_back(3);
       }},
      {"ops[1].after[0]: the op \"B\" is listed before \"C\" (op 2), which it must come after",
       [](Graph& g) { g.ops[1].after.emplace_back(2); }},
      {"ops[0].inputs[1]: the ops form a cycle: \"A\" -> \"B\" -> \"A\"",
       [](Graph& g) { g.ops[0].inputs.emplace_back(2); }},
      {"ops[0].after[0]: the ops form a cycle: \"A\" -> \"C\" -> \"A\"",
       [](Graph& g) { g.ops[0].after.emplace_back(2); }},
      {"ops[2].after[1]: the ops form a cycle: \"C\" -> \"C\"", [](Graph& g) { g.ops[2].after.emplace_back(2); }},
      {"tensors[2].size: fixed_memory and the sizes up to tensor \"b\" exceed 64 bits together",
       [](Graph& g) { g.tensors[2].size = Bytes(kLargest - 5); }},
      {"ops[1].workspace: fixed_memory, all sizes and the workspace of op \"B\" exceed 64 bits together",
       [](Graph& g) { g.ops[1].workspace = Bytes(kLargest - 14); }},
      {"ops[2].duration: the durations up to op \"C\", each taken 64 times, exceed 64 bits together",
       [](Graph& g) { g.ops[2].duration = Duration(kLargest / 64 - 2); }},
  };
  for (const Case& one : cases) {
    Graph graph = small_graph();
    one.spoil(graph);
    EXPECT_EQ(message_of(graph), one.message);
  }
}

TEST(Validate, AcceptsTheLargestSums) {
  Graph graph = small_graph();
  graph.ops[1].workspace = Bytes(kLargest - 15);
  graph.ops[2].duration = Duration(kLargest / kComputesWithin64Bits - 3);
  EXPECT_EQ(message_of(graph), "valid");
}

TEST(Validate, ReportsACycleRatherThanTheOrder) {
  Graph graph = small_graph();
  graph.ops[2].after.clear();
  graph.ops[0].inputs.emplace_back(3);  // A before C, the producer of c: only an order
  graph.ops[2].inputs.emplace_back(2);  // but C needs B, which needs A
  EXPECT_EQ(message_of(graph), "ops[0].inputs[1]: the ops form a cycle: \"A\" -> \"B\" -> \"C\" -> \"A\"");
}

TEST(Quote, ShowsAnyBytesInOneShortLine) {
  EXPECT_EQ(quote("plain é"), "\"plain é\"");
  EXPECT_EQ(quote("a\"b\\c\nd\xff"), R"("a\"b\\c\x0ad\xff")");
  const std::string cut = quote(std::string(500, 'x'));
  EXPECT_EQ(cut.size(), 85U);
  EXPECT_TRUE(cut.starts_with("\"xxx") && cut.ends_with("xxx...\"")) << cut;
}

}  // namespace
}  // namespace remora
