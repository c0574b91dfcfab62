// SPDX-License-Identifier: Apache-2.0
//
// The Gecode brancher: turns a decision (branching.hpp) into a choice, "value within [first, last]" against "value
// outside". It prints why it chose.
#pragma once

#include <gecode/int.hh>

#include "model/cp/branching.hpp"
#include "model/cp/context.hpp"

namespace remora::cp {

class RetentionBrancher : public Gecode::Brancher {
 public:
  static void post(Gecode::Home home, Views& views, Context& context, const Branching& branching);

  [[nodiscard]] bool status(const Gecode::Space& home) const override;
  const Gecode::Choice* choice(Gecode::Space& home) override;
  const Gecode::Choice* choice(const Gecode::Space& home, Gecode::Archive& archive) override;
  Gecode::ExecStatus commit(Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative) override;
  void print(const Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative,
             std::ostream& out) const override;
  Gecode::Actor* copy(Gecode::Space& home) override;

 private:
  RetentionBrancher(Gecode::Home home, Views& views, Context& context, const Branching& branching);
  RetentionBrancher(Gecode::Space& home, RetentionBrancher& other);

  Views views_;
  Context* context_;
  DecisionMaker decisions_;
};

}  // namespace remora::cp
