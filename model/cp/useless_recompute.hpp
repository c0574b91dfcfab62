// SPDX-License-Identifier: Apache-2.0
//
// A dominance: the supply constraint (Moccasin, eq. 5) read the other way. Every use needs a compute; here, every
// recompute needs a use.
//
//   - A copy that no certain or possible use follows supplies nobody: it is absent.
//   - Nor does a copy supply anybody if the next one comes before any use: the next one comes after the first possible
//     use. (That holds for first computes in free order, too, unless some op waits for them by `after` or for inputs
//     that it need not read; in the staged form they must come where they come.)
//
// O(copies * users) a call.
#pragma once

#include <gecode/int.hh>

#include "model/cp/start_propagator.hpp"

namespace remora::cp {

class UselessRecompute : public StartPropagator<UselessRecompute> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus before_latest_use(Gecode::Space& home, CopyId copy);
  Gecode::ExecStatus after_served_use(Gecode::Space& home, CopyId copy);
  [[nodiscard]] Moment latest_use(FreeId op) const;
  [[nodiscard]] Moment first_use_after(FreeId op, Moment moment) const;
};

}  // namespace remora::cp
