// SPDX-License-Identifier: Apache-2.0
//
// A schedule of the staged form, reduced to its decisions: which op is recomputed in which stage.
//
// With the first computes fixed in the input order, any choice of recompute stages is a valid sequence, because every
// input has an earlier compute; only memory can be violated. So a plan is nothing but a sorted list of (stage, op).
#pragma once

#include <compare>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora {

/// Op `op` runs once more in stage `stage`, op < stage <= op_count.
struct Recompute {
  Stage stage = 0;
  OpId op{};

  friend constexpr auto operator<=>(const Recompute&, const Recompute&) = default;
};

/// Sorted by (stage, op), without doubles.
using RecomputePlan = std::vector<Recompute>;

/// The sequence that the plan stands for: in each stage its recomputes in input order, then the stage's first compute.
std::vector<OpId> sequence_of(const Instance& instance, std::span<const Recompute> plan);

/// Whether the sequence is of the staged form: the first computes follow the input order, the recomputes of a stage
/// too, and no op runs twice in one stage.
bool is_staged(const Instance& instance, std::span<const OpId> sequence);

/// The plan of a staged sequence (else std::logic_error).
RecomputePlan plan_of(const Instance& instance, std::span<const OpId> sequence);

/// The plan without the recomputes that serve no use, found by replaying it until nothing changes.
RecomputePlan without_useless(const Instance& instance, RecomputePlan plan);

/// The plan without the recomputes of each op beyond what its limit of computes allows.
RecomputePlan within_limits(const Instance& instance, RecomputePlan plan);

/// The time that the recomputes cost.
Duration extra_duration(const Instance& instance, std::span<const Recompute> plan);

}  // namespace remora
