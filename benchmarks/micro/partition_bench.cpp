// SPDX-License-Identifier: Apache-2.0
//
// Partitioning alone: the hierarchy (IntervalPartition) of training graphs of transformer-like layers, of sparse random
// layered graphs and of stars (inference). The counters: ops, groups and levels.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/groups/partition.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

TensorId add_op(Graph& graph, std::vector<TensorId> inputs, Phase phase, std::int64_t size, OpId of = {}) {
  const std::string number = std::to_string(graph.ops.size());
  const TensorId output = graph.add_tensor("t" + number, Bytes(size));
  graph.add_op({.name = "o" + number,
                .duration = Duration(1),
                .inputs = std::move(inputs),
                .outputs = {output},
                .phase = phase,
                .backward_of = of});
  return output;
}

/// A dozen ops a layer as in tests/support/training_graphs.hpp, then one backward op for each.
Graph transformer(std::int64_t ops) {
  Graph graph;
  const auto forward = [&](std::vector<TensorId> inputs, std::int64_t size) {
    return add_op(graph, std::move(inputs), Phase::forward, size);
  };
  TensorId x = forward({}, 4);
  while (std::ssize(graph.ops) * 2 < ops) {
    const TensorId qkv = forward({forward({x}, 4)}, 12);
    const TensorId softmax = forward({forward({qkv}, 16)}, 16);
    const TensorId y = forward({x, forward({forward({softmax, qkv}, 4)}, 4)}, 4);
    x = forward({y, forward({forward({forward({forward({y}, 4)}, 16)}, 16)}, 4)}, 4);
  }
  TensorId gradient = forward({x}, 1);
  for (std::int64_t op = std::ssize(graph.ops) - 1; op >= 0; --op) {
    const Op of = graph.ops[static_cast<std::size_t>(op)];
    std::vector<TensorId> inputs = of.inputs;
    inputs.push_back(gradient);
    gradient = add_op(graph, std::move(inputs), Phase::backward, 4, OpId(static_cast<std::size_t>(op)));
  }
  return graph;
}

/// Layers of 30 ops, each of which reads one to three of the layer before and, at times, one from anywhere before.
Graph layered(std::int64_t ops) {
  constexpr std::int64_t kWidth = 30;
  Graph graph;
  Random random(1);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return TensorId(static_cast<std::size_t>(from) + random.below(static_cast<std::size_t>(to - from)));
  };
  for (std::int64_t op = 0; op < ops; ++op) {
    const std::int64_t layer = op - op % kWidth;
    std::vector<TensorId> inputs;
    if (layer > 0) {
      const std::size_t count = 1 + random.below(3);
      for (std::size_t i = 0; i < count; ++i) inputs.push_back(draw(layer - kWidth, layer));
      if (random.below(5) == 0) inputs.push_back(draw(0, layer));
    }
    add_op(graph, std::move(inputs), Phase::none, 1 + static_cast<std::int64_t>(random.below(800)));
  }
  return graph;
}

/// One op that all others read, and one that reads all others.
Graph star(std::int64_t ops) {
  Graph graph;
  const TensorId hub = add_op(graph, {}, Phase::none, 1);
  std::vector<TensorId> rays;
  while (std::ssize(graph.ops) + 1 < ops) rays.push_back(add_op(graph, {hub}, Phase::none, 1));
  add_op(graph, std::move(rays), Phase::none, 1);
  return graph;
}

void partition(benchmark::State& state, Graph graph) {
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  Partition made;
  for (auto _ : state) made = make_partition(instance, IntervalPartition());
  state.counters["ops"] = instance.op_count();
  state.counters["groups"] = made.root() + 1 - made.unit_count();
  state.counters["levels"] = made.node(made.root()).level;
}

void partition_transformer(benchmark::State& state) {
  partition(state, transformer(state.range(0)));
}
BENCHMARK(partition_transformer)->Arg(250)->Arg(100'000)->Arg(1'000'000)->Iterations(1)->Unit(benchmark::kMillisecond);

void partition_layered(benchmark::State& state) {
  partition(state, layered(state.range(0)));
}
BENCHMARK(partition_layered)->Arg(250)->Arg(100'000)->Arg(1'000'000)->Iterations(1)->Unit(benchmark::kMillisecond);

void partition_star(benchmark::State& state) {
  partition(state, star(state.range(0)));
}
BENCHMARK(partition_star)->Arg(250)->Arg(100'000)->Arg(1'000'000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace remora
