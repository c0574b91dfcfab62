// SPDX-License-Identifier: Apache-2.0
//
// Replays a written schedule by the format's rules (remora-schedule, remora-graph 2 without devices; addresses too). Shares nothing with the evaluator or the
// search: it reads the graph, keeps a set of resident tensors and adds up.
#pragma once

#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/modes.hpp"
#include "model/schedule.hpp"

namespace remora {

struct Verdict {
  /// At most twenty, each naming the step.
  std::vector<std::string> errors{};
  Duration duration{};
  Bytes peak{};
  int peak_step = -1;
  int recomputes = 0;

  [[nodiscard]] bool valid() const { return errors.empty(); }
};

/// Checks that the steps are right for the graph (known ops and tensors, inputs resident, releases of resident tensors
/// only, `after`, `keep`, computes within the limits, every op computed, the stated order mode), that memory stays in the
/// schedule's budget, and that its duration and peak are what the replay gives. Of a graph that is not valid, an id that
/// it does not have is an error; its other faults are for validate() to find.
/// Where ops have modes, each step takes the amounts of its mode: one that the op has, a follower's that of its
/// leader's latest run; runs weigh at most most_computes together; and an input that the mode leaves unread need not be
/// resident.
/// Where the schedule has an arena, also what arena_faults() checks.
REMORA_API Verdict verify(const Graph& graph, const Schedule& schedule);

/// Describes what is wrong with the arena of an otherwise valid schedule: an allocation without an offset or with one
/// that is not aligned, an offset of something that the step does not allocate, two things that share bytes at one
/// time, an arena whose size is not that of its contents, or that exceeds the budget with the fixed memory. At most
/// twenty.
REMORA_API std::vector<std::string> arena_faults(const Graph& graph, const Schedule& schedule);

}  // namespace remora
