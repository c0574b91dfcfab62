// SPDX-License-Identifier: Apache-2.0
//
// What a search knows, as the schedule that is given out.
#pragma once

#include <span>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/rounds.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Everything but the steps: what is known before and without a search.
Schedule describe_problem(const Instance& instance, const SolveOptions& options);

/// Bound, status, work and history of the state; and the sequence's steps, if it is one of all ops that holds the
/// budget.
void write_answer(const Instance& instance, const SearchState& state, std::span<const OpId> sequence,
                  Schedule& schedule);

/// Both, of a sequence found on the way.
Schedule incumbent_of(const Instance& instance, const SolveOptions& options, const SearchState& state,
                      std::span<const OpId> sequence, const Deadline& deadline);

}  // namespace remora
