// SPDX-License-Identifier: Apache-2.0
//
// Sequences of the two problems.
//
//   staged form   first computes in input order. Reduced to its decisions a schedule is a plan: which op is recomputed in
//                 which stage. Any choice of stages is a valid sequence, because every input has an earlier compute; only
//                 memory can be violated.
//   free order    any sequence in which every input has an earlier compute and first computes respect `after`.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora {

/// Op `op` runs once more in stage `stage`, op < stage <= op_count.
struct Recompute {
  Stage stage{0};
  OpId op{};

  friend constexpr auto operator<=>(const Recompute&, const Recompute&) = default;
};

/// How many stages a plan needs: one a first compute, and one more at the end where an output must be kept.
int stages_of(const Instance& instance);

/// Sorted by (stage, op), without doubles.
using RecomputePlan = std::vector<Recompute>;

/// The sequence that the plan stands for: in each stage its recomputes in input order, then the stage's first compute.
Sequence sequence_of(const Instance& instance, std::span<const Recompute> plan);

/// True if a schedule of the problem is what a plan says: in the input order, with one mode per op.
inline bool has_plans(const Instance& instance) {
  return instance.problem().order == OrderMode::input && !instance.has_modes();
}

/// True if the sequence is of the staged form: the first computes follow the input order, the recomputes of a stage
/// too, and no op runs twice in one stage.
bool is_staged(const Instance& instance, std::span<const OpId> sequence);

/// The plan of a staged sequence (else std::logic_error).
RecomputePlan plan_of(const Instance& instance, std::span<const OpId> sequence);

/// The plan without the recomputes of each op beyond what its limit of computes allows.
RecomputePlan within_limits(const Instance& instance, RecomputePlan plan);

/// The sequence without the runs of each op beyond what its limit allows.
std::vector<Compute> within_limits(const Instance& instance, std::span<const Compute> sequence);

/// The time that the recomputes cost.
Duration extra_duration(const Instance& instance, std::span<const Recompute> plan);

/// A plan of the staged form without the recomputes that serve no use, and what it needs.
struct PlanEvaluation {
  RecomputePlan plan{};
  Duration extra{};
  Bytes peak{};
};

/// In one pass from the last step to the first. The instance has one mode an op. O(ops + recomputes + their inputs and
/// outputs).
PlanEvaluation evaluate_plan(const Instance& instance, RecomputePlan plan);

/// True if the sequence solves the free order's problem but for the budget: every op, no op oftener than allowed, each
/// after the producers of its inputs, and first computes after those that they wait for.
bool is_free_sequence(const Instance& instance, std::span<const OpId> sequence);

/// True if the sequence is one of the instance's problem: its order (input or free), `after`, and how often each op may
/// run. Says nothing of memory.
bool is_permitted(const Instance& instance, const Sequence& sequence);

/// For each step of the sequence, whether some later step (or the end) reads what it computes.
std::vector<bool> useful_steps(const Instance& instance, std::span<const OpId> sequence);

/// The sequence without the computes that serve nobody. A first compute that serves nobody goes, too, if a later one
/// takes its place and `after` says nothing of the op.
Sequence without_useless(const Instance& instance, Sequence sequence);
std::vector<Compute> without_useless(const Instance& instance, std::vector<Compute> sequence);

/// The steps that are not their op's first compute.
std::vector<std::size_t> recompute_steps(const Instance& instance, std::span<const OpId> sequence);

/// The first step after `step` that reads the tensor, or the end of the sequence.
std::size_t next_use(const Instance& instance, std::span<const OpId> sequence, std::size_t step, TensorId tensor);

/// The ops in the order of their first computes.
Order first_computes(const Instance& instance, std::span<const OpId> sequence);

}  // namespace remora
