// SPDX-License-Identifier: Apache-2.0
//
// Schedules to write in other forms: what the engine finds for generated graphs under several budgets, and recomputes
// by chance in random graphs. All are verified.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::test {

struct SolvedGraph {
  /// For messages.
  std::string about{};
  std::shared_ptr<const Graph> graph{};
  Schedule schedule{};
};

/// Some hundred, of layered graphs, training steps and small random graphs that use everything the format can say. All
/// are of the staged form, and many recompute something. Made once.
const std::vector<SolvedGraph>& solved_graphs();

/// The schedule with releases put off, each at random but to before the producer runs again; still valid, for a budget
/// that is no limit.
Schedule with_late_releases(const Graph& graph, Schedule schedule, unsigned seed);

}  // namespace remora::test
