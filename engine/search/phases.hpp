// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/mix.hpp"
#include "engine/search/rounds.hpp"
#include "engine/solve.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The workers of both phases, with what they have learned; made when a phase begins.
struct PhaseWorkers {
  std::optional<Mix> feasibility{};
  std::optional<Mix> duration{};
};

/// Phases 1 and 2 of Moccasin, section 2.4, from the state's incumbent, which holds the budget or not: until the
/// incumbent is proved optimal, a limit is reached or infeasibility is proved. May be called again to go on, with the
/// same workers or new ones; the report's times add up.
void run_phases(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                const Deadline& deadline, PhaseWorkers& workers, SearchState& state, SolverReport& report);

/// Nothing is left to search for.
bool is_settled(const Instance& instance, const SearchState& state);

}  // namespace remora
