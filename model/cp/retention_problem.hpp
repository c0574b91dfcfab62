// SPDX-License-Identifier: Apache-2.0
//
// Constant data of Gecode's search: the retention-interval model of a set of free ops over a fixed rest, in
// either of its forms.
//
// The fixed rest is a sequence of events: the computes of the ops that are not free and, in the staged form, the first
// computes of all ops. A free op's compute may be put into any opening between two fixed events. Events and openings are
// numbered as slots, along which memory is counted:
//
//     slot        0         1         2         3         4
//             opening 0  event 0  opening 1  event 1  opening 2
//
// A start variable (Moccasin's s_v^i) says when a copy of a free op runs, or that it does not. What its values mean is
// the only difference between the two forms:
//
//   staged (section 2.3)      the value is a stage; the moment is (stage, op). First computes are fixed.
//   free order (section 2.1)  with K copies, value g * K + i is place i in opening g; the moment is (g, i), and fixed event
//                             g comes at (g, K). All ops free: one opening, and the values are Moccasin's event numbers.
//
// Only the tensors that free ops write or read can change how long they are retained; they are called touched. All
// others add up to rest_memory once. Posting costs O(what is touched) plus passes over the ops and the events with
// their edges. The whole problem is the case where every op is free.
//
// Where ops have modes (model/modes.hpp), each copy of such an op has a mode variable, too, and its
// first compute is a copy even in the staged form. Ops tied by following each other are freed together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora::cp {

/// Index of a free op, of a copy (a start variable) and of a touched tensor within one problem.
using FreeId = Id<struct FreeTag>;
using CopyId = Id<struct CopyTag>;
using TouchedId = Id<struct TouchedTag>;

/// A value of a start variable.
using Start = std::int32_t;

/// When an event happens; events are ordered by moment.
struct Moment {
  std::int32_t major = 0;
  std::int32_t minor = 0;

  friend constexpr auto operator<=>(const Moment&, const Moment&) = default;
};

/// Before every event.
inline constexpr Moment kNever{-1, -1};

/// A compute or a use at a moment, and the first or last slot that a retention interval with this end covers whole: its
/// own slot for a fixed event, the slot after or before its opening for a free compute.
struct Anchor {
  Moment moment{};
  std::int32_t slot = 0;
  bool fixed = true;
};

/// A fixed compute of a touched tensor, and the size it leaves.
struct FixedCompute {
  Anchor at{};
  Bytes size{};
};

struct FreeOp {
  OpId op{};
  /// The least of all modes, as is workspace.
  Duration duration{};
  Bytes workspace{};
  /// Its computes are the copies first_copy .. first_copy + copies - 1.
  std::int32_t first_copy = 0;
  std::int32_t copies = 0;
  /// True if the first of them is the op's first compute; if not, all are recomputes.
  bool first_included = false;
  std::int32_t modes = 1;
  /// True if some mode leaves an input unread, and whether some has inner peaks.
  bool reads_differ = false;
  bool has_inner = false;
  /// The free op whose mode each compute takes over, or none.
  FreeId leader{};

  [[nodiscard]] Ids<CopyId> ids() const { return {first_copy, first_copy + copies}; }
};

struct TouchedTensor {
  TensorId tensor{};
  /// The least of all modes of its producer.
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
  bool costly_recompute = true;
};

/// How the search chooses what to decide next; branching.hpp explains each.
enum class BranchingRule {
  overload,     ///< by worst potential overload
  incumbent,    ///< by incumbent guidance
  domain_size,  ///< by domain size
};

/// No recompute of the op in the stages first .. last (staged form): known from outside, by a bound for example.
struct StageBan {
  OpId op{};
  Stage first{0};
  Stage last{-1};
};

/// The problem's limits: memory at any event, and what all recomputes together must stay below.
struct Limits {
  Bytes capacity{};
  /// Extra duration, fixed recomputes included: a solution must be strictly below.
  Duration extra_below = Duration::max();
  /// By op, ascending, and stage. Read while the problem is built, in the staged form only.
  std::span<const StageBan> bans{};
};

class RetentionProblem {
 public:
  /// The form is that of instance.problem().order. `incumbent`: a valid sequence; the computes of `free_ops` are only
  /// remembered as the incumbent's. `free_ops`: ascending; ops without a decision to make are left out. The instance
  /// must outlive the problem. Throws InputError where copies or starts are more than Gecode's integers can number.
  RetentionProblem(const Instance& instance, std::span<const Compute> incumbent, std::span<const OpId> free_ops,
                   const Limits& limits, const Inferences& inferences = {});

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const Inferences& inferences() const { return inferences_; }
  [[nodiscard]] bool free_order() const { return free_order_; }

  /// The value of a start variable whose copy is not computed; above all others.
  [[nodiscard]] Start absent() const { return absent_; }

