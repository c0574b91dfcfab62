// SPDX-License-Identifier: Apache-2.0
//
// The supply constraint (Moccasin, eq. 5, a reservoir in section 2.2): every use is covered by a retention interval of
// its producer. In the staged form the first compute comes before every use, so supply can always be had; what it costs
// in memory is the profile's mandatory reading. What is left to infer runs the other way:
//
//   useless recompute  a copy that no certain or possible use follows supplies nobody: it is absent.
//
// O(copies * users) a call.
#pragma once

#include <gecode/int.hh>

#include "model/cp/stage_propagator.hpp"

namespace remora::cp {

class Supply : public StagePropagator<Supply> {
 public:
  using StagePropagator::StagePropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  [[nodiscard]] Moment latest_use(FreeId op) const;
};

/// Copies of one op follow each other (Moccasin, eq. 3: its intervals don't overlap); absent ones come last.
class CopyOrder : public Gecode::BinaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_BND> {
 public:
  static Gecode::ExecStatus post(Gecode::Home home, Gecode::Int::IntView earlier, Gecode::Int::IntView later,
                                 Stage absent);

  Gecode::Actor* copy(Gecode::Space& home) override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  CopyOrder(Gecode::Home home, Gecode::Int::IntView earlier, Gecode::Int::IntView later, Stage absent);
  CopyOrder(Gecode::Space& home, CopyOrder& other);

  Stage absent_;
};

}  // namespace remora::cp
