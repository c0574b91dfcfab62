// SPDX-License-Identifier: Apache-2.0
//
// The Gecode space of the staged retention-interval model (Moccasin, section 2.3).
//
//   paper                         here
//   start s_v^i, active a_v^i     stages[copy]: the stage of op v's (i+1)-th recompute, or absent (eq. 9, 11)
//   end e_v^i                     follows: the last use that the copy serves (RetentionProfile)
//   eq. 1   objective             ExtraDuration (duration.hpp)
//   eq. 2,3 intervals in order    CopyOrder (supply.hpp)
//   eq. 4   memory                Memory (memory.hpp)
//   eq. 5   precedence            Supply (supply.hpp) and the profile's mandatory reading
//   eq. 6   events all different  by numbering: (stage, op) belongs to one op
//   eq. 7   first copy active     by construction: first computes are fixed
//
// A space holds its variables and nothing else; what is constant and what can be recomputed is in the Context. The root
// and all its clones belong to one thread.
#pragma once

#include <vector>

#include <gecode/int.hh>

#include "model/cp/brancher.hpp"
#include "model/cp/context.hpp"

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

  /// For a solution: the stage of each copy, or absent().
  [[nodiscard]] std::vector<Stage> copy_stages() const;
  /// For a solution: what all recomputes cost, the fixed rest's included.
  [[nodiscard]] Duration extra() const;

 private:
  Context* context_;
  Gecode::IntVarArray stages_;
  Gecode::IntVar improvements_;
};

}  // namespace remora::cp
