// SPDX-License-Identifier: Apache-2.0
//
// The library's main call: an Instance in, a Schedule out.
//
//     const Instance instance(graph, {.budget = Bytes(12LL << 30)});
//     const Schedule schedule = solve(instance, SolveOptions{});
//
// solve() keeps no state, prints nothing, and may run in several threads at once: solves are independent of each
// other. Asked for more threads than there are cores, it raises the limit of TBB for the process while it runs.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Solves the instance's problem. The schedule has status optimal, feasible, infeasible (with a certificate where one
/// event alone proves it) or unknown (its solver report then says which peak was reached). The graph's name is filled
/// in; the file's hash is the caller's business.
///
/// `warm_start`: a sequence of ops to start from, of any budget; the search goes on from it if it is better than the
/// input order. Recomputes beyond max_computes are left out. Empty for none.
///
/// Strategies of the literature, which do not search, leave the warm start and, but for checkmate, the work
/// limit aside; what they find is taken if it is a schedule of the instance's problem: its order, and how often each op
/// may run (default_problem()).
///
/// In free order the warm start is any valid sequence.
///
/// Where ops have several modes (model/modes.hpp), steps say which one, and a warm start is by mode 0 of every op.
/// verify() and the file format know mode 0 only: evaluate() and modes_hold()
/// judge such schedules.
///
/// Throws InputError for options out of range, for a strategy that does not search where ops have several modes, and for
/// a warm start that is not of the instance's form.
REMORA_API Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {},
                          std::span<const OpId> warm_start = {});

/// Throws the InputError that solve would throw for these.
REMORA_API void check_problem(const Instance& instance, const SolveOptions& options);

/// The smallest budget for which a schedule of the staged form exists lies within [proved, reached].
struct BudgetBracket {
  /// No schedule holds a budget of less.
  Bytes proved{};
  /// The peak of a schedule that was found.
  Bytes reached{};
  /// Its ops, if they are known; they are not where ops have several modes.
  Sequence sequence{};
  /// How often an op may run in all this.
  int max_computes = 0;
};

/// Bisects for the lower end, then searches at that budget (phase 1) within the options' limits. The instance's own
/// budget does not matter. Throws InputError where every op once by mode 0 is not allowed. `cancel`, which may be null, ends it with the bracket at hand.
/// `start`: a sequence of the instance's problem to begin with.
REMORA_API BudgetBracket bracket_min_budget(const Instance& instance, const SolveOptions& options,
                                            const std::atomic<bool>* cancel = nullptr, const Sequence& start = {});

}  // namespace remora
