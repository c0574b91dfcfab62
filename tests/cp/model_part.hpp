// SPDX-License-Identifier: Apache-2.0
//
// The model, whole or one propagator alone, and what it owes to each assignment.
//
//   part              must fail if assigned              may remove, beside that, nothing but
//   copy order        copies out of order                -
//   one event a place two at a place, or a place empty   -
//   tied modes      a follower by another mode, an   -
//                     absent copy by one other than 0
//   weighted computes an op's computes weigh too much    an absent copy by a mode other than 0
//   supply            -                                  what computes something useless
//   memory            more than the capacity anywhere    -
//   extra duration    the bound reached                  more than the capacity anywhere
//   later recompute   -                                  what computes something useless, or where one recompute can
//                                                        come later (of those that compute the same, a latest one
//                                                        stays)
//   whole             any of that                        all of that, as far as its inference is on
#pragma once

#include <memory>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/propagator.hpp"
#include "tests/cp/small_problem.hpp"

namespace remora::test {

enum class ModelPart {
  copy_order,
  one_event_a_place,
  tied_modes,
  weighted_computes,
  supply,
  memory,
  extra_duration,
  later_recompute,
  whole
};

/// Whether the problem has what the part is about.
bool has_part(const cp::RetentionProblem& problem, ModelPart part);

/// A space with the variables of the problem and their whole domains, and what is posted.
class PartSpace : public Gecode::Space {
 public:
  explicit PartSpace(const std::vector<std::vector<int>>& domains);
  PartSpace(PartSpace& other);

  Gecode::Space* copy() override { return new PartSpace(*this); }
  [[nodiscard]] const Gecode::IntVarArray& variables() const { return variables_; }
  [[nodiscard]] cp::Views views() { return {*this, Gecode::IntVarArgs(variables_)}; }

  /// Not for the whole model. The context must outlive the space and its clones.
  void post(cp::Context& context, ModelPart part);

 private:
  Gecode::IntVarArray variables_;
  Gecode::IntVar improvements_;
};

/// What a part owes to an assignment.
enum class Fate {
  kept,     ///< it must stay in any domains that hold it
  open,     ///< it may be removed, or not
  refused,  ///< it must be removed once all variables have its values
};

/// By assignment.
std::vector<Fate> fates(const SmallProblem& small, const cp::RetentionProblem& problem, ModelPart part);

/// The assignments that must stay.
std::vector<const Assignment*> kept_by(const SmallProblem& small, const cp::RetentionProblem& problem, ModelPart part);

/// A root space; of the whole model, or of a part of it.
std::unique_ptr<Gecode::Space> root_space(const SmallProblem& small, cp::Context& context, ModelPart part);

}  // namespace remora::test
