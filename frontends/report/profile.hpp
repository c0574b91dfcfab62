// SPDX-License-Identifier: Apache-2.0
//
// A schedule step by step, for a report: when each step runs and where, what each device holds then,
// what crosses each link, what it costs, and why each recompute is there. A graph for one device is replayed as one over
// devices that has one.
//
//     steps  A B C(-a) D(-b,-c) A E(-a,-d)      a: [0,2] [4,5]   b: [1,3]   c: [2,3]   d: [3,5]   e: [5,5] to the end
//     memory 1 2 3     3        2 3             (unit sizes: figure 1 of Kumar et al. 2019)
//
//     gpu         |  A  |  B  |      a row for each lane of a device, below them its memory over time, and its budget
//     cpu -> gpu  x                  a row for each link that is used
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora::report {

/// Cause of a tensor's stay on a device.
enum class Begun { first_run, recompute, copy };

/// One stay of a tensor in the memory of a device, in steps, both ends included. A recompute over a still resident tensor does not
/// begin another. Inputs of the graph, which are always there, have none.
struct TensorStay {
  TensorId tensor{};
  DeviceId device{0};
  int first_step = 0;
  int last_step = 0;
  Begun begun = Begun::first_run;
  /// Still resident when the schedule has ended.
  bool to_the_end = false;
  /// As it begins.
  Bytes size{};

  friend bool operator==(const TensorStay&, const TensorStay&) = default;
};

/// Total of runs, or copies, of one kind.
struct Spent {
  int times = 0;
  Duration duration{};
  Energy energy{};
};

/// The copies of a tensor over one link.
struct Transfer : Spent {
  TensorId tensor{};
  DeviceId from{};
  DeviceId to{};
  /// Duration of all of them.
  Bytes bytes{};
};

/// The runs of an op on one device.
struct OpRuns : Spent {
  OpId op{};
  DeviceId device{};
  /// Number of these runs that were not the op's first.
  int again = 0;
};

/// All runs on one lane; a device without lanes is one.
struct LaneUse : Spent {
  DeviceId device{};
  LaneId lane{};
  int again = 0;
};

/// All copies over one link.
struct LinkUse : Spent {
  DeviceId from{};
  DeviceId to{};
  Bytes bytes{};
};

struct DeviceProfile {
  /// The schedule's, by when they begin; all that follows tells of steps in this order.
  std::vector<DeviceStep> steps{};
  /// When each step begins; one more: when the last one has ended.
  std::vector<Duration> times{};
  /// When each step ends: where copies overlap, others may have begun before.
  std::vector<Duration> ends{};
  /// For every step, true if it runs an op that has run before.
  std::vector<bool> again{};
  /// In the order of the schedule: the workspace of every step, or its highest inner peak.
  std::vector<Bytes> workspaces{};
  /// On each device, at every step: the most from its start to the next one's.
  Table<DeviceId, std::vector<Bytes>> memory{};
  /// Fixed memory and what is at home there.
  Table<DeviceId, Bytes> base{};
  Table<DeviceId, Bytes> peak{};
  /// The first step that reaches it, or -1.
  Table<DeviceId, int> peak_step{};
  /// By first step.
  std::vector<TensorStay> stays{};
  /// Those that take longest first.
  std::vector<Transfer> transfers{};
  std::vector<OpRuns> runs{};
  /// Profiles of all devices, in the order of the graph.
  std::vector<LaneUse> lanes{};
  /// Profiles of the links that are used, in the order of the graph.
  std::vector<LinkUse> links{};
  /// For every step: the place of its lane among `lanes`, or, counted on behind these, that of its link among `links`.
  std::vector<std::size_t> stream{};
};

/// The steps must be such that `verify` finds no fault but perhaps with budgets. O(steps * (devices + outputs + releases)).
DeviceProfile profile_of(const DeviceGraph& graph, const DeviceSchedule& schedule);

/// "gpu -> cpu".
std::string link_name(const DeviceGraph& graph, DeviceId from, DeviceId to);

/// Names of the lanes ("gpu"; where the device has several, "gpu: gather"), then of the links, as
/// `DeviceProfile::stream` numbers them.
std::vector<std::string> stream_names(const DeviceGraph& graph, const DeviceProfile& profile);

/// The same of a schedule for one device, as far as its steps tell.
struct Replay {
  /// The op of every step, its mode, and how long it takes.
  std::vector<OpId> ops{};
  std::vector<ModeNumber> modes{};
  std::vector<Duration> durations{};
  /// For every step, true if its op has run before.
  std::vector<bool> again{};
  /// The workspace of every step, or its highest inner peak.
  std::vector<Bytes> workspaces{};
  /// At every step: base memory, what is resident, and the workspace.
  std::vector<Bytes> memory{};
  /// By first step.
  std::vector<TensorStay> stays{};
  /// Fixed memory and the graph's inputs.
  Bytes base{};
  /// The largest memory; base where there is no step.
  Bytes peak{};
  /// The first step that reaches it, or -1.
  int peak_step = -1;
  Duration duration{};
};

/// The steps must be such that `verify` finds no fault but perhaps with the budget. O(steps, their outputs, releases).
Replay replay(const Graph& graph, std::span<const Step> steps);

/// The stays that cover `step`, as numbers into `stays`, largest tensor first. O(stays).
std::vector<std::size_t> residents(const Replay& replay, int step);

// Contents of a report on a schedule: the input order before, the schedule after, and why each recompute is there.
//
// A recompute brings tensors back that had been away. Why they had to go: the steps of the input order above the
// budget that lie inside the gap. Those need not exist, for recomputes take memory themselves; therefore also what the
// schedule itself would hold in the gap, had the tensors stayed.
//
//     input order   #          memory above the budget while D runs ...
//     ------------ ### ------- budget
//     A   B   C    D       A   E
//     aaaaaaaaa            aaaaa    ... and a's gap is over D: that overload is what computing A again relieves

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

/// Why an op runs by a mode although another is faster, followers counted with it.
struct SlowerMode {
  /// The first run by this mode, and the fastest mode that it could have instead: by how much that is faster.
  int step = 0;
  OpId op{};
  ModeNumber mode = 0;
  ModeNumber faster = 0;
  Duration saved{};
  /// Steps of this schedule that would exceed the budget with it; none if it would have fitted.
  Overload if_faster{};
};

/// Stages `first` to `last` at whose beginning an output of `op` is resident: a piece of a column of Checkmate's S.
struct RetainedStages {
  OpId op{};
  Stage first{0};
  Stage last{0};

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
  /// By step: of each op that follows no other, the first run by each mode that is not the fastest.
  std::vector<SlowerMode> slower_modes{};
  /// For every step of `after`, its stage: with the op, the ones of Checkmate's R. Empty for a schedule in free order,
  /// which has no stages.
  std::vector<Stage> stages{};
  /// By op, then stage; pieces of an op neither overlap nor touch. Empty in free order.
  std::vector<RetainedStages> retained{};
};

/// The input order without recompute, each tensor released after its last use.
Replay input_order_replay(const std::shared_ptr<const Graph>& graph);

/// Part of the profile. O(runs with a choice * modes * steps); of large schedules, the first runs alone.
std::vector<SlowerMode> slower_modes(const std::shared_ptr<const Graph>& graph, const Schedule& schedule);

/// The schedule must be one without steps or one that `verify` finds valid. O((n log n) in steps, outputs, releases).
ScheduleProfile profile_of(const std::shared_ptr<const Graph>& graph, const Schedule& schedule);

}  // namespace remora::report
