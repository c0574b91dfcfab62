// SPDX-License-Identifier: Apache-2.0
#include "engine/hierarchy/group_option.hpp"

#include <algorithm>
#include <utility>

#include "model/evaluate.hpp"

namespace remora {
namespace {

using Kind = BlockOp::Kind;
using Role = BlockTensor::Role;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

bool is_interface(const BlockTensor& tensor) {
  return tensor.role == Role::input || tensor.role == Role::output;
}

/// The first step of a pseudo op, or `none` if it isn't there.
int step_of(const std::vector<Compute>& sequence, int op, int none) {
  if (op < 0) return none;
  const auto found = std::find_if(sequence.begin(), sequence.end(), [&](const Compute& c) { return c.op == op; });
  return static_cast<int>(found - sequence.begin());
}

/// Memory at each step without the interface.
std::vector<Bytes> inner_memory(const BlockProblem& problem, const Evaluation& evaluation) {
  std::vector<Bytes> change(evaluation.memory.size() + 1);
  for (const RetentionInterval& interval : evaluation.intervals) {
    if (!is_interface(problem.block->tensors[at(interval.tensor)])) continue;
    change[at(interval.first_step)] += interval.size;
    change[at(interval.last_step) + 1] -= interval.size;
  }
  std::vector<Bytes> result = evaluation.memory;
  Bytes here;
  for (std::size_t step = 0; step < result.size(); ++step) result[step] -= here += change[step];
  return result;
}

/// Duration, and the most inner memory beyond the phantom, of steps [first, end).
HalfCost cost_of(const Instance& instance, const std::vector<Compute>& sequence, const std::vector<Bytes>& inner,
                 int first, int end, Bytes saved) {
  HalfCost cost;
  for (int step = first; step < end; ++step) {
    const Compute& compute = sequence[at(step)];
    cost.duration += instance.duration(compute.op, compute.option);
    cost.workspace = std::max(cost.workspace, inner[at(step)] - saved);
  }
  return cost;
}

int weight(const BlockProblem& problem, const Compute& compute) {
  const BlockOp& op = problem.block->ops[at(compute.op)];
  if (op.kind != Kind::forward_half) return op.kind == Kind::op ? 1 : 0;
  const ChildOptions& child = problem.children[at(op.child)];
  return at(compute.option) < child.options.size() ? child.options[at(compute.option)].computes : 1;
}

int most_computes(const BlockProblem& problem, const std::vector<Compute>& sequence) {
  std::vector<int> computes(problem.block->ops.size(), 0);
  int most = 1;
  for (const Compute& compute : sequence) most = std::max(most, computes[at(compute.op)] += weight(problem, compute));
  return most;
}

bool repeatable(const BlockProblem& problem) {
  const int end = problem.block->has_halves() ? problem.block->leave : static_cast<int>(problem.block->ops.size());
  for (int o = 0; o < end; ++o) {
    const Op& op = problem.graph->ops[at(o)];
    const bool often = op.max_computes.value_or(problem.max_computes) >= problem.max_computes;
    if (problem.block->ops[at(o)].kind != Kind::enter && (!op.recompute || !often)) return false;
  }
  return true;
}

void append_own(const BlockProblem& problem, const std::vector<Compute>& sequence, int first, int end,
                std::vector<Compute>& half) {
  for (int step = first; step < end; ++step) {
    const Kind kind = problem.block->ops[at(sequence[at(step)].op)].kind;
    if (kind != Kind::enter && kind != Kind::leave && kind != Kind::away) half.push_back(sequence[at(step)]);
  }
}

}  // namespace

GroupOption measure_option(const BlockProblem& problem, const Instance& instance, std::vector<Compute> sequence) {
  const Block& block = *problem.block;
  const Evaluation evaluation = evaluate(instance, sequence);
  const int steps = static_cast<int>(sequence.size());
  const int away = step_of(sequence, block.away, steps);
  GroupOption option;
  option.computes = most_computes(problem, sequence);
  option.repeatable = repeatable(problem);
  const std::vector<int> interface = block.interface();
  option.reads.assign(interface.size(), false);
  for (const RetentionInterval& interval : evaluation.intervals) {
    const BlockTensor& tensor = block.tensors[at(interval.tensor)];
    const bool given_back = away < steps && interval.first_step == away && interval.last_step > away;
    const bool across = interval.first_step < away && interval.last_step > away;
    if (!across && !given_back) continue;
    if (is_interface(tensor)) {
      const auto position = std::lower_bound(interface.begin(), interface.end(), std::int32_t{interval.tensor});
      option.reads[at(static_cast<int>(position - interface.begin()))] = true;
    } else if (across) {
      option.saved += interval.size;
    }
  }
  const std::vector<Bytes> inner = inner_memory(problem, evaluation);
  const int first = block.enter >= 0 ? 1 : 0;
  for (int step = first; step < steps; ++step) {
    if (step != away) option.peak = std::max(option.peak, evaluation.memory[at(step)]);
  }
  option.forward_cost = cost_of(instance, sequence, inner, first, away, option.saved);
  if (away < steps) option.backward_cost = cost_of(instance, sequence, inner, away + 1, steps, option.saved);
  append_own(problem, sequence, 0, away, option.forward);
  append_own(problem, sequence, std::min(away, steps), steps, option.backward);
  return option;
}

GroupOption passing_option(const BlockProblem& problem, const Instance& instance) {
  const Block& block = *problem.block;
  const int end = block.has_halves() ? block.leave : static_cast<int>(block.ops.size());
  std::vector<Compute> sequence;
  for (int o = 0; o < end; ++o) {
    const BlockOp& op = block.ops[at(o)];
    const bool child = op.kind == Kind::forward_half && block.has_halves();
    const Option pass = child ? static_cast<Option>(problem.children[at(op.child)].options.size()) : 0;
    const bool offered = child && instance.offers(OpId(o), pass);
    sequence.push_back({OpId(o), offered ? pass : 0});
  }
  // What the group makes for others stays until it leaves.
  if (block.has_halves()) sequence.push_back({OpId(block.leave), 0});
  GroupOption option = measure_option(problem, instance, std::move(sequence));
  option.reads.assign(block.interface().size(), false);
  return option;
}

}  // namespace remora
