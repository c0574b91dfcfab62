// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gecode/int.hh>

#include "engine/placement/stack_space.hpp"

namespace remora::placement {

/// The inferences of stack_space.hpp, on the bounds of all offsets together. A pass costs the overlaps and the sections
/// of the items that wait.
class StackBounds : public Gecode::NaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_BND> {
 public:
  using Views = Gecode::ViewArray<Gecode::Int::IntView>;

  static Gecode::ExecStatus post(Gecode::Home home, Views& views, StackContext& context) {
    (void)new (home) StackBounds(home, views, context);
    return Gecode::ES_OK;
  }
  Gecode::PropCost cost(const Gecode::Space&, const Gecode::ModEventDelta&) const override {
    return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
  }
  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) StackBounds(home, *this); }
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& delta) override;

 private:
  StackBounds(Gecode::Home home, Views& views, StackContext& context)
      : NaryPropagator(home, views), context_(&context) {}
  StackBounds(Gecode::Space& home, StackBounds& other) : NaryPropagator(home, other), context_(other.context_) {}

  // Each pass raises `low` and lowers `high` of the context; false: there is no placement. `changed` is set if one did.
  bool lift_to_floor(const StackSpace& space, bool& changed);
  bool rest_floating(const StackSpace& space, bool& changed);
  bool order_pairs(const StackSpace& space, bool& changed);
  bool fill_sections(bool& changed);

  bool raise(int item, int offset, bool& changed);
  bool lower(int item, int offset, bool& changed);

  StackContext* context_;
};

}  // namespace remora::placement
