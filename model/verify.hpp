// SPDX-License-Identifier: Apache-2.0
//
// Replays a written schedule by the format's rules (remora-schedule, remora-graph 2 without devices). Shares nothing with the evaluator or the
// search: it reads the graph, keeps a set of resident tensors and adds up.
#pragma once

#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/graph.hpp"
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
REMORA_API Verdict verify(const Graph& graph, const Schedule& schedule);

}  // namespace remora
