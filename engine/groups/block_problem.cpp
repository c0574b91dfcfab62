// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "engine/groups/block.hpp"
#include "engine/groups/block_schedule.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

using Kind = BlockOp::Kind;
using Role = BlockTensor::Role;

/// True if every op of the child may run as often as any.
bool may_run_again(const ChildSchedules& child) {
  return child.pass != nullptr && child.pass->repeatable;
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Instance& network, const Block& block, const std::vector<ChildSchedules>& children)
      : network_(network), block_(block), children_(children), forward_halves_(children.size()) {
    for (std::size_t o = 0; o < block.ops.size(); ++o) {
      if (block.ops[o].kind == Kind::forward_half) forward_halves_[at(block.ops[o].child)] = OpId(o);
    }
  }

  Graph graph() const {
    Graph result;
    result.name = "block";
    for (std::size_t t = 0; t < block_.tensors.size(); ++t) {
      const BlockTensor& tensor = block_.tensors[t];
      result.add_tensor("t" + std::to_string(t), tensor.size, tensor.keep);
    }
    for (std::size_t o = 0; o < block_.ops.size(); ++o) {
      result.add_op(make_op(block_.ops[o]));
      // Names of the network's could meet those of pseudo ops.
      result.ops.back().name = "o" + std::to_string(o);
    }
    for (const BlockOp& op : block_.ops) {
      if (op.kind != Kind::forward_half || children_[at(op.child)].schedules.front().backward.empty()) continue;
      result.tensors[at(op.outputs.back())].size = children_[at(op.child)].schedules.front().saved;
    }
    return result;
  }

 private:
  [[nodiscard]] Op make_op(const BlockOp& op) const {
    Op result;
    for (const int t : op.inputs) result.inputs.emplace_back(t);
    for (const int t : op.outputs) result.outputs.emplace_back(t);
    for (const int before : op.after) result.after.emplace_back(before);
    if (op.kind == Kind::op) {
      const Op& original = network_.graph().ops[at(op.op)];
      result.duration = original.duration;
      result.workspace = original.workspace;
      result.recompute = original.recompute;
      result.max_computes = original.max_computes;
      add_in_place(op, original, result);
    } else if (op.kind == Kind::forward_half || op.kind == Kind::backward_half) {
      const bool forward = op.kind == Kind::forward_half;
      result.modes = forward ? forward_modes(op) : backward_modes(op);
      const BlockSchedule& first = children_[at(op.child)].schedules.front();
      const HalfCost& cost = forward ? first.forward_cost : first.backward_cost;
      result.duration = cost.duration;
      result.workspace = cost.workspace();
      // A backward half runs once: what it makes are gradients, seldom worth another run.
      result.recompute = forward && may_run_again(children_[at(op.child)]);
    } else {
      result.recompute = false;
    }
    return result;
  }

  /// Local inputs and outputs stand in the order of the network's.
  void add_in_place(const BlockOp& op, const Op& original, Op& result) const {
    const auto inputs = network_.inputs(op.op);
    for (const InPlace& pair : original.in_place) {
      const auto input = std::find(inputs.begin(), inputs.end(), pair.input) - inputs.begin();
      const auto output = std::find(original.outputs.begin(), original.outputs.end(), pair.output);
      if (at(input) == inputs.size()) continue;  // an input of the network, never released
      result.in_place.push_back(
          {TensorId(op.outputs[at(output - original.outputs.begin())]), TensorId(op.inputs[at(input)])});
    }
  }

  [[nodiscard]] Mode make_mode(const BlockOp& op, const HalfCost& cost, Bytes saved) const {
    Mode result{.duration = cost.duration, .workspace = cost.workspace(), .inner = inner(op, cost)};
    result.output_sizes.reserve(op.outputs.size());
    for (const int t : op.outputs) {
      const BlockTensor& tensor = block_.tensors[at(t)];
      result.output_sizes.push_back(tensor.role == Role::phantom ? saved : tensor.size);
    }
    return result;
  }

  [[nodiscard]] std::vector<InnerPeak> inner(const BlockOp& op, const HalfCost& cost) const {
    const std::vector<int>& interface = block_.interfaces[at(op.child)];
    std::vector<InnerPeak> result;
    result.reserve(cost.peaks.size());
    for (const HalfPeak& peak : cost.peaks) {
      InnerPeak& added = result.emplace_back();
      added.workspace = peak.workspace;
      for (const int position : peak.freed) added.freed.emplace_back(TensorId(interface[at(position)]));
    }
    return result;
  }

  [[nodiscard]] OpModes forward_modes(const BlockOp& op) const {
    const ChildSchedules& child = children_[at(op.child)];
    OpModes result{.inner = inner(op, child.schedules.front().forward_cost)};
    result.most_computes = network_.problem().max_computes;
    result.computes = child.schedules.front().computes;
    const auto add = [&](const BlockSchedule& schedule) {
      Mode further = make_mode(op, schedule.forward_cost, schedule.saved);
      further.computes = schedule.computes;
      result.further.emplace_back(std::move(further));
    };
    for (const BlockSchedule& schedule : child.schedules.subspan(1)) add(schedule);
    // Without halves every schedule is a pass.
    if (!child.schedules.front().backward.empty()) add(*child.pass);
    return result;
  }

  [[nodiscard]] OpModes backward_modes(const BlockOp& op) const {
    const ChildSchedules& child = children_[at(op.child)];
    OpModes result{.follows = forward_halves_[at(op.child)]};
    result.unread = unread(op, child.schedules.front());
    result.inner = inner(op, child.schedules.front().backward_cost);
    for (const BlockSchedule& schedule : child.schedules.subspan(1)) {
      Mode further = make_mode(op, schedule.backward_cost, Bytes(0));
      further.unread = unread(op, schedule);
      result.further.emplace_back(std::move(further));
    }
    result.further.emplace_back(std::nullopt);
    return result;
  }

  [[nodiscard]] std::vector<TensorId> unread(const BlockOp& op, const BlockSchedule& schedule) const {
    const std::vector<int>& interface = block_.interfaces[at(op.child)];
    std::vector<TensorId> result;
    for (std::size_t i = 0; i < interface.size(); ++i) {
      const bool input = std::find(op.inputs.begin(), op.inputs.end(), interface[i]) != op.inputs.end();
      if (input && !schedule.reads[i]) result.emplace_back(interface[i]);
    }
    return result;
  }

  const Instance& network_;
  const Block& block_;
  const std::vector<ChildSchedules>& children_;
  /// By child.
  std::vector<OpId> forward_halves_;
};

