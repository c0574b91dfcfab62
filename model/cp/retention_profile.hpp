// SPDX-License-Identifier: Apache-2.0
//
// How long each touched tensor is retained, and the memory that adds up to, given the variables' domains.
//
// Two readings of the supply constraint (Moccasin, eq. 5), which lets every use be served by some earlier compute:
//
//   mandatory: a certain use at moment e is served at the earliest by the latest compute before e that is certain or
//              possible; from there to e the tensor is resident in every solution. (A lower bound on memory, eq. 4;
//              exact once all variables are assigned.)
//   potential: every undecided copy is taken to be absent; what was not given up stays. (What memory will be if nothing
//              more is recomputed; where it exceeds the capacity, somebody has to give way.)
//
//     computes   C-----------?----------?                    C certain, ? possible (in a domain)
//     uses       .     U     .    U     .       U
//     mandatory  [=====]     [====]     [=======]
//     potential  [==============================]
//
// An inner peak (model/modes.hpp) does not count inputs that it frees, unless the reading retains them beyond
// the compute. What a reading says of events is with that; stretches of retention and openings know nothing of it.
//
// A use is certain once its compute is, and all modes open to the compute read the tensor.
//
// A use whose own moment is open, somewhere in a window, is certain up to the window's beginning: the tensor is
// resident there if no compute can come inside the window (the compulsory part of a task, as scheduling calls it).
//
// The profile belongs to one problem and one engine, not to a space: it keeps copies of the domains it was computed for
// and, when the search asks at another node, recomputes only the tensors whose ops differ. Cost of a refresh: comparing
// the domains, plus what changed times the stretch of slots it covers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"

namespace remora::cp {

/// A copy of one start variable's domain: the starts as ascending ranges, and whether the copy may be absent. Kept by
/// the profile so that a change is seen, and only its consequences are computed again, whatever space asks next.
class StartDomain {
 public:
  struct Range {
    Start first = 0;
    Start last = 0;

    friend bool operator==(const Range&, const Range&) = default;
  };

  /// Takes over the view's domain; true if it differs from the one held.
  bool update(const Gecode::Int::IntView& view, Start absent) {
    scratch_.clear();
    for (Gecode::Int::ViewRanges<Gecode::Int::IntView> range(view); range(); ++range) {
      scratch_.push_back({range.min(), range.max()});
    }
    const bool may_be_absent = scratch_.back().last == absent;
    if (may_be_absent && --scratch_.back().last < scratch_.back().first) scratch_.pop_back();
    if (known_ && may_be_absent == may_be_absent_ && scratch_ == ranges_) return false;
    known_ = true;
    may_be_absent_ = may_be_absent;
    ranges_.swap(scratch_);
    return true;
  }

  [[nodiscard]] bool absent() const { return ranges_.empty(); }
  [[nodiscard]] bool active() const { return known_ && !may_be_absent_; }
  [[nodiscard]] bool undecided() const { return may_be_absent_ && !ranges_.empty(); }
  [[nodiscard]] bool assigned() const { return active() && ranges_.front().first == ranges_.back().last; }
  [[nodiscard]] Start earliest() const { return ranges_.front().first; }
  /// The start of an assigned copy; the latest possible start of any other that may be computed.
  [[nodiscard]] Start latest() const { return ranges_.back().last; }

  /// The latest possible start that is at most `limit`, or kNone.
  [[nodiscard]] Start latest_up_to(Start limit) const {
    for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
      if (range->first <= limit) return std::min(range->last, limit);
    }
    return kNone;
  }

  static constexpr Start kNone = -1;

 private:
  std::vector<Range> ranges_;
  std::vector<Range> scratch_;
  bool may_be_absent_ = false;
  bool known_ = false;
};

/// The variables of a space, in RetentionProblem's numbering.
using Views = Gecode::ViewArray<Gecode::Int::IntView>;

/// A stretch of retention: after (or, for a certain compute, from) `from`, up to and including `to`.
struct Retention {
  Anchor from{};
  Anchor to{};
  bool certain_compute = true;
  /// The first use that it serves happens at this moment at the latest; equal to from.moment if no use is certain.
  Moment first_use{};
  /// The least that the tensor can have there.
  Bytes size{};

  [[nodiscard]] bool covers_slot(int slot) const { return from.slot <= slot && slot <= to.slot; }
  [[nodiscard]] bool covers(Moment moment) const {
    return (certain_compute ? from.moment <= moment : from.moment < moment) && moment <= to.moment;
  }
};

enum class Reading { mandatory, potential };

/// An event at which memory is limited: a fixed event (odd slot), or an assigned copy in the opening at `slot`.
struct MemoryEvent {
  Moment moment{};
  int slot = 0;
  /// The assigned copy, or none for a fixed event.
  CopyId copy{};
};

class RetentionProfile {
 public:
  explicit RetentionProfile(const RetentionProblem& problem);

  /// Brings the profile to the views' domains.
  void refresh(const Views& views);

  [[nodiscard]] const StartDomain& domain(CopyId copy) const { return domains_[copy]; }
  /// The modes open to the copy, a bit each; mode 0 alone where there is nothing to choose.
  [[nodiscard]] std::uint64_t modes(CopyId copy) const { return modes_[copy]; }
  [[nodiscard]] std::span<const Retention> retentions(TouchedId tensor, Reading reading) const {
    const Tensor& entry = tensors_[tensor];
    return reading == Reading::potential && entry.differs ? entry.potential : entry.mandatory;
  }
  /// True if the tensor's potential retention is more than its mandatory one: its producer has undecided copies and no
  /// copy whose start alone is open.
  [[nodiscard]] bool may_give_way(TouchedId tensor) const { return tensors_[tensor].differs; }

