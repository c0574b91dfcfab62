// SPDX-License-Identifier: Apache-2.0
//
// The search for a budget that is enough, beside the one that was asked for: short, and the same at the next budget.
#pragma once

#include <atomic>
#include <optional>

#include "engine/ask/ask.hpp"
#include "engine/base/allowance.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"

namespace remora {

/// The options of a search beside the one asked for, which depends neither on a budget nor on the clock: so much work,
/// which takes so many seconds where nothing else runs, and less where the options' own limits are below that.
SolveOptions short_options(SolveOptions options, const Limits& limits);

/// Checkpoints between segments, by start_from_segments() for as long as some 0.02 s take; `effort` gets what it took.
Solution short_checkpoints(const Instance& deep, const Deadline& deadline, Effort& effort);

/// As least_budget() with such options, and by methods that reach less memory with many runs per op: what it reaches
/// does not depend on the request's budget. Nothing where mode 0 does not do for every op.
/// Ends earlier where the allowance does, of which it spends its work.
std::optional<BudgetBracket> short_least_budget(const Instance& unlimited, const Request& request,
                                                Allowance& allowance);

}  // namespace remora
