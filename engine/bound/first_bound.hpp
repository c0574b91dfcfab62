// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/rounds.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// What can be said without a search: infeasibility with its certificate (in the schedule), a lower bound, and what
/// guides the search. A bound that the state has already stays if it is better; nothing is done for an infeasible one.
void find_first_bound(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                      SearchState& state, Schedule& schedule);

}  // namespace remora
