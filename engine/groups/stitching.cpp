// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/stitching.hpp"

#include <algorithm>

#include "model/table.hpp"

namespace remora {
namespace {

/// Depth is that of the hierarchy, which is logarithmic.
// NOLINTNEXTLINE(misc-no-recursion)
void append(const Hierarchy& hierarchy, const Block& block, std::span<const Compute> half, std::vector<OpId>& result) {
  for (const Compute& compute : half) {
    const BlockOp& op = block.ops[at(compute.op)];
    if (op.kind == BlockOp::Kind::op) {
      result.push_back(op.op);
      continue;
    }
    const int child = block.children[at(op.child)];
    const ClassSchedules& schedules = hierarchy.schedules[at(hierarchy.class_of(child))];
    const bool pass = at(compute.mode) >= schedules.schedules.size();
    const BlockSchedule& schedule = pass ? schedules.pass : schedules.schedules[at(compute.mode)];
    const bool forward = op.kind == BlockOp::Kind::forward_half;
    append(hierarchy, hierarchy.block(child), forward ? schedule.forward : schedule.backward, result);
  }
}

}  // namespace

BlockProblem Hierarchy::problem_of(const Instance& network, const Block& block) const {
  std::vector<ChildSchedules> children;
  children.reserve(block.children.size());
  for (const int child : block.children) {
    const ClassSchedules& of_child = schedules[at(class_of(child))];
    children.push_back({of_child.schedules, &of_child.pass});
  }
  return make_block_problem(network, block, std::move(children));
}

std::vector<OpId> expand(const Hierarchy& hierarchy, std::span<const Compute> root_sequence) {
  std::vector<OpId> result;
  append(hierarchy, hierarchy.blocks.back(), root_sequence, result);
  return result;
}

RecomputePlan plan_of_any(const Instance& network, std::span<const OpId> sequence) {
  std::vector<int> computes(at(network.op_count()), 0);
  std::vector<bool> first(sequence.size(), false);
  for (std::size_t step = 0; step < sequence.size(); ++step) first[step] = computes[at(sequence[step])]++ == 0;
  RecomputePlan plan;
  Stage stage = network.op_count();
  for (std::size_t step = sequence.size(); step-- > 0;) {
    const OpId op = sequence[step];
    if (first[step]) {
      stage = op;
    } else if (stage > op) {
      plan.push_back({stage, op});
    }
  }
  std::sort(plan.begin(), plan.end());
  plan.erase(std::unique(plan.begin(), plan.end()), plan.end());
  return within_limits(network, std::move(plan));
}

}  // namespace remora
