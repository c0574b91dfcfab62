// SPDX-License-Identifier: Apache-2.0
//
// The library's main call: an Instance in, a Schedule out.
//
//     const Instance instance(graph, {.budget = Bytes(12LL << 30)});
//     const Schedule schedule = solve(instance, SolveOptions{});
//
// solve() keeps no state, prints nothing, and may run in several threads at once: two solves know nothing of each
// other. Asked for more threads than there are cores, it raises the limit of TBB for the process while it runs.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>

#include "engine/base/block_store.hpp"
#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// What a solve knows at one moment.
struct Progress {
  double seconds = 0;
  /// 1: looking for a schedule within the budget (Moccasin, eq. 12-13); 2: shortening it.
  int phase = 1;
  /// The worker that brought the news, or what began; empty for a heartbeat.
  std::string source{};
  /// Of the incumbent: in phase 1 its peak is still above the budget.
  Duration duration{};
  Bytes peak{};
  Duration lower_bound{};
  /// Units of work done so far.
  std::int64_t work = 0;
};

/// An exception that a callback throws ends the solve and comes out of it.
struct SolveCallbacks {
  /// Every schedule within the budget that the search begins with or finds to be better than the one before: what
  /// solve() would return if it ended here, but for the solver report's phases, note and statistics. Called before
  /// `progress` is told of it, from the same thread. May be empty.
  std::function<void(const Schedule&)> incumbent{};
  /// For every better schedule and bound, and every phase that begins. Called from the thread that called solve(),
  /// never concurrently. May be empty.
  std::function<void(const Progress&)> progress{};
  /// The same, after every round of the search whether it brought news or not: some ten times a second. May be empty.
  std::function<void(const Progress&)> heartbeat{};
  /// Asked in every round: true ends the search with the incumbent, as a limit does. May be empty.
  std::function<bool(const Progress&)> enough{};
  /// Set to true from anywhere (a signal handler, another thread) to stop with the incumbent. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// Options of groups that this solve and others have found, for strategies with a hierarchy. May be null.
  BlockStore* blocks = nullptr;
};

/// Solves the instance's problem. The schedule has status optimal, feasible, infeasible (with a certificate where one
/// event alone proves it) or unknown (its solver report then says which peak was reached). The graph's name is filled
/// in; the file's hash is the caller's business.
///
/// `warm_start`: a sequence of ops to start from, of any budget; the search goes on from it if it is better than the
/// input order. Recomputes beyond max_computes are left out. Empty for none.
///
/// Strategies that do not search (engine/baselines/method.hpp) leave the warm start and, but for checkmate, the work
/// limit aside; what they find is taken if it is a schedule of the instance's problem: its order, and how often each op
/// may run (default_problem()).
///
/// In free order the warm start is any valid sequence (engine/free/free_search.hpp has that search).
///
/// Throws InputError for options out of range, for an instance with options per op (the model in model/cp knows them,
/// the search does not yet), and for a warm start that is not of the instance's form.
REMORA_API Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {},
                          std::span<const OpId> warm_start = {});

/// Throws the InputError that solve would throw for these.
REMORA_API void check_problem(const Instance& instance, const SolveOptions& options);

}  // namespace remora
