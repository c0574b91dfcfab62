// SPDX-License-Identifier: Apache-2.0
//
// Options per op (model/compute_options.hpp): what an op's computes weigh, each by its option, is together at most what
// the op allows. An absent copy weighs nothing. (Of an op with options all computes are copies if any is free.)
//
//   too heavy   the certain copies by their lightest options leave less than nothing: failure.
//   no room     an option of a certain copy, or an undecided copy, that weighs more than they leave is out.
//
// Complete at a leaf. O(copies * options) a call.
#pragma once

#include "model/cp/start_propagator.hpp"

namespace remora::cp {

class WeightedComputes : public StartPropagator<WeightedComputes> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  Gecode::ExecStatus weigh(Gecode::Space& home, const FreeOp& free);
  [[nodiscard]] std::int64_t lightest(const FreeOp& free, CopyId copy) const;
};

}  // namespace remora::cp
