// SPDX-License-Identifier: Apache-2.0
//
// The objective (Moccasin, eq. 1): the extra duration of all recomputes stays below the bound held by the context, in
// exact int64. The bound falls with every solution; the space's `improvements` variable wakes the propagator then.
//
//   cover bound       certain copies and what undecided ops must still pay (CoverBound) leave nothing: failure.
//   costly recompute    an undecided copy more expensive than what is left is absent; a mode that adds more than that is out.
#pragma once

#include <span>
#include <vector>

#include <gecode/int.hh>

#include "model/cover.hpp"
#include "model/cp/propagator.hpp"
#include "model/cp/retention_profile.hpp"

namespace remora::cp {

class ExtraDuration : public Gecode::NaryOnePropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  /// `improvements`: any change of its domain means that the context's bound has fallen.
  static Gecode::ExecStatus post(Gecode::Home home, Views& views, Gecode::Int::IntView improvements, Context& context);

  Gecode::Actor* copy(Gecode::Space& home) override;
  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus remove_dear(Gecode::Space& home, Duration slack);
  ExtraDuration(Gecode::Home home, Views& views, Gecode::Int::IntView improvements, Context& context);
  ExtraDuration(Gecode::Space& home, ExtraDuration& other);

  Context* context_;
};

/// Minimum cost of the copies that are certain, the fixed rest included.
Duration certain_extra(const RetentionProblem& problem, const RetentionProfile& profile);

// Where memory will not fit unless somebody gives way, and who could.
//
// At an event whose potential memory exceeds the capacity, some undecided op must be recomputed after it, so that its
// outputs need not be retained across it (or up to it only, where the event has inner peaks that free them). What that
// must cost at least is a covering problem over the undecided ops (docs/design/bounds.md), bounded here by fractional
// knapsacks, one event after the other (model/cover.hpp).

struct Overload {
  MemoryEvent event{};
  /// Potential memory above the capacity, at least 1 byte.
  Bytes excess{};
};

class OverloadFinder {
 public:
  OverloadFinder(const RetentionProblem& problem, RetentionProfile& profile) : problem_(problem), profile_(profile) {}

  /// Every event whose potential memory exceeds the capacity, by moment for fixed events, then assigned copies.
  void find(std::vector<Overload>& overloads) const;

  /// The undecided ops that can give way at the event, by op: what each retains across it and need not, and what one
  /// recompute of it costs. The offers' items are FreeIds.
  void candidates(const MemoryEvent& event, std::vector<CoverOffer>& result) const;

 private:
  const RetentionProblem& problem_;
  RetentionProfile& profile_;
};

/// A lower bound on what undecided ops must still pay to bring potential memory below the capacity. Looks at the worst
/// events, at most `events_considered` of them; each op's cost is split between the events so that the sum stays valid.
class CoverBound {
 public:
  CoverBound(const RetentionProblem& problem, RetentionProfile& profile)
      : finder_(problem, profile), residual_(problem.free_ops().size()), problem_(problem) {}

  /// Duration::max() if some event cannot be relieved.
  Duration compute(int events_considered);

 private:
  Duration relieve(const Overload& overload);

  OverloadFinder finder_;
  std::vector<Overload> overloads_;
  std::vector<CoverOffer> candidates_;
  /// Remaining cost of each op for the events still to come.
  Table<FreeId, Duration> residual_;
  const RetentionProblem& problem_;
};

}  // namespace remora::cp
