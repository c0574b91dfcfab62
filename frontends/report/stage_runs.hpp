// SPDX-License-Identifier: Apache-2.0
//
// Checkmate's matrices R and S (Jain et al. 2020; frontends/formats/stage_matrices.hpp) as lists of what is not 0,
// for graphs whose dense matrices nobody wants to write down.
#pragma once

#include <vector>

#include "frontends/report/schedule_profile.hpp"

namespace remora::report {

/// The stage of every step: how many ops have been computed before it. For a schedule whose first computes follow the
/// input order.
std::vector<Stage> stages_of(const Replay& replay);

/// The ones of S, by op: O(r log r) for r residences.
std::vector<RetainedStages> retained_stages(const Graph& graph, const Replay& replay, const std::vector<Stage>& stages);

}  // namespace remora::report