  [[nodiscard]] const Table<FreeId, FreeOp>& free_ops() const { return free_ops_; }
  [[nodiscard]] int copy_count() const { return static_cast<int>(copy_owner_.size()); }
  [[nodiscard]] Ids<CopyId> copy_ids() const { return Ids<CopyId>(copy_owner_.size()); }
  [[nodiscard]] FreeId owner(CopyId copy) const { return copy_owner_[copy]; }
  /// False for an op's first compute, which must happen and costs nothing extra.
  [[nodiscard]] bool is_recompute(CopyId copy) const {
    const FreeOp& free = free_ops_[copy_owner_[copy]];
    return !free.first_included || copy != free.first_copy;
  }
  /// Extra duration of the copy with this duration: a first run counts in the baseline, by its op's shortest mode.
  [[nodiscard]] Duration extra_of(CopyId copy, Duration duration) const {
    return is_recompute(copy) ? duration : duration - free_ops_[copy_owner_[copy]].duration;
  }
  /// The bounds of the copy's start if it is computed: [first, last], empty if it cannot serve anybody.
  struct StartRange {
    Start first = 0;
    Start last = -1;
  };
  [[nodiscard]] StartRange possible_starts(CopyId copy) const;
  /// Banned starts among these, ascending.
  [[nodiscard]] std::span<const StartRange> banned_starts(CopyId copy) const { return banned_[copy_owner_[copy]]; }

  /// Variables are numbered: the start of each copy, then the modes of those copies whose op has several.
  [[nodiscard]] int variable_count() const { return copy_count() + static_cast<int>(mode_copies_.size()); }
  /// The copy's mode variable, or -1 if there is nothing to choose.
  [[nodiscard]] int mode_variable(CopyId copy) const { return mode_variable_[copy]; }
  /// The copy of the mode variable.
  [[nodiscard]] CopyId mode_copy(int variable) const { return mode_copies_[at(variable - copy_count())]; }
  /// True if the computes of some free op could weigh more than they may (all its computes are copies then).
  [[nodiscard]] bool limits_computes() const;
  [[nodiscard]] bool limits_computes(const FreeOp& free) const;
  /// The variable's value in the incumbent.
  [[nodiscard]] Start incumbent(int variable) const { return incumbent_[at(variable)]; }

  [[nodiscard]] const Table<TouchedId, TouchedTensor>& touched() const { return touched_; }
  /// The touched tensors among the free op's outputs and inputs, those of any mode.
  [[nodiscard]] std::span<const TouchedId> outputs(FreeId op) const { return outputs_[op]; }
  [[nodiscard]] std::span<const TouchedId> inputs(FreeId op) const { return inputs_[op]; }
  /// The computes of the tensor's producer that are fixed, by moment.
  [[nodiscard]] std::span<const FixedCompute> fixed_computes(TouchedId tensor) const { return fixed_computes_[tensor]; }
  /// The uses that are fixed, by moment; the end of the schedule is one for a tensor that must be kept.
  [[nodiscard]] std::span<const Anchor> fixed_uses(TouchedId tensor) const { return fixed_uses_[tensor]; }
  /// The free ops that use the tensor by some mode.
  [[nodiscard]] std::span<const FreeId> free_users(TouchedId tensor) const { return free_users_[tensor]; }
  /// True if the free op reads the tensor, one of its inputs, by all of the modes (a bit each).
  [[nodiscard]] bool reads(FreeId op, std::uint64_t modes, TouchedId input) const {
    const FreeOp& free = free_ops_[op];
    return !free.reads_differ || (modes & ~instance_.readers(free.op, touched_[input].tensor)) == 0;
  }
  /// True if the op's first compute may as well come later if that serves every use: free order, and no op waits for it
  /// by `after` or for an input that it need not read.
  [[nodiscard]] bool may_move_first(FreeId op) const { return free_order_ && !awaited_[op]; }
  /// Pairs of free ops of which the one's first compute must come before the other's; in free order only.
  struct Precedence {
    FreeId before{};
    FreeId after{};

    friend constexpr auto operator<=>(const Precedence&, const Precedence&) = default;
  };
  [[nodiscard]] std::span<const Precedence> precedences() const { return precedences_; }

  /// The tensor's number among the touched ones, or none.
  [[nodiscard]] TouchedId touched_id(TensorId tensor) const { return touched_of_tensor_[tensor]; }

  /// A fixed event with inner peaks before which touched inputs may be freed: they alone are left in `freed`, and what
  /// is known of the others is off the workspace. rest_memory() counts no workspace there.
  struct InnerEvent {
    int slot = 0;
    std::vector<InnerPeak> peaks{};
  };
  /// By slot.
  [[nodiscard]] std::span<const InnerEvent> inner_events() const { return inner_events_; }

