// SPDX-License-Identifier: Apache-2.0
//
// The literature's methods behind one interface: an Instance in, one sequence of computes out, and what the method can
// say about the optimum. solve() evaluates the sequence, checks it against the instance's limits and writes it down; a
// method need not hold the budget, only say its best.
//
//     none, greedy (Kumar et al. 2019, section 4), sqrt (Chen et al. 2016), rotor (Beaumont et al. 2019)
//
// Two more, which nothing here is built on, are programs of the benchmark (benchmarks/methods).
// Those that only construct are starts of a search, too, where it has no schedule yet.
#pragma once

#include <cstdint>

#include "engine/base/callbacks.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/method.hpp"
#include "engine/base/work.hpp"
#include "engine/search/search.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// The method of a strategy; null for strategies that search.
Method method_of(Strategy strategy);

/// True if the strategy searches, by workers of ours.
inline bool is_search(Strategy strategy) {
  return method_of(strategy) == nullptr;
}

/// Who brings what the strategy's method finds.
Source source_of(Strategy strategy);

/// Result of the method. It does not support `in_place`, without which no sequence takes less memory: where the graph has
/// that, the method sees it without, and what it proves is left out, being of another problem.
MethodResult run_method(Method method, const MethodInput& input);

/// A schedule that some method constructs.
struct Construction {
  Sequence sequence{};
  Source source = Source::none;
};

/// Rotor, sqrt and greedy in turn, until one of them holds the budget within the instance's computes; empty if none does
/// by the deadline and with so much effort. Empty, too, where the options say no to segments, and under a work limit on
/// graphs of more than 5,000 ops if effort has no limit. The instance is of the staged form and has one mode an op.
Construction construct(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                       Effort most = INT64_MAX);

/// Offers the search what construct() finds within a twentieth of its time limit, where it has nothing that holds the budget.
void start_from_construction(Search& search);

// XLA's rematerialization heuristic, as Kumar et al. 2019, section 4, describe it: goes through the schedule once, and
// where memory is over the limit gives up, one by one, the tensors whose recompute before their next use lowers
// the memory at that point most, until it fits or nothing lowers it any more.
//
//     budget 3    A B C D E, E reads a and d; at C a, b, c and d would be resident
//                 a goes first: A runs again right before E

/// A plan of the staged form, which may exceed the budget. The heuristic looks neither ahead nor at durations. At the
/// deadline, or after so much effort, it ends with the plan so far.
/// O(events over the budget * tensors alive there * what their recomputes change).
RecomputePlan greedy_plan(const Instance& instance, const Deadline& deadline, Effort most = INT64_MAX);

}  // namespace remora
