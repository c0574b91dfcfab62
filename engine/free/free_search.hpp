// SPDX-License-Identifier: Apache-2.0
//
// Order and recomputes together: the search of problems in free order (Moccasin, section 2.1).
//
//     an order of small peak, without recompute            minimise_peak: within the budget, nothing is left to pay
//     then in turns, by what each has brought of late:
//       recomputes along one order                         all that searches along an input order (order_view.hpp),
//                                                          of the file, of small peak, of the incumbent
//       both at once, on the incumbent                     free_workers.hpp; the free-order constraint program on
//                                                          neighbourhoods or, if small, on all
//
// One incumbent is handed from turn to turn. The bound is that of the free order: a relaxation of one order says
// nothing about another.
#pragma once

#include "engine/base/block_store.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/search.hpp"
#include "model/instance.hpp"

namespace remora {

/// The crew of the joint turns.
Mix free_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase);

/// Searches until the whole, of a problem in free order and with the crew above, is settled or a limit of its options
/// is reached. `blocks`: as in SolveCallbacks.
void search_free_order(Search& whole, const Deadline& deadline, BlockStore* blocks);

}  // namespace remora
