// SPDX-License-Identifier: Apache-2.0
//
// The Gecode space of the retention-interval model (Moccasin, section 2), in both its forms.
//
//   paper                         here
//   start s_v^i, active a_v^i     one start variable a copy: when it runs, or absent (RetentionProblem)
//   end e_v^i                     follows: the last use that the copy serves (RetentionProfile)
//   eq. 1   objective             ExtraDuration (duration.hpp)
//   eq. 2,3 intervals in order    CopyOrder (event_order.hpp)
//   eq. 4   memory                Memory (memory.hpp)
//   eq. 5   precedence            supply can be had once first computes follow those of their producers: by numbering
//                                 in the staged form, by rel over first computes in free order (RetentionProblem::
//                                 precedences). What it costs in memory is the profile's mandatory reading; the
//                                 reservoir itself (eq. 10) is not posted
//   eq. 6   events all different  staged: by numbering, (stage, op) belongs to one op; free order: Gecode's
//                                 distinct, and PackedPlaces (event_order.hpp)
//   eq. 7   first copy active     staged: first computes are fixed; free order: their domains hold no absent
//   eq. 8   domains               RetentionProblem::possible_starts; eq. 9 in free order, eq. 11 in the staged form
//   eq. 12, 13  phase 1           PeakWorker (engine/search)
//   modes per op                TiedModes, WeightedComputes (mode_choice.hpp); not in the
//                                 paper
//
// A space holds its variables, its propagators' views of them and the brancher's random state; what is constant and
// what can be recomputed is in the Context. The root and all its clones belong to one thread.
#pragma once

#include <vector>

#include <gecode/int.hh>

#include "model/cp/branching.hpp"
#include "model/cp/propagator.hpp"

namespace remora::cp {

class RetentionSpace : public Gecode::Space {
 public:
  /// The context must outlive the space and all its clones.
  RetentionSpace(Context& context, const Branching& branching);
  RetentionSpace(RetentionSpace& other);

  Gecode::Space* copy() override;

  /// Called by branch and bound with a solution: from now on solutions must cost less. The exact bound goes into the
  /// context; the variable's domain shrinks so that this space's propagators look at it.
  void constrain(const Gecode::Space& best) override;

  /// In RetentionProblem's numbering.
  [[nodiscard]] const Gecode::IntVarArray& variables() const { return variables_; }
  /// For a solution: the variables' values.
  [[nodiscard]] std::vector<int> values() const;
  /// For a solution: its duration beyond every op once, the fixed rest's share included.
  [[nodiscard]] Duration extra() const;

 private:
  void make_variables();
  void order_events(Views& views);

  Context* context_;
  Gecode::IntVarArray variables_;
  Gecode::IntVar improvements_;
};

}  // namespace remora::cp
