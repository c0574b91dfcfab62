// SPDX-License-Identifier: Apache-2.0
//
// Options per op (model/compute_options.hpp): a follower's compute takes the option of that compute of its leader which
// serves it, the latest one before. (Rockmate and HiRemate tie the two halves of a block the same way: the backward
// half needs the phantoms of its own option.)
//
//   follower   only options that some possible server may have; with one possible server both agree.
//   absent     a copy that is not computed has no choice to make: its option is 0, so that no sequence is met twice.
//
// Complete at a leaf, where the server is known. O(copies of followers * copies of leaders) a call.
#pragma once

#include "model/cp/start_propagator.hpp"

namespace remora::cp {

class TiedOptions : public StartPropagator<TiedOptions> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  struct Servers {
    int count = 0;
    int only = 0;
    std::uint64_t options = 0;
  };
  [[nodiscard]] Servers servers_of(CopyId follower) const;
  [[nodiscard]] Moment latest_certain(const FreeOp& leader, Moment before) const;
  Gecode::ExecStatus agree(Gecode::Space& home, CopyId follower, bool& changed);
  Gecode::ExecStatus restrict(Gecode::Space& home, CopyId copy, std::uint64_t options, bool& changed);
};

}  // namespace remora::cp
