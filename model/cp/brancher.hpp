// SPDX-License-Identifier: Apache-2.0
//
// Branching: decide next where memory hurts most.
//
// 1. A copy that is certain but whose stage is open: the incumbent's stage if that is wanted and possible, else the
//    latest stage (closest to the use it serves); or not there.
// 2. Otherwise the event with the worst potential overload: of the undecided ops that can give way there, the one with
//    the most useful bytes per duration is recomputed between the event and its next use; or not there, which makes its
//    retention across the event mandatory.
// 3. No overload left: every undecided copy is absent, which is the cheapest completion.
//
// Every choice is "stage within [first, last]" against "stage outside", so one brancher and one kind of choice serve.
#pragma once

#include <gecode/int.hh>

#include "model/cp/context.hpp"
#include "model/cp/overload.hpp"
#include "model/random.hpp"

namespace remora::cp {

struct Branching {
  /// Try the incumbent's stages first (for neighbourhoods).
  bool follow_incumbent = false;
  /// 0: none; otherwise scores are multiplied by a random factor in [1 - noise, 1 + noise].
  double noise = 0;
  std::uint64_t seed = 1;
};

class OverloadBrancher : public Gecode::Brancher {
 public:
  static void post(Gecode::Home home, StageViews& stages, Context& context, const Branching& branching);

  [[nodiscard]] bool status(const Gecode::Space& home) const override;
  const Gecode::Choice* choice(Gecode::Space& home) override;
  const Gecode::Choice* choice(const Gecode::Space& home, Gecode::Archive& archive) override;
  Gecode::ExecStatus commit(Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative) override;
  void print(const Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative,
             std::ostream& out) const override;
  Gecode::Actor* copy(Gecode::Space& home) override;

 private:
  struct Decision {
    int copy = 0;
    Stage first = 0;
    Stage last = 0;
  };

  OverloadBrancher(Gecode::Home home, StageViews& stages, Context& context, const Branching& branching);
  OverloadBrancher(Gecode::Space& home, OverloadBrancher& other);

  [[nodiscard]] Decision decide();
  [[nodiscard]] bool decide_stage(Decision& decision) const;
  [[nodiscard]] bool decide_overload(Decision& decision);
  [[nodiscard]] Decision recompute_after(FreeId op, const MemoryEvent& event) const;
  [[nodiscard]] double score(const CoverOffer& candidate, const Overload& overload);

  StageViews stages_;
  Context* context_;
  Branching branching_;
  Random random_;
};

}  // namespace remora::cp
