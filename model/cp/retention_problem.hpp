// SPDX-License-Identifier: Apache-2.0
//
// What is constant while Gecode searches: the staged retention-interval model (Moccasin, section 2.3) of a set of free
// ops over a fixed rest.
//
// The fixed rest is a sequence of events: every op's first compute, and the recomputes of the ops that are not free. A
// free op's recompute may be added in any stage, and so in a gap between two fixed events. Events and gaps are numbered
// as slots, along which memory is counted:
//
//     slot       0     1     2     3     4     5     6
//             gap 0 event 0 gap 1 event 1 gap 2 event 2 gap 3
//
// Only the tensors that free ops write or read can change how long they are retained; they are called touched. All
// others add up to rest_memory once. Posting costs O(what is touched) plus one pass over the events, whatever the
// graph. The whole problem is the case where every op is free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/adjacency.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora::cp {

/// Index of a free op, of a copy variable and of a touched tensor within one problem.
using FreeId = Id<struct FreeTag>;
using CopyId = Id<struct CopyTag>;
using TouchedId = Id<struct TouchedTag>;

/// When an event happens: events are ordered by (stage, op), Moccasin's event number of section 2.3.
struct Moment {
  Stage stage = 0;
  std::int32_t op = 0;

  friend constexpr auto operator<=>(const Moment&, const Moment&) = default;
};

/// A compute or a use at a moment, and the first or last slot that a retention interval with this end covers whole: its
/// own slot for a fixed event, the slot after or before its gap for a free recompute.
struct Anchor {
  Moment moment{};
  std::int32_t slot = 0;
  bool fixed = true;
};

struct FreeOp {
  OpId op{};
  Duration duration{};
  Bytes workspace{};
  /// Its recomputes are the copy variables first_copy .. first_copy + copies - 1.
  std::int32_t first_copy = 0;
  std::int32_t copies = 0;
};

struct TouchedTensor {
  TensorId tensor{};
  Bytes size{};
  /// The free op that computes it, or none if its producer is fixed.
  FreeId producer{};
};

/// Which inferences the propagators make. Each may be switched off: the model is weaker then, never wrong.
struct Inferences {
  bool forced_recompute = true;
  bool impossible_recompute = true;
  bool useless_recompute = true;
  bool later_recompute = true;
  bool cover_bound = true;
  bool dear_recompute = true;
};

/// The problem's limits: memory at any event, and what all recomputes together must stay below.
struct Limits {
  Bytes capacity{};
  /// Extra duration, fixed recomputes included: a solution must be strictly below.
  Duration extra_below = Duration::max();
};

class RetentionProblem {
 public:
  /// `plan`: the recomputes of all ops; those of `free_ops` are only remembered as the incumbent. `free_ops`:
  /// ascending; ops that may run only once are left out. The instance must outlive the problem.
  RetentionProblem(const Instance& instance, std::span<const Recompute> plan, std::span<const OpId> free_ops,
                   const Limits& limits, const Inferences& inferences = {});

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const Inferences& inferences() const { return inferences_; }

  /// Stage variables take stages up to the number of ops, or this value: the copy is not computed.
  [[nodiscard]] Stage absent() const { return instance_.op_count() + 1; }

  [[nodiscard]] std::span<const FreeOp> free_ops() const { return free_ops_; }
  [[nodiscard]] int copy_count() const { return static_cast<int>(copy_owner_.size()); }
  [[nodiscard]] FreeId owner(CopyId copy) const { return copy_owner_[copy]; }
  /// The latest stage in which a recompute of the free op can serve anybody.
  [[nodiscard]] Stage latest_useful(FreeId op) const { return latest_useful_[op]; }
  /// The copy's stage in the incumbent, or absent().
  [[nodiscard]] Stage incumbent(CopyId copy) const { return incumbent_[copy]; }