/// The block's inputs and outputs take nothing, by whatever mode.
void free_interface(const Block& block, Graph& graph) {
  for (const int t : block.interface()) graph.tensors[at(t)].size = Bytes(0);
  for (Op& op : graph.ops) {
    if (!op.modes) continue;
    for (auto& mode : op.modes->further) {
      for (std::size_t i = 0; mode && i < op.outputs.size(); ++i) {
        if (block.tensors[op.outputs[i].index()].is_interface()) mode->output_sizes[i] = Bytes(0);
      }
    }
  }
}

}  // namespace

Bytes BlockProblem::given_back() const {
  Bytes sum;
  if (block->away < 0) return sum;
  for (const int t : block->ops[at(block->away)].outputs) sum += block->tensors[at(t)].size;
  return sum;
}

BlockProblem make_block_problem(const Instance& network, const Block& block, std::vector<ChildSchedules> children) {
  BlockProblem problem;
  problem.block = &block;
  problem.max_computes = network.problem().max_computes;
  problem.children = std::move(children);
  problem.graph = std::make_shared<const Graph>(ProblemBuilder(network, block, problem.children).graph());
  return problem;
}

Instance without_budgets(const BlockProblem& problem) {
  return {problem.graph, {.max_computes = problem.max_computes}};
}

Instance with_budgets(const BlockProblem& problem, Bytes peak, Bytes saved, Interface interface) {
  const Problem limits{.budget = peak, .max_computes = problem.max_computes};
  const bool limits_saved = problem.block->away >= 0 && saved < peak;
  if (!limits_saved && interface == Interface::counted) return {problem.graph, limits};
  Graph graph = *problem.graph;
  Bytes given_back = problem.given_back();
  if (interface == Interface::free) {
    free_interface(*problem.block, graph);
    given_back = Bytes(0);
  }
  if (limits_saved) graph.ops[at(problem.block->away)].workspace = std::max(Bytes(0), peak - saved - given_back);
  return {std::make_shared<const Graph>(std::move(graph)), limits};
}

}  // namespace remora
