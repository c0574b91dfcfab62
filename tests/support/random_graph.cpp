// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.hpp"

#include <algorithm>
#include <string>

namespace remora::test {
namespace {

int draw(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

bool chance(std::mt19937& random, int percent) {
  return draw(random, 0, 99) < percent;
}

Bytes draw_size(std::mt19937& random, std::int64_t most) {
  if (chance(random, 8)) return Bytes(0);
  return Bytes(1 + static_cast<std::int64_t>(random()) % most);
}

/// Some of the op's outputs, each with another of its inputs.
std::vector<InPlace> draw_in_place(std::mt19937& random, const Op& op) {
  std::vector<TensorId> inputs = op.inputs;
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  std::shuffle(inputs.begin(), inputs.end(), random);
  std::vector<InPlace> pairs;
  for (std::size_t i = 0; i < std::min(inputs.size(), op.outputs.size()); ++i) {
    if (chance(random, 70)) pairs.push_back({op.outputs[i], inputs[i]});
  }
  return pairs;
}

}  // namespace

std::shared_ptr<const Graph> random_graph(std::mt19937& random, const RandomGraphOptions& options) {
  Graph graph;
  graph.name = "random";
  if (chance(random, 30)) graph.fixed_memory = Bytes(draw(random, 0, 5));
  if (options.in_place && chance(random, 50)) graph.recompute_allocates = Allocation::all;
  std::vector<TensorId> available;
  const int inputs = draw(random, 0, 1);
  for (int i = 0; i < inputs; ++i) {
    available.push_back(graph.add_tensor("input" + std::to_string(i), draw_size(random, options.largest_size)));
  }
  const int ops = draw(random, options.least_ops, options.most_ops);
  for (int v = 0; v < ops; ++v) {
    Op op;
    op.name = "op" + std::to_string(v);
    op.duration = Duration(chance(random, 10) ? 0 : 1 + static_cast<std::int64_t>(random()) % options.longest_duration);
    if (chance(random, 20)) op.workspace = Bytes(draw(random, 1, 4));
    op.recompute = !chance(random, 10);
    if (chance(random, 10)) op.max_computes = draw(random, 1, 3);
    const int reads = std::min<int>(draw(random, 0, 3), static_cast<int>(available.size()));
    for (int i = 0; i < reads; ++i) {
      op.inputs.push_back(available[static_cast<std::size_t>(draw(random, 0, static_cast<int>(available.size()) - 1))]);
    }
    if (v > 0 && chance(random, 10)) op.after.emplace_back(draw(random, 0, v - 1));
    const int outputs = chance(random, 25) ? 2 : 1;
    for (int i = 0; i < outputs; ++i) {
      const auto name = "t" + std::to_string(v) + "_" + std::to_string(i);
      op.outputs.push_back(graph.add_tensor(name, draw_size(random, options.largest_size), chance(random, 15)));
    }
    if (options.in_place) op.in_place = draw_in_place(random, op);
    available.insert(available.end(), op.outputs.begin(), op.outputs.end());
    graph.add_op(std::move(op));
  }
  return std::make_shared<const Graph>(std::move(graph));
}

std::shared_ptr<const Graph> scaled(const Graph& small, int size_shift, int duration_shift) {
  auto graph = std::make_shared<Graph>(small);
  graph->fixed_memory = Bytes(graph->fixed_memory.count() << size_shift);
  for (Tensor& tensor : graph->tensors) tensor.size = Bytes(tensor.size.count() << size_shift);
  for (Op& op : graph->ops) {
    op.workspace = Bytes(op.workspace.count() << size_shift);
    op.duration = Duration(op.duration.count() << duration_shift);
  }
  return graph;
}

std::shared_ptr<const Graph> figure_1() {
  Graph graph;
  graph.name = "figure-1";
  std::vector<TensorId> t;
  for (const char* name : {"a", "b", "c", "d", "e"}) t.push_back(graph.add_tensor(name, Bytes(1), *name == 'e'));
  const auto add = [&](const char* name, std::vector<TensorId> inputs, TensorId output) {
    graph.add_op({.name = name, .duration = Duration(1), .inputs = std::move(inputs), .outputs = {output}});
  };
  add("A", {}, t[0]);
  add("B", {t[0]}, t[1]);
  add("C", {t[0]}, t[2]);
  add("D", {t[1], t[2]}, t[3]);
  add("E", {t[0], t[3]}, t[4]);
  return std::make_shared<const Graph>(std::move(graph));
}

Schedule figure_1_schedule() {
  Schedule schedule{.status = Status::optimal, .budget = Bytes(3), .duration = Duration(6), .peak_memory = Bytes(3)};
  schedule.steps = {{.op = OpId(0)},
                    {.op = OpId(1)},
                    {.op = OpId(2), .free = {TensorId(0)}},
                    {.op = OpId(3), .free = {TensorId(1), TensorId(2)}},
                    {.op = OpId(0)},
                    {.op = OpId(4), .free = {TensorId(0), TensorId(3)}}};
  return schedule;
}

std::shared_ptr<const Graph> training_chain(int layers, std::int64_t size, std::int64_t duration) {
  Graph graph;
  graph.name = "chain";
  std::vector<TensorId> forward;
  for (int i = 0; i < layers; ++i) {
    forward.push_back(graph.add_tensor("x" + std::to_string(i), Bytes(size)));
    Op op{.name = "forward" + std::to_string(i), .duration = Duration(duration), .outputs = {forward.back()}};
    if (i > 0) op.inputs = {forward[static_cast<std::size_t>(i) - 1]};
    graph.add_op(std::move(op));
  }
  TensorId gradient;
  for (int i = layers - 1; i >= 0; --i) {
    Op op{.name = "backward" + std::to_string(i), .duration = Duration(2 * duration)};
    op.inputs = {forward[static_cast<std::size_t>(i)]};
    if (gradient.valid()) op.inputs.push_back(gradient);
    gradient = graph.add_tensor("g" + std::to_string(i), Bytes(size), i == 0);
    op.outputs = {gradient};
    graph.add_op(std::move(op));
  }
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace remora::test
