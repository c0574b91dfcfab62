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

#include "model/cp/propagator.hpp"

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

/// A dominance among the starts of one recompute (ours; not in the papers): later is as good where nothing speaks
/// against.
///
/// Let a recompute of op v lie at d or at a later d' with no possible use of v's output in between. If all inputs of v
/// are resident from d to d' in any case, computing at d only holds the output longer, so d can go:
///
///     inputs   =====================          resident in every solution
///     v             d . . . d'                d holds v's output for nothing
///     use                      U
///
/// At d' itself memory does not grow: the output would be resident there anyway, beside the same inputs. That needs an
/// op without workspace and modes, with a single output and a single recompute; the others are left alone. Of the
/// optimal solutions without useless recomputes, one whose stages have the largest sum is never removed from a domain
/// that holds it; so an optimum survives, as long as every other inference keeps all such solutions. Staged form only:
/// in free order an event cannot move without its neighbours in the opening. O(copies * (uses + inputs * their intervals)) a
/// call.
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
