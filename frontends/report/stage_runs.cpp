// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/stage_runs.hpp"

#include <algorithm>
#include <cstddef>

namespace remora::report {
namespace {

/// Sorts by op and stage, and joins pieces that overlap or touch.
void join_pieces(std::vector<RetainedStages>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const RetainedStages& a, const RetainedStages& b) {
    return a.op != b.op ? a.op < b.op : a.first < b.first;
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].op == pieces[kept].op && pieces[i].first <= pieces[kept].last + 1) {
      pieces[kept].last = std::max(pieces[kept].last, pieces[i].last);
    } else {
      pieces[++kept] = pieces[i];
    }
  }
  if (!pieces.empty()) pieces.resize(kept + 1);
}

}  // namespace

std::vector<Stage> stages_of(const Replay& replay) {
  std::vector<Stage> stages;
  stages.reserve(replay.ops.size());
  Stage stage = 0;
  for (const bool again : replay.again) {
    stages.push_back(stage);
    if (!again) ++stage;
  }
  return stages;
}

std::vector<RetainedStages> retained_stages(const Graph& graph, const Replay& replay,
                                            const std::vector<Stage>& stages) {
  std::vector<RetainedStages> pieces;
  if (stages.empty()) return pieces;
  std::vector<OpId> producers(graph.tensors.size());
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    for (const TensorId t : graph.ops[v].outputs) producers[t] = OpId(v);
  }
  pieces.reserve(replay.residences.size());
  for (const Residence& residence : replay.residences) {
    // A stage begins between two steps: the tensor is there from the next beginning on, up to the last one not later
    // than the step that releases it.
    const Stage first = stages[static_cast<std::size_t>(residence.first_step)] + 1;
    const Stage last = residence.to_the_end ? static_cast<Stage>(graph.ops.size())
                                            : stages[static_cast<std::size_t>(residence.last_step)];
    if (first <= last) pieces.push_back({.op = producers[residence.tensor], .first = first, .last = last});
  }
  join_pieces(pieces);
  return pieces;
}

}  // namespace remora::report
