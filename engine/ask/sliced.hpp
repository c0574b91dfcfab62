// SPDX-License-Identifier: Apache-2.0
//
// Requests that may compute parts of the graph in slices (docs/design/slices.md).
//
//     the graph as it is    a part of the limits; ends here where its schedule recomputes nothing
//     choose_slices         regions by bounds and peaks: a few candidates; or the regions that the user names
//     the candidates        a short search each
//     the best of all       a search from its schedule, with the rest of the limits
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "engine/ask/ask.hpp"
#include "engine/base/allowance.hpp"
#include "engine/slices/choose.hpp"
#include "model/graph.hpp"
#include "model/slices.hpp"

namespace remora {

/// The least memory that a short search reaches with slices.
struct SlicedReach {
  Slicing slicing{};
  BudgetBracket bracket{};
};

struct SlicedAnswer {
  /// Empty where the graph as it is has the shortest schedule, or where nothing fits.
  Slicing slicing{};
  /// The request's graph with these slices, which `answer` is for. Its bound is one for these slices.
  std::shared_ptr<const Graph> graph{};
  Answer answer{};
  /// The answer without slices, with its bound.
  Answer whole{};
  /// The result of reach_with_slices(), which is asked where automatic slices have no schedule.
  std::optional<SlicedReach> reach{};
};

/// Solves the request with slices where they make the schedule shorter, or possible; with those that it names in any
/// case. `callbacks` follow the last search. Throws InputError for what solve() rejects, for regions that cannot be
/// sliced, for modes, addresses and a start, which slices do not have, and for a callback for better schedules, which
/// would be of graphs that it does not know.
SlicedAnswer solve_sliced(const Request& request, const SolveCallbacks& callbacks = {});

/// Throws InputError for what slices do not have: modes, addresses and a start.
void check_sliceable(const Request& request);

/// As sweep(), of a request with slices.
SweepResult sweep_sliced(const Request& request, const SweepOptions& options, const SweepCallbacks& callbacks);

/// The same as solve() says it: the schedule has its slices, and the baselines of the request's graph.
Answer answer_of(const Request& request, SlicedAnswer&& sliced);

/// As solve(), of a request without slices, whose refusal says nothing of them, and is empty unless it `explains`.
Answer solve_whole(const Request& request, const SolveCallbacks& callbacks, bool explains = true);

/// The request's slices, or for automatic ones those that bring the graph nearest to the smallest budget, without a
/// search for a schedule. Throws InputError for what slices do not have, and for regions that cannot be sliced.
Slicing find_slices(const Request& request, const std::atomic<bool>* cancel);

/// Within an allowance, whose limits must not depend on the request's budget.
std::optional<SlicedReach> reach_with_slices(const Request& request, Allowance& allowance);

/// The slices that need the least memory, by a short search that does not depend on the request's budget: what it says
/// is enough is enough when it is asked for next, to the same limits. Nothing where no op has axes, where ops have
/// modes or offsets, and where slices do not help.
std::optional<SlicedReach> reach_with_slices(const Request& request, const std::atomic<bool>* cancel);

}  // namespace remora
