// SPDX-License-Identifier: Apache-2.0
//
// What a report says of a schedule: the input order before, the schedule after, and why each recompute is there.
//
// A recompute brings tensors back that had been away. Why they had to go: the steps of the input order above the
// budget that lie inside the gap. Those need not exist, for recomputes take memory themselves; therefore also what the
// schedule itself would hold in the gap, had the tensors stayed.
//
//     input order   #          memory above the budget while D runs ...
//     ------------ ### ------- budget
//     A   B   C    D       A   E
//     aaaaaaaaa            aaaaa    ... and a's gap is over D: that overload is what computing A again relieves
#pragma once

#include <memory>
#include <vector>

#include "frontends/report/replay.hpp"

namespace remora::report {

/// Steps above the budget.
struct Overload {
  /// How many; 0 if none, and then nothing below.
  int steps = 0;
  /// The op that runs at the worst of them, and by how much memory exceeds the budget there.
  OpId op{};
  Bytes above{};
};

/// One recompute of a schedule.
struct PaidRecompute {
  int step = 0;
  OpId op{};
  Duration paid{};
  /// Sizes of the outputs that it brings back; 0 if all were still resident.
  Bytes saved{};
  /// The gap: the steps at which any of them was away, both ends included; empty (last before first) if none was.
  int first_away = 0;
  int last_away = -1;
  /// Ops first computed in the gap at which the input order without recompute exceeds the budget.
  Overload relieved{};
  /// Steps of the gap at which this schedule would exceed the budget if the outputs had stayed.
  Overload if_kept{};
};

/// All recomputes of one op.
struct RecomputedOp {
  OpId op{};
  /// Beyond the first compute.
  int times = 0;
  Duration paid{};
  /// The largest of its recomputes.
  Bytes saved{};
  /// Steps of all gaps, which have no step in common; the worst of all.
  Overload relieved{};
  Overload if_kept{};
};

/// Stages `first` to `last` at whose beginning an output of `op` is resident: a piece of a column of Checkmate's S.
struct RetainedStages {
  OpId op{};
  Stage first = 0;
  Stage last = 0;

  friend bool operator==(const RetainedStages&, const RetainedStages&) = default;
};

struct ScheduleProfile {
  /// The input order without recompute.
  Replay before{};
  /// The schedule; without steps where none was found.
  Replay after{};
  /// By step.
  std::vector<PaidRecompute> recomputes{};
  /// Costliest first, equal ones in input order.
  std::vector<RecomputedOp> recomputed_ops{};
  /// Of every step of `after`, its stage: with the op, the ones of Checkmate's R. Empty for a schedule in free order,
  /// which has no stages.
  std::vector<Stage> stages{};
  /// By op, then stage; pieces of an op neither overlap nor touch. Empty in free order.
  std::vector<RetainedStages> retained{};
};

/// The input order without recompute, each tensor released after its last use.
Replay input_order_replay(const std::shared_ptr<const Graph>& graph);

/// The schedule must be one without steps or one that `verify` finds valid. O((n log n) in steps, outputs, releases).
ScheduleProfile profile_of(const std::shared_ptr<const Graph>& graph, const Schedule& schedule);

}  // namespace remora::report
