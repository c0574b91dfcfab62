// SPDX-License-Identifier: Apache-2.0
//
// Where a search begins: the input order, a warm start, what the covering relaxation gives up, what groups' options
// compose to; whichever is best.
#pragma once

#include <span>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/groups/groups.hpp"
#include "engine/search/rounds.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The input order or, if that is better, the warm start; empty for none. Throws InputError for a warm start that is
/// not of the staged form. Recomputes beyond an op's limit are left out.
Solution first_solution(const Instance& instance, std::span<const OpId> warm_start);

/// What the relaxation gives up, given up, if that is better than the incumbent.
void start_from_relaxation(const Instance& instance, const SolveOptions& options, SearchState& state);

/// Whether the solve starts from groups: strategy hierarchical, and automatic where it pays.
bool wants_groups(const Instance& instance, const SolveOptions& options);

/// What the groups' options compose to, if that is better. The report gets the statistics, and a note that says why.
void start_from_groups(const Instance& instance, const SolveOptions& options, const Groups& groups,
                       const Deadline& deadline, SearchState& state, SolverReport& report);

}  // namespace remora
