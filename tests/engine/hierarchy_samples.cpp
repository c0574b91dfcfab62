// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/hierarchy_samples.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/groups/partitioners.hpp"
#include "engine/groups/schedule_grid.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"

namespace remora::test {
namespace {

/// True one time in `of`.
bool chance(std::mt19937& random, unsigned of) {
  return random() % of == 0;
}

RecomputePlan random_plan(const Instance& instance, std::mt19937& random) {
  RecomputePlan plan;
  std::vector<int> computes(at(instance.op_count()), 1);
  const unsigned rarity = 1 + random() % 8;
  for (Stage stage{1}; stage <= instance.op_count(); ++stage) {
    for (int op = 0; op < stage; ++op) {
      if (computes[at(op)] >= instance.max_computes(OpId(op)) || !chance(random, rarity)) continue;
      ++computes[at(op)];
      plan.push_back({stage, OpId(op)});
    }
  }
  return plan;
}

/// A mode that the op offers.
ModeNumber random_mode(const Instance& instance, OpId op, std::mt19937& random) {
  std::vector<ModeNumber> offered;
  for (ModeNumber mode = 0; mode < instance.mode_count(op); ++mode) {
    if (instance.offers(op, mode)) offered.push_back(mode);
  }
  return offered[random() % offered.size()];
}

}  // namespace

std::vector<int> RandomPartitioner::group(const PartitionGraph& graph, const PartitionSettings& settings) const {
  std::mt19937 random(seed_ + static_cast<std::uint32_t>(graph.node_count()));
  std::vector<int> waits(at(graph.node_count()), 0);
  std::vector<int> ready;
  for (int node = 0; node < graph.node_count(); ++node) {
    waits[at(node)] = static_cast<int>(graph.predecessors(node).size());
    if (waits[at(node)] == 0) ready.push_back(node);
  }
  std::vector<int> group_of(at(graph.node_count()), 0);
  int group = -1;
  int left = 0;
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const int node = ready.back();
    ready.pop_back();
    if (left == 0 || chance(random, 4)) {
      ++group;
      left = settings.group_size;
    }
    --left;
    group_of[at(node)] = group;
    for (const int next : graph.successors(node)) {
      if (--waits[at(next)] == 0) ready.push_back(next);
    }
  }
  return group_of;
}

std::shared_ptr<const Graph> with_after_edges(const Graph& graph, std::mt19937& random) {
  auto more = std::make_shared<Graph>(graph);
  for (std::size_t op = 1; op < more->ops.size(); ++op) {
    if (!chance(random, 5)) continue;
    const OpId before(static_cast<std::size_t>(random() % op));
    std::vector<OpId>& after = more->ops[op].after;
    if (std::find(after.begin(), after.end(), before) == after.end()) after.push_back(before);
  }
  return more;
}

std::shared_ptr<const Graph> random_network(std::mt19937& random, int most_ops) {
  const auto graph = chance(random, 3) ? random_graph(random, {.least_ops = 1, .most_ops = most_ops})
                                       : random_training_graph(random, std::max(2, most_ops / 2));
  return chance(random, 2) ? with_after_edges(*graph, random) : graph;
}

std::vector<int> EqualPartitioner::group(const PartitionGraph& graph, const PartitionSettings&) const {
  std::vector<int> group_of;
  group_of.reserve(at(graph.node_count()));
  for (int node = 0; node < graph.node_count(); ++node) group_of.push_back(node / size_);
  return group_of;
}

