// SPDX-License-Identifier: Apache-2.0
//
// One problem, as an Instance states it: this order, and no more computes an op than it says. Who asks with a Request
// (engine/ask/ask.hpp) gets here with each problem that the request comes to.
//
//     const Instance instance(graph, {.budget = Bytes(12LL << 30)});
//     const Schedule schedule = solve(instance, SolveOptions{});
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "engine/ask/ask.hpp"
#include "engine/base/allowance.hpp"
#include "engine/base/callbacks.hpp"
#include "engine/base/method.hpp"
#include "engine/base/options.hpp"
#include "engine/search/search.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Solves the instance's problem. The schedule has status optimal, feasible, infeasible (with a certificate where one
/// event alone proves it) or unknown (its solver report then says which peak was reached). The graph's name is filled
/// in; the file's hash is the caller's business.
///
/// `warm_start`: runs to start from, of any budget; the search goes on from it if it is better than the
/// input order. Recomputes beyond max_computes are left out. Empty for none.
///
/// Strategies of the literature, which do not search, leave the warm start and the work limit aside; what they find is
/// taken if it is a schedule of the instance's problem: its order, and how often each op may run.
///
/// In free order the warm start is any valid sequence.
///
/// Throws InputError for options out of range, for a strategy that does not search where ops have several modes, and
/// for a warm start that is not of the instance's form.
///
/// `proof`: the steps of the proof beside the search, of this problem or one that allows more; empty for those of the
/// period relaxation. Only with one mode an op and the input order.
Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks = {},
               std::span<const Compute> warm_start = {}, Prover::Step proof = {});

/// Solves the instance's problem by a method, with the first bound. The options' strategy does not matter.
Schedule solve_by_method(Method method, const Instance& instance, const SolveOptions& options,
                         const SolveCallbacks& callbacks = {});

/// The recipe of a search of the staged form: its workers, the proof by periods, and where it may begin, and when.
/// `is_warm`: it begins from a schedule that it is given.
SearchParts whole_search(const Instance& instance, const SolveOptions& options, BlockStore* blocks, bool is_warm);

/// Throws the InputError that solve would throw for these.
void check_problem(const Instance& instance, const SolveOptions& options);

/// As solve(), with Schedule::arena. Status unknown, with a note, where schedules within the budget were found and none
/// that packs. The callbacks' schedules have no arena yet, and need not pack. Throws InputError as solve() does, for an
/// alignment that is not from 1 to 2^30, for sizes that, each rounded up, add up to 2^62 bytes or more, for ops with
/// several modes, and for a graph with `in_place`.
///
/// `proof`: of the problem without addresses, or one that allows more.
Schedule solve_with_addresses(const Instance& instance, const SolveOptions& options, Bytes alignment,
                              const SolveCallbacks& callbacks = {}, std::span<const Compute> warm_start = {},
                              Prover::Step proof = {});

/// A sequence of the instance's problem with addresses in the smallest arena that a short search finds for it, the same
/// for the same sequence and alignment unless `cancel`, which may be null, ends it.
Schedule placed(const Instance& instance, std::span<const Compute> sequence, Bytes alignment,
                const std::atomic<bool>* cancel = nullptr);

/// The graph with sizes rounded up to the alignment, as they are where something lies above.
std::shared_ptr<Graph> rounded_graph(const Graph& graph, Bytes alignment);

/// Work that is not counted where it is done: of a step of the relaxation's bisection, or of a search's bound and
/// starts. Some six microseconds an op and an edge.
Work work_of_look(const Instance& instance);

/// As the call of ask.hpp, of a problem as it is stated and within what is left of the allowance, which it spends;
/// `with_more`: with more computes an op, too, where they reach less.
BudgetBracket least_budget(const Instance& instance, const SolveOptions& options, bool with_more, Allowance& allowance);

/// The problem that was searched, as far as advice depends on it.
struct SearchedProblem {
  OrderMode order = OrderMode::input;
  bool is_search = true;
  /// The user's number, not the engine's.
  bool limits_computes = false;
  Stop stop = Stop::unknown;
  bool has_devices = false;
};

/// Adds suggestions, by the refusal's cause.
void advise(const SearchedProblem& problem, Refusal& refusal);

/// Why the schedule, an answer to the request, has no steps. A short search looks for a budget that is enough; where
/// that turns out to be the request's own, what it has found becomes the schedule, and the cause is none. Its
/// reached_peak becomes what is enough.
Refusal refuse(const Request& request, const Instance& stated, Schedule& schedule, const std::atomic<bool>* cancel);

// How often an op may run, where that is left to the engine: deepening.cpp.

/// More were never seen to pay where fewer did not.
inline constexpr int kMaxComputes = 8;
/// Resources that a proof has used: for the same with more runs.
inline constexpr double kPartAfterProof = 0.25;

/// The same problem with at most so many computes an op.
Instance with_computes(const Instance& instance, int most);

/// True if any op may run more often in b than in a.
bool allows_more(const Instance& a, const Instance& b);

/// As solve(), for the instance's computes an op or more: the best schedule there is, of the problem with the fewest
/// computes that has it. `solver.max_computes` says which one, the note why. `optimal` is said where no schedule with
/// any number of computes is shorter; where that is proved for a number only, the status is feasible and
/// `solver.optimal_for_max_computes` that number. The bound is one for any number. A warm start that holds the budget
/// with more computes is where it begins. Methods that do not search keep to the instance's.
///
/// `alignment`: each problem is solved as by solve_with_addresses().
Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                  const SolveCallbacks& callbacks = {}, std::span<const Compute> warm_start = {},
                                  std::optional<Bytes> alignment = {});

/// The same from a schedule that was found with the instance's computes: whether more are shorter, and with which
/// proof.
Schedule solve_beyond(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                      Schedule known);

// The problem that a request states.

/// Chooses for the instance's graph and budget; its own order mode is not used. That search is limited by work, so that
/// the same options give the same choice on every machine, and by a tenth of the time limit, which it does not use up.
/// `cancel` (may be null) ends it early. Methods keep to the input order; their answer is judged in the order that is
/// chosen.
OrderChoice choose_order(const Instance& instance, const SolveOptions& options,
                         const std::atomic<bool>* cancel = nullptr);

/// The requested order, without a reason, or else choose_order.
OrderChoice settle_order(const Instance& instance, OrderRequest request, const SolveOptions& options,
                         const std::atomic<bool>* cancel = nullptr);

/// The same graph, budget and computes an op in this order.
Instance with_order(const Instance& instance, OrderMode order);

/// Replays it where there is one: a broken invariant else.
void expect_valid(const Instance& instance, const Schedule& schedule);

/// The problem without a budget. Throws InputError for order auto: `why` there is nothing to choose by.
Instance unbudgeted(const Request& request, const std::string& why);

}  // namespace remora
