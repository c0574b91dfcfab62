// SPDX-License-Identifier: Apache-2.0
//
// Order and recomputes together: the search of problems in free order (Moccasin, section 2.1).
//
//     an order of small peak, without recompute            minimise_peak: within the budget, nothing is left to pay
//     then in turns, by what each has brought of late:
//       recomputes along one order                         all that searches along an input order (view_search.hpp),
//                                                          of the file, of small peak, of the incumbent
//       both at once, on the incumbent                     reorder_worker.hpp, joint_annealing_worker.hpp; the free-order
//                                                          constraint program on neighbourhoods or, if small, on all
//
// One incumbent is handed from turn to turn. The bound is that of the free order: a relaxation of one order says
// nothing about another.
#pragma once

#include <span>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/rounds.hpp"
#include "engine/solve.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The best start there is: the input order or, if that is better, the warm start, recomputes beyond the limit left
/// out. Throws InputError for a warm start that is no sequence of the free order.
Solution first_free_solution(const Instance& instance, std::span<const OpId> warm_start);

/// Searches from the state's incumbent and bound until it is proved optimal or a limit is reached.
void search_free_order(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                       const Deadline& deadline, SearchState& state, SolverReport& report);

}  // namespace remora