  /// Memory at each slot, without what belongs to assigned copies in openings.
  [[nodiscard]] std::span<const Bytes> memory(Reading reading) const {
    return reading == Reading::mandatory ? mandatory_ : potential_;
  }
  /// The copies whose start is assigned and not absent, by moment, and the memory at each, exact for what the reading
  /// retains.
  [[nodiscard]] std::span<const MemoryEvent> assigned() const { return assigned_; }
  [[nodiscard]] std::span<const Bytes> assigned_memory(Reading reading);

  /// Minimum memory of the assigned copy there, in addition to its inputs and outputs: of the modes open to it, the one
  /// that takes least; of a mode's inner peaks the highest, what the reading does not retain beyond being released.
  [[nodiscard]] Bytes workspace_at(const MemoryEvent& event, Reading reading) const;
  /// Bytes of an input that the event may release before its peak: those that the reading retains up to it and not
  /// beyond.
  [[nodiscard]] Bytes released(TensorId input, Moment moment, Reading reading) const;
  /// Reduction of the potential memory at the event by an undecided recompute of the tensor's op.
  [[nodiscard]] Bytes gain(TouchedId tensor, const MemoryEvent& event) const;

  /// Bytes of the tensor at the event: its size if it is retained there, or nothing.
  [[nodiscard]] Bytes retained(TouchedId tensor, const MemoryEvent& event, Reading reading) const;
  /// True if the tensor is retained throughout an opening or at a fixed event.
  [[nodiscard]] bool covers_slot(TouchedId tensor, int slot, Reading reading) const;

  /// The least duration and memory that the modes open to the copy allow.
  [[nodiscard]] Duration least_duration(CopyId copy) const;
  [[nodiscard]] Bytes min_workspace(CopyId copy) const {
    return min_workspace(copy, [](TensorId) { return Bytes(0); });
  }
  /// Where `released` says what is off for an input that an inner peak frees.
  template <class Released>
  [[nodiscard]] Bytes min_workspace(CopyId copy, Released released) const;
  [[nodiscard]] Bytes least_size(CopyId copy, TouchedId output) const;

 private:
  struct Tensor {
    std::vector<Retention> mandatory{};
    std::vector<Retention> potential{};
    /// True if `potential` holds more than `mandatory`; if not it is left empty.
    bool differs = false;
    bool dirty = true;
  };
  struct Server {
    Anchor at{};
    Bytes size{};
  };
  struct Use {
    /// Where it happens at the earliest, and at the latest.
    Anchor at{};
    Moment latest{};
  };
  struct AssignedMemory {
    std::vector<Bytes> bytes{};
    bool known = false;
  };

  bool update_modes(const Views& views, CopyId copy);
  void mark_dirty(std::span<const TouchedId> tensors);
  void collect_assigned();
  void recompute(TouchedId id);
  void retain(TouchedId id);
  void collect_computes(TouchedId id);
  void collect_uses(TouchedId id);
  [[nodiscard]] Anchor latest_possible(FreeId producer, Moment before) const;
  void retain(TouchedId id, Reading reading, std::vector<Retention>& result) const;
  [[nodiscard]] bool has_undecided_alone(FreeId op) const;
  void recompute_all();
  static void replace(std::vector<Bytes>& memory, std::span<const Retention> before, std::span<const Retention> after);
  void add_up_gap(Reading reading, std::size_t begin, std::size_t end, std::vector<Bytes>& result);
  template <class Amount, class Get>
  [[nodiscard]] Amount least(CopyId copy, Amount common, Get get) const;
  void correct_inner_events();
  void correct_inner_events(Reading reading, std::vector<Bytes>& memory, std::vector<Bytes>& counted) const;
  [[nodiscard]] bool has_inner(const MemoryEvent& event) const;

  const RetentionProblem& problem_;
  Table<CopyId, StartDomain> domains_;
  /// Only where ops have modes.
  Table<CopyId, std::uint64_t> modes_;
  Table<TouchedId, Tensor> tensors_;
  std::vector<TouchedId> dirty_;
  /// Before the first refresh.
  bool is_empty_ = true;
  std::vector<Bytes> mandatory_;
  std::vector<Bytes> potential_;
  /// Counts of the problem's inner events by each reading.
  std::vector<Bytes> mandatory_inner_;
  std::vector<Bytes> potential_inner_;
  std::vector<MemoryEvent> assigned_;
  /// The copies that are certain but whose start is open, at the earliest moment they can have.
  std::vector<MemoryEvent> open_;
  std::array<AssignedMemory, 2> assigned_memory_;
  std::vector<Server> computes_;
  std::vector<Use> uses_;
  std::vector<TouchedId> local_;
  std::vector<Bytes> change_;
  std::vector<Retention> mandatory_before_;
  std::vector<Retention> potential_before_;
};

template <class Amount, class Get>
Amount RetentionProfile::least(CopyId copy, Amount common, Get get) const {
  if (problem_.mode_variable(copy) < 0) return common;
  Amount result = Amount::max();
  for (std::uint64_t open = modes_[copy]; open != 0; open &= open - 1) {
    result = std::min(result, get(static_cast<ModeNumber>(std::countr_zero(open))));
  }
  return result;
}

template <class Released>
Bytes RetentionProfile::min_workspace(CopyId copy, Released released) const {
  const FreeOp& free = problem_.free_ops()[problem_.owner(copy)];
  const auto workspace = [&](ModeNumber mode) {
    const auto peaks = free.has_inner ? problem_.instance().inner(free.op, mode) : std::span<const InnerPeak>();
    return peaks.empty() ? problem_.instance().workspace(free.op, mode) : highest_peak(peaks, released);
  };
  return least(copy, free.has_inner && free.modes == 1 ? workspace(0) : free.workspace, workspace);
}

}  // namespace remora::cp
