// SPDX-License-Identifier: Apache-2.0
//
// Modes per op (model/modes.hpp): a follower's compute takes the mode of that compute of its leader which
// serves it, the latest one before. (Rockmate and HiRemate tie the two halves of a block the same way: the backward
// half needs the phantoms of its own mode.)
//
//   follower   only modes that some possible server may have; with one possible server both agree.
//   absent     a copy that is not computed has no choice to make: its mode is 0, so that no sequence is met twice.
//
// Complete at a leaf, where the server is known. O(copies of followers * copies of leaders) a call.
#pragma once

#include <gecode/int.hh>

#include "model/cp/propagator.hpp"
#include "model/modes.hpp"

namespace remora::cp {

class TiedModes : public StartPropagator<TiedModes> {
 public:
  using StartPropagator::StartPropagator;

  /// Where some copy has a mode to choose.
  static bool applies(const RetentionProblem& problem) { return problem.variable_count() > problem.copy_count(); }

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  struct Servers {
    int count = 0;
    int only = 0;
    std::uint64_t modes = 0;
  };
  [[nodiscard]] Servers servers_of(CopyId follower) const;
  [[nodiscard]] Moment latest_certain(const FreeOp& leader, Moment before) const;
  Gecode::ExecStatus agree(Gecode::Space& home, CopyId follower, bool& changed);
  Gecode::ExecStatus restrict(Gecode::Space& home, CopyId copy, std::uint64_t modes, bool& changed);
};

/// Modes per op (model/modes.hpp): what an op's computes weigh, each by its mode, is together at most what
/// the op allows. An absent copy weighs nothing. (Of an op with modes all computes are copies if any is free.)
///
///   too heavy   the certain copies by their lightest modes leave less than nothing: failure.
///   no room     a mode of a certain copy, or an undecided copy, that weighs more than they leave is out.
///
/// Complete at a leaf. O(copies * modes) a call.
class WeightedComputes : public StartPropagator<WeightedComputes> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus weigh(Gecode::Space& home, const FreeOp& free);
  [[nodiscard]] std::int64_t lightest(const FreeOp& free, CopyId copy) const;
};

/// Takes the unwanted modes out of a mode variable's domain; `changed` becomes true if there were any.
template <class Unwanted>
Gecode::ExecStatus remove_modes(Gecode::Space& home, Gecode::Int::IntView view, Unwanted unwanted, bool& changed) {
  const ModeNumber last = view.max();
  for (ModeNumber mode = view.min(); mode <= last; ++mode) {
    if (!view.in(mode) || !unwanted(mode)) continue;
    GECODE_ME_CHECK(view.nq(home, mode));
    changed = true;
  }
  return Gecode::ES_OK;
}

}  // namespace remora::cp
