// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/block_chain.hpp"

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "benchmarks/instances/checkmate.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

std::shared_ptr<const Graph> layers(std::int64_t count) {
  return std::make_shared<const Graph>(test::generate_chain({.layers = count, .batch = 64, .channels = 4}));
}

TEST(BlockChain, OfAChainIsItsLayers) {
  const Instance instance(layers(5), {});
  const auto forward = forward_part(instance);
  ASSERT_EQ(forward, 6);
  const auto blocks = block_chain(instance, *forward);
  ASSERT_EQ(blocks.size(), 6U);
  for (int b = 0; b < 6; ++b) {
    const TrainingBlock& block = blocks[static_cast<std::size_t>(b)];
    EXPECT_EQ(block.forward.first, b);
    EXPECT_EQ(block.forward.end, b + 1);
    EXPECT_EQ(block.backward.first, 11 - b);
    EXPECT_EQ(block.backward.end, 12 - b);
  }
}

TEST(BlockChain, CutsATransformerBeforeAndBehindAttention) {
  const Instance instance(std::make_shared<const Graph>(test::generate_transformer({.layers = 3})), {});
  // Embedding with nothing, then attention and MLP of each of 3 layers, head, loss.
  const auto blocks = block_chain(instance, *forward_part(instance));
  EXPECT_EQ(blocks.size(), 1U + 2 * 3 + 2);
}

TEST(BlockChain, JoinsBlocksWhoseBackwardOpsAreOutOfOrder) {
  const Instance instance(test::late_weight_gradient(), {});
  const auto blocks = block_chain(instance, 3);
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].backward.end, 7);
}

TEST(BlockChain, PinnedTensorsConnectNothing) {
  // A mask that is computed once and read everywhere.
  Graph graph;
  const TensorId mask = test::add_unit_op(graph, {.name = "mask", .recompute = false, .phase = Phase::forward});
  TensorId x = test::add_unit_op(graph, {.name = "x", .phase = Phase::forward});
  for (int layer = 0; layer < 4; ++layer) {
    x = test::add_unit_op(graph, {.name = "y" + std::to_string(layer), .inputs = {x, mask}, .phase = Phase::forward});
  }
  TensorId d = test::add_unit_op(graph, {.name = "d", .inputs = {x}, .phase = Phase::backward});
  for (int layer = 3; layer >= 0; --layer) {
    d = test::add_unit_op(graph, {.name = "d" + std::to_string(layer),
                                  .inputs = {d, TensorId(layer + 1), mask},
                                  .phase = Phase::backward,
                                  .backward_of = OpId(layer + 2)});
  }
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  // The mask, x and four layers.
  EXPECT_EQ(block_chain(instance, 6).size(), 6U);
}

TEST(BlockChain, OfCheckmatesVggIsItsLayers) {
  // A backward op there reads its own layer's output and the next one's.
  const auto graph = std::make_shared<const Graph>(instances::checkmate({.network = "vgg16"}));
  const Instance instance(graph, {});
  const auto forward = forward_part(instance);
  ASSERT_TRUE(forward.has_value());
  EXPECT_EQ(block_chain(instance, *forward).size(), static_cast<std::size_t>(*forward));
}

TEST(BlockChain, CoarsenedCoversTheSameOps) {
  const Instance instance(layers(100), {});
  const auto blocks = block_chain(instance, *forward_part(instance));
  const auto joined = coarsened(blocks, 30);
  EXPECT_EQ(joined.size(), 30U);
  EXPECT_EQ(joined.front().forward.first, 0);
  EXPECT_EQ(joined.front().backward.end, instance.op_count());
  for (std::size_t b = 1; b < joined.size(); ++b) {
    EXPECT_EQ(joined[b].forward.first, joined[b - 1].forward.end);
    EXPECT_EQ(joined[b].backward.end, joined[b - 1].backward.first);
  }
  EXPECT_EQ(joined.back().forward.end, joined.back().backward.first);
}

}  // namespace
}  // namespace remora
