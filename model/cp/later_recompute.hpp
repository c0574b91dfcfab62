// SPDX-License-Identifier: Apache-2.0
//
// A dominance among the starts of one recompute (ours; not in the papers): later is as good where nothing speaks
// against.
//
// Let a recompute of op v lie at d or at a later d' with no possible use of v's output in between. If all inputs of v
// are resident from d to d' in any case, computing at d only holds the output longer, so d can go:
//
//     inputs   =====================          resident in every solution
//     v             d . . . d'                d holds v's output for nothing
//     use                      U
//
// At d' itself memory does not grow: the output would be resident there anyway, beside the same inputs. That needs an
// op without workspace and options, with a single output and a single recompute; the others are left alone. Of the
// optimal solutions without useless recomputes, one whose stages have the largest sum is never removed from a domain
// that holds it; so an optimum survives, as long as every other inference keeps all such solutions. Staged form only:
// in free order an event cannot move without its neighbours in the gap. O(copies * (uses + inputs * their intervals)) a
// call.
#pragma once

#include "model/cp/start_propagator.hpp"

namespace remora::cp {

class LaterRecompute : public StartPropagator<LaterRecompute> {
 public:
  using StartPropagator::StartPropagator;

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  [[nodiscard]] Start first_dominated(const FreeOp& free, FreeId id, Start latest) const;
  [[nodiscard]] Start after_last_use(const FreeOp& free, TouchedId output, Start latest) const;
  [[nodiscard]] Start resident_since(const FreeOp& free, TouchedId input, Start latest) const;
};

}  // namespace remora::cp