std::shared_ptr<const Graph> blocks_in_a_chain(std::mt19937& random, int blocks, int ops) {
  const auto amount = [&] { return static_cast<std::int64_t>(1 + random() % 9); };
  auto graph = std::make_shared<Graph>();
  const int forward = blocks * ops;
  for (int op = 0; op < forward; ++op) {
    Op made{.name = "f" + std::to_string(op), .duration = Duration(amount()), .phase = Phase::forward};
    if (op > 0) made.inputs = {TensorId(op - 1)};
    // Skips stay in the block, or come from what enters it.
    const int inside = op % ops;
    if (inside > 0 && op > 1 && chance(random, 2)) {
      made.inputs.emplace_back(std::max(0, op - 2 - static_cast<int>(random() % static_cast<unsigned>(inside))));
    }
    made.outputs = {graph->add_tensor("x" + std::to_string(op), Bytes(amount()))};
    graph->add_op(std::move(made));
  }
  graph->ops.back().phase = Phase::loss;
  for (int op = forward - 1; op >= 0; --op) {
    Op made{.name = "b" + std::to_string(op), .duration = Duration(amount()), .phase = Phase::backward};
    made.backward_of = OpId(op);
    if (op + 1 < forward) made.inputs = {graph->ops.back().outputs.front()};
    for (const TensorId t : graph->ops[at(op)].inputs) {
      if (!chance(random, 3)) made.inputs.push_back(t);
    }
    if (op + 1 == forward || chance(random, 3)) made.inputs.emplace_back(op);
    made.outputs = {graph->add_tensor("g" + std::to_string(op), Bytes(amount()), op == 0)};
    graph->add_op(std::move(made));
  }
  return graph;
}

Partition random_partition(const Instance& instance, std::mt19937& random) {
  const PartitionSettings settings{.group_size = 2 + static_cast<int>(random() % 4),
                                   .top_size = 1 + static_cast<int>(random() % 5)};
  if (chance(random, 3)) return make_partition(instance, IntervalPartition(), settings);
  return make_partition(instance, RandomPartitioner(static_cast<std::uint32_t>(random())), settings);
}

BlockProblem problem_of(const Instance& instance, const Hierarchy& hierarchy, const Block& block) {
  std::vector<ChildSchedules> children;
  children.reserve(block.children.size());
  for (const int child : block.children) {
    const ClassSchedules& of_class = hierarchy.schedules[at(hierarchy.class_of(child))];
    children.push_back({of_class.schedules, &of_class.pass});
  }
  return make_block_problem(instance, block, std::move(children));
}

std::vector<Compute> random_sequence(const Instance& instance, std::mt19937& random) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::vector<ModeNumber> latest(at(instance.op_count()), 0);
    std::vector<Compute> sequence = computes_of(sequence_of(instance, random_plan(instance, random)));
    for (Compute& compute : sequence) {
      const OpId leader = instance.leader(compute.op);
      compute.mode = leader.valid() ? latest[at(leader)] : random_mode(instance, compute.op, random);
      latest[at(compute.op)] = compute.mode;
    }
    if (modes_hold(instance, sequence)) return sequence;
  }
  return computes_of(input_order(instance));
}

Hierarchy make_hierarchy(const Instance& instance, const Partition& partition, std::mt19937& random, int further) {
  Hierarchy hierarchy;
  hierarchy.unit_count = at(partition.unit_count());
  hierarchy.blocks = make_blocks(instance, partition);
  hierarchy.classes = classify(instance, hierarchy.blocks, hierarchy.unit_count);
  hierarchy.schedules.resize(hierarchy.classes.representative.size());
  const int root = hierarchy.classes.class_of.back();
  for (int c = 0; c < static_cast<int>(hierarchy.schedules.size()); ++c) {
    if (c == root) continue;
    const Block& block = hierarchy.blocks[at(hierarchy.classes.representative[at(c)])];
    const BlockProblem problem = problem_of(instance, hierarchy, block);
    const Instance local(problem.graph, {.max_computes = problem.max_computes});
    ClassSchedules& made = hierarchy.schedules[at(c)];
    made.schedules.push_back(saving_schedule(problem, local));
    for (int i = 0; i < further; ++i) {
      made.schedules.push_back(measure_schedule(problem, local, random_sequence(local, random)));
    }
    made.pass = passing_schedule(problem, local);
  }
  return hierarchy;
}

}  // namespace remora::test
