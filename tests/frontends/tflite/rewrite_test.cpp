// SPDX-License-Identifier: Apache-2.0
//
// What the runtimes compute with rewritten models is tested in tests/edge/rewrite_test.py.
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/tflite/arena.hpp"
#include "frontends/tflite/writer.hpp"
#include "model/error.hpp"
#include "tests/support/fewer.hpp"

namespace remora::tflite {
namespace {

std::string sample(const std::string& name) {
  return json::read_file(REMORA_SOURCE_DIR "/tests/data/tflite/" + name + ".tflite");
}

/// All ops once, in the order of the graph.
Sequence all_of(const SlicedGraph& sliced) {
  Sequence ops;
  for (const OpId v : sliced.ops.ids()) ops.push_back(v);
  return ops;
}

std::string in_regions(const std::string& bytes, const LoweredModel& lowered, const std::vector<Region>& regions) {
  const SlicedGraph sliced = slice(lowered.graph, regions, slice_run());
  return rewrite_model(bytes, lowered, regions, sliced, all_of(sliced));
}

TEST(TfliteRewrite, OpsAreTheOperatorsAndOneForTheInputs) {
  const std::string bytes = sample("mlp");
  const LoweredModel lowered = lower_model(bytes, "mlp.tflite");
  // x; y = dense(x); twice y = y + dense(dense(y)); dense(y).
  ASSERT_EQ(lowered.graph.ops.size(), 9U);
  EXPECT_EQ(lowered.graph.ops[0].type, "inputs");
  EXPECT_FALSE(lowered.graph.ops[0].recompute);
  EXPECT_EQ(lowered.graph.ops[1].type, "FULLY_CONNECTED");
  EXPECT_EQ(lowered.graph.ops[4].type, "ADD");
  EXPECT_EQ(lowered.graph.fixed_memory, Bytes());
  const auto kept = std::ranges::count_if(lowered.graph.tensors, [](const Tensor& t) { return t.keep; });
  EXPECT_EQ(kept, 1);
  // 16 x 32 products and sums, the weights, 32 numbers of 4 bytes, and both activations.
  EXPECT_EQ(lowered.graph.ops[1].duration, Duration(2 * 16 * 32 + 16 * 32 + 4 * 32 + 16 + 32));
}

TEST(TfliteRewrite, TheSameOrderGivesTheSameOperators) {
  for (const char* name : {"mlp", "mobilenet"}) {
    const std::string bytes = sample(name);
    const LoweredModel lowered = lower_model(bytes, name);
    const std::string written = in_regions(bytes, lowered, {});
    const LoweredModel again = lower_model(written, "written");
    EXPECT_EQ(again.graph, lowered.graph);
    const ArenaTensors before = read_arena_tensors(bytes, name);
    const ArenaTensors after = read_arena_tensors(written, "written");
    EXPECT_EQ(after.count, before.count);
    EXPECT_EQ(after.numbers, before.numbers);
  }
}

TEST(TfliteRewrite, EachOpInSlicesKeepsInputsAndOutputs) {
  const std::string bytes = sample("mobilenet");
  const LoweredModel lowered = lower_model(bytes, "mobilenet");
  int tried = 0;
  for (std::size_t v = 0; v < lowered.graph.ops.size(); ++v) {
    for (std::size_t axis = 0; axis < lowered.graph.ops[v].axes.size(); ++axis) {
      for (const int slices : {2, 3, 24}) {
        const std::string written =
            in_regions(bytes, lowered, {{.parts = {{{OpId(v), static_cast<int>(axis)}}}, .slices = slices}});
        const LoweredModel again = lower_model(written, "written");
        EXPECT_EQ(again.model.inputs, lowered.model.inputs);
        EXPECT_EQ(again.model.outputs, lowered.model.outputs);
        const std::int32_t made = lowered.model.operators[static_cast<std::size_t>(lowered.operators[v])].outputs[0];
        EXPECT_EQ(again.model.tensor(made).shape, lowered.model.tensor(made).shape);
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 60);
}

TEST(TfliteRewrite, ARecomputedOpHasTensorsOfItsOwn) {
  const std::string bytes = sample("mlp");
  const LoweredModel lowered = lower_model(bytes, "mlp");
  const SlicedGraph whole = slice(lowered.graph, std::span<const Region>{}, {});
  Sequence ops = all_of(whole);
  ops.insert(ops.begin() + 4, OpId(1));
  const LoweredModel again = lower_model(rewrite_model(bytes, lowered, {}, whole, ops), "written");
  ASSERT_EQ(again.model.operators.size(), lowered.model.operators.size() + 1);
  const Operator& first = again.model.operators[0];
  const Operator& second = again.model.operators[3];
  EXPECT_EQ(first.inputs, second.inputs);
  EXPECT_NE(first.outputs, second.outputs);
  EXPECT_EQ(second.outputs, lowered.model.operators[0].outputs) << "the last run has the number of the file";
}

/// The model with a change, lowered, sliced and written again; nothing where it is refused in one line.
std::optional<std::string> tried(const std::string& bytes) {
  try {
    const LoweredModel lowered = lower_model(bytes, "m.tflite");
    std::string written = in_regions(bytes, lowered, {});
    for (std::size_t v = 0; v < lowered.graph.ops.size(); v += 3) {
      if (lowered.graph.ops[v].axes.empty()) continue;
      written = in_regions(bytes, lowered, {{.parts = {{{OpId(v), 0}}}, .slices = 3}});
    }
    return written;
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return std::nullopt;
  }
}

TEST(TfliteRewrite, ChangedModelsAreWrittenOrRefused) {
  const std::string bytes = sample("mobilenet");
  std::mt19937 random(5);
  int written = 0;
  const int rounds = test::fewer(4000);
  for (int round = 0; round < rounds; ++round) {
    std::string mutant = bytes;
    // Structure lies at both ends, and weights between them.
    const std::size_t from_end = random() % 6000;
    const std::size_t at = random() % 2 == 0 ? from_end % bytes.size() : bytes.size() - 1 - from_end % bytes.size();
    constexpr std::array<char, 4> kValues{0, 1, 127, -1};
    mutant[at] = random() % 2 == 0 ? kValues[random() % 4] : static_cast<char>(random());
    written += tried(mutant) ? 1 : 0;
  }
  EXPECT_GT(written, rounds / 20);
  EXPECT_LT(written, rounds);
}

}  // namespace
}  // namespace remora::tflite
