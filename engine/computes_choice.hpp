// SPDX-License-Identifier: Apache-2.0
//
// How often an op may run, where that is left to the engine. With two computes an op the relaxations say most and proofs
// are near; at tight budgets, on deep networks above all, only more computes hold the budget, or are shorter. So the problem
// with two comes first, and one more at a time is allowed
//
//     where it is proved that there is no schedule, or none was found in a quarter or half of what is left of the limits
//     where checkpoints between segments (docs/search.md), which take milliseconds, are better with one more, and two have
//     been given a quarter of what was left, or are proved to be worse; they are the answer until something better is found
//     where the best schedule is proved, for a quarter as long again as that took
//
// as long as that brings something.
#pragma once

#include <atomic>
#include <optional>
#include <span>

#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "engine/solve.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// More were never seen to pay where fewer did not.
inline constexpr int kMostComputes = 8;
/// Of what a proof has taken: for the same with one compute more.
inline constexpr double kPartAfterProof = 0.25;

/// The same problem with at most so many computes an op.
Instance with_computes(const Instance& instance, int most);

/// As solve(), for the instance's computes an op or more: the best schedule there is, of the problem with the fewest computes
/// that has it, with that problem's status and bound. `solver.max_computes` says which one, the note why. A warm start that
/// holds the budget with more computes is where it begins. Methods that do not search keep to the instance's.
///
/// `alignment`: each problem is solved as by solve_with_addresses().
REMORA_API Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                             const SolveCallbacks& callbacks = {},
                                             std::span<const OpId> warm_start = {},
                                             std::optional<Bytes> alignment = {});

/// As bracket_min_budget(), with the instance's computes an op or more: half of the time that is left for each number of
/// computes, as long as one more reaches less. What is proved is of the number that the bracket says.
REMORA_API BudgetBracket bracket_with_more_computes(const Instance& instance, const SolveOptions& options,
                                                    const std::atomic<bool>* cancel = nullptr);

}  // namespace remora
