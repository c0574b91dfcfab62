// SPDX-License-Identifier: Apache-2.0
//
// Which events may follow which.
//
//   CopyOrder        copies of one op follow each other (Moccasin, eq. 3: its intervals don't overlap); absent ones
//                    come last, so that equal sequences are not searched twice.
//   distinct         free order: no two events at one time (eq. 6), by Gecode's own constraint, which leaves absent
//                    copies out.
//   PackedPlaces     free order: no place of an opening is left empty before a taken one, so that each sequence has exactly
//                    one assignment. O(copies^2) a call at worst.
//
// In the staged form (stage, op) tells events apart. The order of first computes, supply's part of the matter, is
// posted with Gecode's `rel` (RetentionSpace).
#pragma once

#include <gecode/int.hh>

#include "model/cp/propagator.hpp"

namespace remora::cp {

class CopyOrder : public Gecode::BinaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_BND> {
 public:
  static Gecode::ExecStatus post(Gecode::Home home, Gecode::Int::IntView earlier, Gecode::Int::IntView later,
                                 Start absent);

  Gecode::Actor* copy(Gecode::Space& home) override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  CopyOrder(Gecode::Home home, Gecode::Int::IntView earlier, Gecode::Int::IntView later, Start absent);
  CopyOrder(Gecode::Space& home, CopyOrder& other);

  Start absent_;
};

class PackedPlaces : public StartPropagator<PackedPlaces> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus fill_from_the_left(Gecode::Space& home, bool& changed);
  [[nodiscard]] bool left_neighbour(CopyId copy, Start start) const;
};

/// Eq. 6 over the starts among the variables (RetentionProblem's numbering).
void post_events_different(Gecode::Space& home, const Gecode::IntVarArgs& variables, const RetentionProblem& problem);

}  // namespace remora::cp
