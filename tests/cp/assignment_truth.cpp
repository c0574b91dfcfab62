// SPDX-License-Identifier: Apache-2.0
#include "tests/cp/assignment_truth.hpp"

#include <algorithm>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::test {
namespace {

using cp::CopyId;
using cp::RetentionProblem;

bool copies_in_order(const RetentionProblem& problem, const std::vector<int>& values) {
  const int absent = problem.absent();
  for (int copy = 1; copy < problem.copy_count(); ++copy) {
    if (problem.owner(CopyId(copy)) != problem.owner(CopyId(copy - 1))) continue;
    const int earlier = values[static_cast<std::size_t>(copy) - 1];
    const int later = values[static_cast<std::size_t>(copy)];
    if (later != absent && earlier >= later) return false;
  }
  return true;
}

std::vector<int> taken_places(const RetentionProblem& problem, const std::vector<int>& values) {
  std::vector<int> taken(values.begin(), values.begin() + problem.copy_count());
  taken.erase(std::remove(taken.begin(), taken.end(), problem.absent()), taken.end());
  std::sort(taken.begin(), taken.end());
  return taken;
}

/// Each gap of the free order offers one place a copy; the first place needs no neighbour.
bool packed(const RetentionProblem& problem, const std::vector<int>& taken) {
  return std::all_of(taken.begin(), taken.end(), [&](int place) {
    return place % problem.copy_count() == 0 || std::binary_search(taken.begin(), taken.end(), place - 1);
  });
}

bool supplied(const Instance& instance, const std::vector<Compute>& sequence) {
  std::vector<bool> computed(static_cast<std::size_t>(instance.op_count()), false);
  const auto is_computed = [&](OpId op) { return computed[static_cast<std::size_t>(op)]; };
  for (const Compute& compute : sequence) {
    for (const TensorId t : instance.inputs(compute.op)) {
      if (!is_computed(instance.producer(t))) return false;
    }
    if (is_computed(compute.op)) continue;
    const auto& after = instance.graph().ops[static_cast<std::size_t>(compute.op)].after;
    if (!std::all_of(after.begin(), after.end(), is_computed)) return false;
    computed[static_cast<std::size_t>(compute.op)] = true;
  }
  return true;
}

bool tied(const Instance& instance, const std::vector<Compute>& sequence) {
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    const Compute& compute = sequence[step];
    if (!instance.offers(compute.op, compute.mode)) return false;
    const OpId leader = instance.leader(compute.op);
    if (!leader.valid()) continue;
    std::size_t server = step;
    while (server > 0 && sequence[server].op != leader) --server;
    if (sequence[server].op != leader || sequence[server].mode != compute.mode) return false;
  }
  return true;
}

bool light(const Instance& instance, const std::vector<Compute>& sequence) {
  for (int op = 0; op < instance.op_count(); ++op) {
    std::int64_t weight = 0;
    for (const Compute& compute : sequence) {
      if (compute.op == op) weight += instance.computes(compute.op, compute.mode);
    }
    if (weight > instance.most_computes(OpId(op))) return false;
  }
  return true;
}

/// Whether some op waits for the first compute of this one, though not for its outputs in any case.
bool awaited(const Instance& instance, OpId op) {
  const auto& ops = instance.graph().ops;
  for (int user = 0; user < instance.op_count(); ++user) {
    for (const TensorId t : instance.inputs(OpId(user))) {
      if (instance.producer(t) == op && ~instance.readers(OpId(user), t) != 0) return true;
    }
  }
  return std::any_of(ops.begin(), ops.end(), [&](const Op& other) {
    return std::find(other.after.begin(), other.after.end(), op) != other.after.end();
  });
}

/// Whether anything reads what the step leaves before its op is computed again.
bool serves(const Instance& instance, const std::vector<Compute>& sequence, std::size_t step) {
  const OpId op = sequence[step].op;
  for (std::size_t next = step + 1; next < sequence.size(); ++next) {
    if (sequence[next].op == op) return false;
    for (const TensorId t : instance.inputs(sequence[next].op)) {
      if (!instance.reads(sequence[next].op, sequence[next].mode, t)) continue;
      if (instance.producer(t) == op) return true;
    }
  }
  const auto outputs = instance.outputs(op);
  return std::any_of(outputs.begin(), outputs.end(), [&](TensorId t) { return instance.keep(t); });
}

bool has_useless(const RetentionProblem& problem, const std::vector<int>& values,
                 const std::vector<Compute>& sequence) {
  const Instance& instance = problem.instance();
  for (int c = 0; c < problem.copy_count(); ++c) {
    const CopyId copy(c);
    if (values[static_cast<std::size_t>(c)] == problem.absent()) continue;
    const OpId op = problem.free_ops()[problem.owner(copy)].op;
    // A first compute may come later if there is a recompute that can take its place.
    const bool replaceable = c + 1 < problem.copy_count() && problem.owner(CopyId(c + 1)) == problem.owner(copy) &&
                             values[static_cast<std::size_t>(c) + 1] != problem.absent();
    const bool may_go = problem.is_recompute(copy) || (problem.free_order() && replaceable && !awaited(instance, op));
    const std::size_t step = step_at(problem, values, moment_of_copy(problem, values, copy));
    if (may_go && !serves(instance, sequence, step)) return true;
  }
  return false;
}

}  // namespace

cp::Moment moment_of_copy(const RetentionProblem& problem, const std::vector<int>& values, CopyId copy) {
  return problem.moment_of(values[static_cast<std::size_t>(copy)], problem.free_ops()[problem.owner(copy)].op);
}

std::size_t step_at(const RetentionProblem& problem, const std::vector<int>& values, cp::Moment moment) {
  std::size_t step = 0;
  for (int slot = 1; slot < problem.slot_count(); slot += 2) step += problem.moment(slot) < moment ? 1U : 0U;
  for (int copy = 0; copy < problem.copy_count(); ++copy) {
    if (values[static_cast<std::size_t>(copy)] == problem.absent()) continue;
    step += moment_of_copy(problem, values, CopyId(copy)) < moment ? 1U : 0U;
  }
  return step;
}

Assignment truth_of(const RetentionProblem& problem, const std::vector<int>& values) {
  const Instance& instance = problem.instance();
  Assignment result{.values = values};
  const auto taken = taken_places(problem, values);
  result.in_order = copies_in_order(problem, values);
  result.distinct = !problem.free_order() || std::adjacent_find(taken.begin(), taken.end()) == taken.end();
  result.packed = !problem.free_order() || packed(problem, taken);
  for (int copy = 0; copy < problem.copy_count(); ++copy) {
    const int variable = problem.mode_variable(CopyId(copy));
    const bool absent = values[static_cast<std::size_t>(copy)] == problem.absent();
    if (absent && variable >= 0 && values[static_cast<std::size_t>(variable)] != 0) result.plain_absences = false;
  }
  const auto sequence = problem.sequence_with(values);
  result.supplied = supplied(instance, sequence);
  result.tied = tied(instance, sequence);
  result.light = light(instance, sequence);
  ensure(modes_hold(instance, sequence) == (result.tied && result.light), "truth: modes_hold says otherwise");
  if (!result.meaningful()) return result;
  result.useless = has_useless(problem, values, sequence);
  const Evaluation evaluation = evaluate(instance, std::span<const Compute>(sequence));
  result.memory = evaluation.memory;
  result.peak = evaluation.peak;
  result.extra = evaluation.duration - instance.baseline_duration();
  return result;
}

}  // namespace remora::test