  [[nodiscard]] int slot_count() const { return static_cast<int>(rest_memory_.size()); }
  /// Base memory, untouched tensors and workspace at each slot.
  [[nodiscard]] std::span<const Bytes> rest_memory() const { return rest_memory_; }
  /// The moment of the event at an odd slot.
  [[nodiscard]] Moment moment(int slot) const { return fixed_events_[at(slot / 2)].moment; }
  /// Cost of the fixed rest beyond every op once: its recomputes, and first runs by a mode other than the shortest.
  [[nodiscard]] Duration rest_extra() const { return rest_extra_; }

  /// When a compute of `op` with this start happens.
  [[nodiscard]] Moment moment_of(Start start, OpId op) const {
    return free_order_ ? Moment{start / places_, start % places_} : Moment{start, op};
  }
  /// The slot of the opening in which it lies.
  [[nodiscard]] int gap_slot(Start start, OpId op) const;
  /// It as a compute and as a use of its inputs.
  [[nodiscard]] Anchor free_compute(Start start, OpId op) const {
    return {moment_of(start, op), gap_slot(start, op) + 1, false};
  }
  [[nodiscard]] Anchor free_use(Start start, OpId op) const {
    return {moment_of(start, op), gap_slot(start, op) - 1, false};
  }

  /// The last start with which a compute of `op` happens before the moment.
  [[nodiscard]] Start last_start_before(OpId op, Moment before) const {
    if (free_order_) return before.major * places_ + before.minor - 1;
    return op < before.minor ? before.major : before.major - 1;
  }
  /// The first start with which it happens after the moment.
  [[nodiscard]] Start first_start_after(OpId op, Moment after) const {
    if (free_order_) return after.major * places_ + (after.minor < places_ ? after.minor + 1 : places_);
    return op > after.minor ? after.major : after.major + 1;
  }
  /// The starts with which it happens after the one moment and before the other; empty if first > last.
  [[nodiscard]] StartRange starts_between(OpId op, Moment after, Moment before) const {
    return {first_start_after(op, after), last_start_before(op, before)};
  }

  /// The whole sequence: the fixed rest and what the variables' values say, in the order of variable numbers.
  [[nodiscard]] std::vector<Compute> sequence_with(std::span<const int> values) const;

 private:
  struct FixedEvent {
    Moment moment{};
    Compute compute{};
  };

  void collect(std::span<const Compute> incumbent, std::span<const OpId> free_ops);
  void mark_free(OpId first, Table<OpId, bool>& marked) const;
  void add_free_op(OpId op);
  void collect_events(std::span<const Compute> incumbent);
  void add_fixed_event(Compute compute, Moment moment, bool recompute);
  void collect_touched();
  void anchor_touched();
  void collect_rest_memory();
  /// An untouched tensor that is released with the event at the slot.
  struct Release {
    int slot = 0;
    TensorId tensor{};
    Bytes size{};
  };
  void add_workspaces(std::vector<Release> releases);
  void order_first_computes();
  void bound_useful_starts();
  void collect_bans();
  [[nodiscard]] Moment end_moment() const;
  TouchedId touch(TensorId tensor);

  const Instance& instance_;
  Limits limits_;
  Inferences inferences_;
  bool free_order_;
  Start absent_ = 0;
  /// K of the free order: places an opening offers.
  std::int32_t places_ = 1;

  Table<FreeId, FreeOp> free_ops_;
  Table<OpId, FreeId> free_of_op_;
  Table<CopyId, FreeId> copy_owner_;
  Table<CopyId, std::int32_t> mode_variable_;
  std::vector<CopyId> mode_copies_;
  std::vector<Start> incumbent_;
  /// By free op: the bounds of the first compute's start, and the last start with which a recompute can serve anybody.
  Table<FreeId, StartRange> first_starts_;
  Table<FreeId, Start> latest_useful_;
  Adjacency<FreeId, StartRange> banned_;
  std::vector<Precedence> precedences_;
  /// By free op: whether some op's first compute waits for its first compute and not for its outputs.
  Table<FreeId, bool> awaited_;

  std::vector<FixedEvent> fixed_events_;
  Duration rest_extra_{};
  /// Staged: the position of the first fixed event of each stage; one more at the end.
  Table<Stage, std::int32_t> stage_begin_;

  Table<TouchedId, TouchedTensor> touched_;
  Table<TensorId, TouchedId> touched_of_tensor_;
  Adjacency<FreeId, TouchedId> outputs_;
  Adjacency<FreeId, TouchedId> inputs_;
  Adjacency<TouchedId, FixedCompute> fixed_computes_;
  Adjacency<TouchedId, Anchor> fixed_uses_;
  Adjacency<TouchedId, FreeId> free_users_;

  std::vector<Bytes> rest_memory_;
  std::vector<InnerEvent> inner_events_;
};

}  // namespace remora::cp
