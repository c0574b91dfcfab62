// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/search/mix.hpp"
#include "model/instance.hpp"

namespace remora {

/// How many workers of each kind a strategy that searches sends into its rounds.
struct CrewPlan {
  bool complete = false;
  bool benders = false;
  int neighbourhoods = 0;
  int ruins = 0;
  int annealings = 0;
};

CrewPlan crew_plan(Strategy strategy);

/// Those of the constraint program's neighbourhoods that the phase needs; takes a seed for each.
void hire_neighbourhoods(int count, const SolveOptions& options, SearchPhase phase, std::uint64_t& seed,
                         std::vector<std::unique_ptr<Worker>>& workers);

/// The crew that searches along the input order.
Mix input_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase);

}  // namespace remora
