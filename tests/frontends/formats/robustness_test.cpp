// SPDX-License-Identifier: Apache-2.0
//
// Whatever the bytes, a reader answers with a value or an InputError.
#include <cstdint>
#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

std::string sample_schedule(const Graph& graph) {
  Schedule schedule{.graph = graph.name, .status = Status::feasible, .duration = Duration(24)};
  schedule.steps = {{.op = OpId(0), .free = {}}, {.op = OpId(1), .free = {TensorId(1)}}};
  schedule.certificate = Certificate{.op = OpId(1), .required = Bytes(9), .tensors = {TensorId(1)}};
  schedule.solver.history = {{.seconds = 0.5, .duration = Duration(24), .peak = Bytes(9), .source = "cp"}};
  std::ostringstream out;
  write_schedule(out, schedule, graph);
  return out.str();
}

std::string without_last_newline(std::string text) {
  if (text.back() == '\n') text.pop_back();
  return text;
}

TEST(Readers, RefuseATextCutAnywhere) {
  const Graph graph = read_graph(Text(kEveryKey));
  const std::string graph_text = without_last_newline(written(graph));
  for (std::size_t length = 0; length < graph_text.size(); ++length) {
    const std::string_view cut = std::string_view(graph_text).substr(0, length);
    EXPECT_THROW(static_cast<void>(read_graph(Text(cut))), InputError) << length;
  }
  const std::string schedule_text = without_last_newline(sample_schedule(graph));
  for (std::size_t length = 0; length < schedule_text.size(); ++length) {
    const std::string_view cut = std::string_view(schedule_text).substr(0, length);
    EXPECT_THROW(static_cast<void>(read_schedule(Text(cut), graph)), InputError) << length;
  }
}

/// One to four bytes changed, inserted or removed, often to ones that mean something.
std::string mutated(std::string text, std::mt19937_64& random) {
  constexpr std::string_view kTelling = "{}[]\",:0-9.eE\\/tfn \xff\xc3\x80";
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  for (std::size_t change = 1 + below(4); change > 0 && !text.empty(); --change) {
    const std::size_t position = below(text.size());
    const char byte = below(2) == 0 ? kTelling[below(kTelling.size())] : static_cast<char>(below(256));
    switch (below(4)) {
      case 0:
        text.erase(position, 1 + below(8));
        break;
      case 1:
        text.insert(position, 1, byte);
        break;
      case 2:
        text[position] = static_cast<char>(text[position] ^ (1 << below(8)));
        break;
      default:
        text[position] = byte;
    }
  }
  return text;
}

TEST(Readers, SurviveMutatedTexts) {
  constexpr int kTries = 20000;
  const std::uint64_t seed = 20240611;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const Graph graph = read_graph(Text(kEveryKey));
  const std::string schedule = sample_schedule(graph);
  for (int i = 0; i < kTries; ++i) {
    const std::string graph_text = mutated(std::string(kEveryKey), random);
    const Fault graph_fault = fault_of([&] {
      const Graph read = read_graph(Text(graph_text));
      ASSERT_EQ(read_graph(Text(written(read))), read) << graph_text;
    });
    ASSERT_EQ(graph_fault.what.find('\n'), std::string::npos) << graph_text;
    const std::string schedule_text = mutated(schedule, random);
    const Fault schedule_fault = fault_of([&] { static_cast<void>(read_schedule(Text(schedule_text), graph)); });
    ASSERT_EQ(schedule_fault.what.find('\n'), std::string::npos) << schedule_text;
  }
}

TEST(Readers, SurviveDeepNesting) {
  constexpr std::size_t kDepth = 100000;
  std::string objects;
  for (std::size_t i = 0; i < kDepth; ++i) objects += "{\"k\":";
  const std::string arrays(kDepth, '[');
  for (const std::string& bomb : {arrays, objects, arrays + std::string(kDepth, ']')}) {
    const Fault root = fault_of([&] { static_cast<void>(read_graph(Text(bomb))); });
    EXPECT_NE(root.what.find("nested deeper than 256 levels"), std::string::npos) << root.what;
    const std::string text = replaced(kEveryKey, R"("by hand")", bomb);
    const Fault inside = fault_of([&] { static_cast<void>(read_graph(Text(text))); });
    EXPECT_TRUE(inside.place.starts_with("$.meta.source")) << inside.what;
    EXPECT_LT(inside.what.size(), 200U);
  }
}

TEST(Readers, AcceptNestingUpToTheLimit) {
  const auto nested = [](std::size_t depth) {  // `meta` and the root are two levels themselves
    return replaced(kEveryKey, R"("by hand")", std::string(depth - 2, '[') + std::string(depth - 2, ']'));
  };
  const Graph graph = read_graph(Text(nested(kDeepest)));
  EXPECT_EQ(read_graph(Text(written(graph))), graph);
  EXPECT_THROW(static_cast<void>(read_graph(Text(nested(kDeepest + 1)))), InputError);
}

TEST(Readers, CutLongNamesInMessages) {
  const std::string name(100000, 'n');
  const std::string text = replaced(kEveryKey, R"("inputs": ["x"])", R"("inputs": [")" + name + R"("])");
  EXPECT_LT(fault_of([&] { static_cast<void>(read_graph(Text(text))); }).what.size(), 200U);
  const std::string cut = text.substr(0, text.find(name) + 1000);
  EXPECT_LT(fault_of([&] { static_cast<void>(read_graph(Text(cut))); }).what.size(), 200U);
}

TEST(Readers, ReadAHundredThousandOps) {
  constexpr int kOps = 100000;
  Graph graph{.name = "chain"};
  for (int i = 0; i < kOps; ++i) {
    const TensorId output = graph.add_tensor("tensor" + std::to_string(i), Bytes(i));
    Op op{.name = "op" + std::to_string(i), .duration = Duration(i), .outputs = {output}};
    for (int j = 1; j <= 3 && j <= i; ++j) op.inputs.emplace_back(i - j);
    graph.add_op(std::move(op));
  }
  const std::string text = written(graph);
  EXPECT_EQ(read_graph(Text(text)), graph);

  // The longest possible cycle: found without recursion, told in a line.
  graph.ops.front().inputs = {TensorId(kOps - 1)};
  const Fault fault = fault_of([&] { validate(graph); });
  EXPECT_EQ(fault.place, "ops[0].inputs[0]");
  EXPECT_NE(fault.what.find("cycle"), std::string::npos);
  EXPECT_LT(fault.what.size(), 300U);
}

}  // namespace
}  // namespace remora::json
