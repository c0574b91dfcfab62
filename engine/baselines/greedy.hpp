// SPDX-License-Identifier: Apache-2.0
//
// XLA's rematerialization heuristic, as Kumar et al. 2019, section 4, describe it: goes through the schedule once, and
// where memory is over the limit gives up, one by one, the tensors whose recompute before their next use lowers
// the memory at that point most, until it fits or nothing lowers it any more.
//
//     budget 3    A B C D E, E reads a and d; at C a, b, c and d would be resident
//                 a goes first: A runs again right before E
#pragma once

#include "engine/base/deadline.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

/// A plan of the staged form, which may exceed the budget. The heuristic looks neither ahead nor at durations. At the
/// deadline it ends with the plan so far.
/// O(events over the budget * tensors alive there * what their recomputes change).
RecomputePlan greedy_plan(const Instance& instance, const Deadline& deadline);

}  // namespace remora
