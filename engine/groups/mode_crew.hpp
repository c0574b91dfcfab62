// SPDX-License-Identifier: Apache-2.0
//
// The workers that search where ops have several modes: the complete search of the constraint program, which chooses
// modes with starts, and compositions (composition.hpp), which exchange modes and search neighbourhoods.
#pragma once

#include "engine/base/options.hpp"
#include "engine/search/mix.hpp"
#include "model/instance.hpp"

namespace remora {

/// In either order. Strategies say whether the complete search takes part, and whether anything else does; of the local
/// searches, compositions are the one that knows modes.
Mix mode_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase);

}  // namespace remora
