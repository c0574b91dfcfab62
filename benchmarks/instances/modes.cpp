// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/instances/modes.hpp"

#include <string>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/random.hpp"

namespace remora::instances {
namespace {

constexpr std::int64_t kMaxBlocks = 10'000;
/// A part of the blocks that also read an earlier one.
constexpr double kSkips = 0.2;

/// Between `least` and `most` times as much.
template <class Amount>
Amount between(Random& random, Amount amount, double least, double most) {
  const double factor = least + (most - least) * random.unit();
  return Amount(static_cast<std::int64_t>(static_cast<double>(amount.count()) * factor));
}

/// The ops of one block and what they exchange.
struct Block {
  OpId forward{};
  TensorId output{};
  TensorId saved{};
  /// Another block's output that this one reads, or none.
  TensorId skip{};
};

class BlockWriter {
 public:
  BlockWriter(std::int64_t count, const BlockModes& modes, std::uint64_t seed)
      : count_(count), modes_(modes), random_(seed) {}

  Graph run() {
    for (std::int64_t i = 0; i < count_; ++i) add_forward(i);
    TensorId gradient = blocks_.back().output;
    for (std::size_t i = blocks_.size(); i-- > 0;) gradient = add_backward(i, gradient);
    graph_[gradient].keep = true;
    graph_.name = "blocks-" + std::to_string(count_);
    return std::move(graph_);
  }

 private:
  void add_forward(std::int64_t i) {
    const std::string name = std::to_string(i);
    const auto size = between(random_, Bytes(1'000'000), 0.5, 2);
    Block block{.output = graph_.add_tensor("x" + name, size),
                .saved = graph_.add_tensor("s" + name, between(random_, size, 1, 6))};
    const Bytes saved = graph_[block.saved].size;
    Op op{.name = "F" + name,
          .duration = between(random_, Duration(1'000'000), 0.3, 3),
          .workspace = between(random_, size, 0, 1),
          .outputs = {block.output, block.saved},
          .phase = Phase::forward};
    if (!blocks_.empty()) op.inputs.push_back(blocks_.back().output);
    if (blocks_.size() > 2 && random_.unit() < kSkips) {
      block.skip = blocks_[random_.below(blocks_.size() - 1)].output;
      op.inputs.push_back(block.skip);
    }
    OpModes own;
    const auto add = [&](Duration more, Bytes kept) {
      own.further.push_back(
          Mode{.duration = op.duration + more, .workspace = op.workspace, .output_sizes = {size, kept}});
    };
    if (modes_.quantized) add(time_of(saved, 0.05), Bytes(saved.count() / 4));
    if (modes_.offloaded) add(time_of(saved, 0.15), Bytes(0));
    add(Duration(0), Bytes(0));
    op.modes = std::move(own);
    block.forward = graph_.add_op(std::move(op));
    blocks_.push_back(block);
  }

  TensorId add_backward(std::size_t i, TensorId gradient) {
    const Block& block = blocks_[i];
    const Op& forward = graph_[block.forward];
    const Bytes saved = graph_[block.saved].size;
    Op op{.name = "B" + std::to_string(i),
          .duration = forward.duration + forward.duration,
          .workspace = forward.workspace,
          .inputs = {gradient, block.saved},
          .phase = Phase::backward,
          .backward_of = block.forward};
    if (i > 0) op.inputs.push_back(blocks_[i - 1].output);
    if (block.skip.valid()) op.inputs.push_back(block.skip);
    const Bytes size = graph_[i > 0 ? blocks_[i - 1].output : block.output].size;
    op.outputs = {graph_.add_tensor("g" + std::to_string(i), size)};
    OpModes own{.follows = block.forward};
    const auto add = [&](Duration more) {
      own.further.push_back(
          Mode{.duration = op.duration + more, .workspace = op.workspace + saved, .output_sizes = {size}});
    };
    if (modes_.quantized) add(time_of(saved, 0.05));
    if (modes_.offloaded) add(time_of(saved, 0.15));
    add(forward.duration);
    op.modes = std::move(own);
    return graph_[graph_.add_op(std::move(op))].outputs.front();
  }

  /// Nanoseconds for the bytes, give or take a half.
  Duration time_of(Bytes bytes, double per_byte) {
    return between(random_, Duration(bytes.count()), per_byte / 2, per_byte * 3 / 2);
  }

  std::int64_t count_;
  BlockModes modes_;
  Random random_;
  Graph graph_{};
  std::vector<Block> blocks_{};
};

}  // namespace

Graph with_workspaces(Graph graph, std::uint64_t seed) {
  Random random(seed);
  for (Op& op : graph.ops) {
    if (op.duration == Duration(0) || random.below(2) == 0) continue;
    std::vector<Bytes> sizes;
    Bytes all;
    for (const TensorId t : op.outputs) all += sizes.emplace_back(graph[t].size);
    op.workspace = between(random, all, 0.5, 2);
    op.in_place.clear();
    OpModes own;
    own.further.push_back(Mode{.duration = between(random, op.duration, 1.2, 1.5),
                               .workspace = Bytes(op.workspace.count() / 4),
                               .output_sizes = sizes});
    own.further.push_back(Mode{.duration = between(random, op.duration, 1.5, 2.5), .output_sizes = sizes});
    op.modes = std::move(own);
  }
  return graph;
}

Graph random_blocks(std::int64_t blocks, const BlockModes& modes, std::uint64_t seed) {
  if (blocks < 1 || blocks > kMaxBlocks) throw InputError("--blocks", "must be 1 to 10000");
  return BlockWriter(blocks, modes, seed).run();
}

}  // namespace remora::instances
