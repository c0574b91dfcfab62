// SPDX-License-Identifier: Apache-2.0
//
// Sequences of the free order: any in which every input has an earlier compute and first computes respect `after`.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora {

/// Whether the sequence solves the free order's problem but for the budget: every op, no op oftener than allowed, each
/// after the producers of its inputs, and first computes after those that they wait for.
bool is_free_sequence(const Instance& instance, std::span<const OpId> sequence);

/// Whether the sequence is one of the instance's problem: its order (input or free), `after`, and how often each op may
/// run. Says nothing of memory.
bool is_permitted(const Instance& instance, const std::vector<OpId>& sequence);

/// The sequence without the computes that serve nobody. A first compute that serves nobody goes, too, if a later one
/// takes its place and `after` says nothing of the op.
std::vector<OpId> without_useless(const Instance& instance, std::vector<OpId> sequence);

/// The steps that are not their op's first compute.
std::vector<std::size_t> recompute_steps(const Instance& instance, std::span<const OpId> sequence);

/// The first step after `step` that reads the tensor, or the end of the sequence.
std::size_t next_use(const Instance& instance, std::span<const OpId> sequence, std::size_t step, TensorId tensor);

/// The ops in the order of their first computes.
std::vector<OpId> first_computes(const Instance& instance, std::span<const OpId> sequence);

}  // namespace remora
