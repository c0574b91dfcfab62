// SPDX-License-Identifier: Apache-2.0
//
// Graphs of ops with several modes: valid, the same for the same seed, and with what is said of their amounts.
#include "benchmarks/instances/modes.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "benchmarks/instances/checkmate.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora::instances {
namespace {

TEST(InstancesOfModes, WorkspacesTradeForTime) {
  const Graph plain = checkmate({.network = "vgg16"});
  const Graph graph = with_workspaces(plain, 3);
  validate(graph);
  EXPECT_EQ(graph, with_workspaces(plain, 3));
  EXPECT_NE(graph, with_workspaces(plain, 4));
  int chosen = 0;
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    if (!graph.ops[v].modes) {
      EXPECT_EQ(graph.ops[v], plain.ops[v]);
      continue;
    }
    ++chosen;
    const Mode fast = mode_of(graph, OpId(v), 0);
    for (const ModeNumber slower : {1, 2}) {
      const Mode mode = mode_of(graph, OpId(v), slower);
      EXPECT_GT(mode.duration, fast.duration);
      EXPECT_LT(mode.workspace, fast.workspace);
      EXPECT_EQ(mode.output_sizes, fast.output_sizes);
    }
  }
  EXPECT_GT(chosen, 10);
}

TEST(InstancesOfModes, BackwardHalvesRecomputeWhatIsNotSaved) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_blocks(12, {.quantized = true, .offloaded = seed % 2 == 0}, seed);
    validate(graph);
    EXPECT_EQ(graph.ops.size(), 24U);
    for (std::int32_t i = 0; i < 12; ++i) {
      const OpId forward(i);
      const OpId backward(23 - i);
      ASSERT_EQ(graph[backward].modes->follows, forward);
      const auto last = static_cast<ModeNumber>(graph[forward].modes->further.size());
      EXPECT_EQ(last, seed % 2 == 0 ? 3 : 2);
      EXPECT_EQ(mode_of(graph, forward, last).output_sizes.back(), Bytes(0));
      EXPECT_EQ(mode_of(graph, forward, last).duration, graph[forward].duration);
      EXPECT_EQ(mode_of(graph, backward, last).duration, graph[backward].duration + graph[forward].duration);
      EXPECT_EQ(mode_of(graph, forward, 1).output_sizes.back().count(),
                mode_of(graph, forward, 0).output_sizes.back().count() / 4);
    }
  }
  EXPECT_THROW(random_blocks(0, {}, 1), InputError);
}

}  // namespace
}  // namespace remora::instances
