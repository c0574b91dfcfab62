// SPDX-License-Identifier: Apache-2.0
//
// The memory constraint (Moccasin, eq. 4): at every event, what is retained fits the capacity.
//
// Moccasin posts it as CP-SAT's cumulative over retention intervals. Here the intervals follow from the starts, and
// memory is summed in int64 from the mandatory reading of the retention profile:
//
//   overload              mandatory memory above the capacity at a certain event: failure.
//   forced recompute      a use is served by a possible compute or by retention across a slot where the tensor no
//                         longer fits: the compute is certain, after that slot and before the use.
//   impossible recompute  a start in whose opening the op's outputs, workspace and not yet resident inputs don't fit,
//                         whichever mode is taken; and a mode that does not fit where the start is known.
//
// The overload check alone makes the constraint complete: at a leaf the profile is exact. O(slots + copies + what
// changed) a call, plus the scanned stretches of forced recomputes.
#pragma once

#include "model/cp/propagator.hpp"

namespace remora::cp {

class Memory : public StartPropagator<Memory> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  [[nodiscard]] bool overloaded() const;
  Gecode::ExecStatus force_recomputes(Gecode::Space& home, bool& changed, bool& ended);
  Gecode::ExecStatus force_recompute(Gecode::Space& home, TouchedId tensor, bool& changed);
  [[nodiscard]] int last_blocked_slot(int from, int to, Bytes size) const;
  Gecode::ExecStatus remove_impossible_starts(Gecode::Space& home, bool& changed, bool& ended);
  [[nodiscard]] bool fits(CopyId copy, Start start) const;
  [[nodiscard]] Bytes needed_by(const MemoryEvent& event, ModeNumber mode) const;
  Gecode::ExecStatus remove_impossible_modes(Gecode::Space& home, bool& changed);
};

}  // namespace remora::cp