  [[nodiscard]] std::span<const TouchedTensor> touched() const { return touched_; }
  /// The touched tensors among the free op's outputs and inputs.
  [[nodiscard]] std::span<const TouchedId> outputs(FreeId op) const { return outputs_[op]; }
  [[nodiscard]] std::span<const TouchedId> inputs(FreeId op) const { return inputs_[op]; }
  /// The computes of the tensor's producer that are fixed, by moment; the first is its first compute.
  [[nodiscard]] std::span<const Anchor> fixed_computes(TouchedId tensor) const { return fixed_computes_[tensor]; }
  /// The uses that are fixed, by moment; the end of the schedule is one for a tensor that must be kept.
  [[nodiscard]] std::span<const Anchor> fixed_uses(TouchedId tensor) const { return fixed_uses_[tensor]; }
  /// The free ops whose recomputes use the tensor.
  [[nodiscard]] std::span<const FreeId> free_users(TouchedId tensor) const { return free_users_[tensor]; }

  [[nodiscard]] int slot_count() const { return static_cast<int>(rest_memory_.size()); }
  /// Base memory, untouched tensors and workspace at each slot.
  [[nodiscard]] std::span<const Bytes> rest_memory() const { return rest_memory_; }
  /// The moment of the event at an odd slot.
  [[nodiscard]] Moment moment(int slot) const { return fixed_events_[static_cast<std::size_t>(slot / 2)]; }
  /// What the fixed rest's recomputes cost.
  [[nodiscard]] Duration rest_extra() const { return rest_extra_; }

  /// The slot of the gap in which a recompute of `op` in `stage` lies.
  [[nodiscard]] int gap_slot(Stage stage, OpId op) const;
  /// Such a recompute as a compute and as a use of its inputs.
  [[nodiscard]] Anchor free_compute(Stage stage, OpId op) const {
    return {{stage, op}, gap_slot(stage, op) + 1, false};
  }
  [[nodiscard]] Anchor free_use(Stage stage, OpId op) const { return {{stage, op}, gap_slot(stage, op) - 1, false}; }

  /// The last stage in which a recompute of `op` lies before the moment.
  [[nodiscard]] static Stage last_stage_before(OpId op, Moment before) {
    return op < before.op ? before.stage : before.stage - 1;
  }

  /// The stages in which a recompute of `op` lies after the one moment and before the other: [first, last], empty if
  /// first > last.
  struct StageRange {
    Stage first = 0;
    Stage last = -1;
  };
  [[nodiscard]] static StageRange stages_between(OpId op, Moment after, Moment before);

  /// The whole plan: the fixed rest and, for each copy, its stage or absent().
  [[nodiscard]] RecomputePlan plan_with(std::span<const Stage> copy_stages) const;

 private:
  void collect_free_ops(std::span<const Recompute> plan, std::span<const OpId> free_ops);
  void collect_events();
  void collect_touched();
  void anchor_touched();
  void collect_rest_memory();
  void bound_useful_stages();
  TouchedId touch(TensorId tensor);

  const Instance& instance_;
  Limits limits_;
  Inferences inferences_;

  std::vector<FreeOp> free_ops_;
  std::vector<FreeId> free_of_op_;
  std::vector<FreeId> copy_owner_;
  std::vector<Stage> latest_useful_;
  std::vector<Stage> incumbent_;

  RecomputePlan rest_plan_;
  Duration rest_extra_{};
  std::vector<Moment> fixed_events_;
  /// The position of the first fixed event of each stage; one more at the end.
  std::vector<std::int32_t> stage_begin_;

  std::vector<TouchedTensor> touched_;
  std::vector<TouchedId> touched_of_tensor_;
  Adjacency<FreeId, TouchedId> outputs_;
  Adjacency<FreeId, TouchedId> inputs_;
  Adjacency<TouchedId, Anchor> fixed_computes_;
  Adjacency<TouchedId, Anchor> fixed_uses_;
  Adjacency<TouchedId, FreeId> free_users_;

  std::vector<Bytes> rest_memory_;
};

}  // namespace remora::cp
