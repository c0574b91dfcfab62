// SPDX-License-Identifier: Apache-2.0
//
// Recomputes and addresses together: a schedule whose tensors and workspaces have places in one arena that stays within
// the budget, not only their sum.
//
//     sizes rounded up to the alignment, as they are where something lies above
//     solve  ->  schedule  ->  place within budget - fixed memory
//       ^                          |
//       |    it does not pack: the ops that run where the placement is above the budget get a larger workspace, a
//       +--  smaller capacity there and nowhere else
//
// until a schedule packs, or the limits end it; then the best schedule on the way that packs is the answer. What the first
// solve proves holds of the whole problem: nothing that packs has a smaller sum of rounded sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "engine/placement/place.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// As solve() (engine/solve.hpp), with Schedule::arena. Status unknown, with a note, where schedules within the budget were
/// found and none that packs. The callbacks' schedules have no arena yet, and need not pack. Throws InputError as solve()
/// does, for an alignment that is not from 1 to 2^30, for sizes that, each rounded up, add up to 2^62 bytes or more, for
/// ops with several modes, and for a graph with `in_place`.
REMORA_API Schedule solve_with_addresses(const Instance& instance, const SolveOptions& options, Bytes alignment,
                                         const SolveCallbacks& callbacks = {}, std::span<const OpId> warm_start = {});

/// Places a schedule as it is: it gets its arena where that and the fixed memory stay within its budget, and loses one that
/// it had. Throws InputError for an alignment as above, and for a schedule of another graph; the rest as place().
REMORA_API PlaceResult place_schedule(const Graph& graph, Schedule& schedule, Bytes alignment,
                                      const PlaceSettings& settings, const std::function<bool()>& interrupted);

/// Throws InputError for an alignment that is not from 1 to 2^30.
REMORA_API void check_alignment(Bytes alignment);

}  // namespace remora
