// SPDX-License-Identifier: Apache-2.0
#include "model/cp/brancher.hpp"

#include <algorithm>
#include <ostream>

namespace remora::cp {

using Gecode::Archive;
using Gecode::Choice;
using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;

namespace {

class RetentionChoice : public Choice {
 public:
  RetentionChoice(const Gecode::Brancher& brancher, const Decision& taken) : Choice(brancher, 2), decision(taken) {}

  void archive(Archive& archive) const override {
    Choice::archive(archive);
    archive << decision.variable << decision.first << decision.last << static_cast<int>(decision.reason)
            << decision.event.major << decision.event.minor;
  }

  Decision decision;
};

}  // namespace

RetentionBrancher::RetentionBrancher(Home home, Views& views, Context& context, const Branching& branching)
    : Brancher(home), views_(views), context_(&context), decisions_(branching) {}

RetentionBrancher::RetentionBrancher(Space& home, RetentionBrancher& other)
    : Brancher(home, other), context_(other.context_), decisions_(other.decisions_) {
  views_.update(home, other.views_);
}

void RetentionBrancher::post(Home home, Views& views, Context& context, const Branching& branching) {
  (void)new (home) RetentionBrancher(home, views, context, branching);
}

Gecode::Actor* RetentionBrancher::copy(Space& home) {
  return new (home) RetentionBrancher(home, *this);
}

bool RetentionBrancher::status(const Space&) const {
  return std::any_of(views_.begin(), views_.end(), [](const auto& view) { return !view.assigned(); });
}

const Choice* RetentionBrancher::choice(Space&) {
  return new RetentionChoice(*this, decisions_.decide(views_, *context_));
}

const Choice* RetentionBrancher::choice(const Space&, Archive& archive) {
  Decision decision;
  int reason = 0;
  archive >> decision.variable >> decision.first >> decision.last >> reason;
  archive >> decision.event.major >> decision.event.minor;
  decision.reason = static_cast<Reason>(reason);
  return new RetentionChoice(*this, decision);
}

ExecStatus RetentionBrancher::commit(Space& home, const Choice& choice, unsigned int alternative) {
  const Decision& decision = static_cast<const RetentionChoice&>(choice).decision;
  Gecode::Int::IntView view = views_[decision.variable];
  if (alternative == 0) {
    GECODE_ME_CHECK(view.gq(home, decision.first));
    GECODE_ME_CHECK(view.lq(home, decision.last));
  } else {
    Gecode::Iter::Ranges::Singleton range(decision.first, decision.last);
    GECODE_ME_CHECK(view.minus_r(home, range, false));
  }
  return Gecode::ES_OK;
}

void RetentionBrancher::print(const Space&, const Choice& choice, unsigned int alternative, std::ostream& out) const {
  out << (alternative == 0 ? "yes: " : "no: ") << static_cast<const RetentionChoice&>(choice).decision;
}

}  // namespace remora::cp
