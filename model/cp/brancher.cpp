// SPDX-License-Identifier: Apache-2.0
#include "model/cp/brancher.hpp"

#include <algorithm>
#include <ostream>

#include "model/ensure.hpp"

namespace remora::cp {

using Gecode::Archive;
using Gecode::Choice;
using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;

namespace {

class StageChoice : public Choice {
 public:
  StageChoice(const Gecode::Brancher& brancher, int chosen_copy, Stage first_stage, Stage last_stage)
      : Choice(brancher, 2), copy(chosen_copy), first(first_stage), last(last_stage) {}

  void archive(Archive& archive) const override {
    Choice::archive(archive);
    archive << copy << first << last;
  }

  int copy;
  Stage first;
  Stage last;
};

}  // namespace

OverloadBrancher::OverloadBrancher(Home home, StageViews& stages, Context& context, const Branching& branching)
    : Brancher(home), stages_(stages), context_(&context), branching_(branching), random_(branching.seed) {}

OverloadBrancher::OverloadBrancher(Space& home, OverloadBrancher& other)
    : Brancher(home, other), context_(other.context_), branching_(other.branching_), random_(other.random_) {
  stages_.update(home, other.stages_);
}

void OverloadBrancher::post(Home home, StageViews& stages, Context& context, const Branching& branching) {
  (void)new (home) OverloadBrancher(home, stages, context, branching);
}

Gecode::Actor* OverloadBrancher::copy(Space& home) {
  return new (home) OverloadBrancher(home, *this);
}

bool OverloadBrancher::status(const Space&) const {
  for (const auto& stage : stages_) {
    if (!stage.assigned()) return true;
  }
  return false;
}

const Choice* OverloadBrancher::choice(Space&) {
  const Decision decision = decide();
  return new StageChoice(*this, decision.copy, decision.first, decision.last);
}

const Choice* OverloadBrancher::choice(const Space&, Archive& archive) {
  int copy = 0;
  Stage first = 0;
  Stage last = 0;
  archive >> copy >> first >> last;
  return new StageChoice(*this, copy, first, last);
}

ExecStatus OverloadBrancher::commit(Space& home, const Choice& choice, unsigned int alternative) {
  const auto& chosen = static_cast<const StageChoice&>(choice);
  Gecode::Int::IntView stage = stages_[chosen.copy];
  if (alternative == 0) {
    GECODE_ME_CHECK(stage.gq(home, chosen.first));
    GECODE_ME_CHECK(stage.lq(home, chosen.last));
  } else {
    Gecode::Iter::Ranges::Singleton range(chosen.first, chosen.last);
    GECODE_ME_CHECK(stage.minus_r(home, range, false));
  }
  return Gecode::ES_OK;
}

void OverloadBrancher::print(const Space&, const Choice& choice, unsigned int alternative, std::ostream& out) const {
  const auto& chosen = static_cast<const StageChoice&>(choice);
  const RetentionProblem& problem = context_->problem;
  const OpId op = problem.free_ops()[problem.owner(CopyId(chosen.copy))].op;
  const std::string& name = problem.instance().graph().ops[static_cast<std::size_t>(op)].name;
  out << name << (alternative == 0 ? " recomputed in" : " not in") << " stages " << chosen.first << ".." << chosen.last;
}

OverloadBrancher::Decision OverloadBrancher::decide() {
  context_->profile.refresh(stages_);
  Decision decision;
  if (decide_stage(decision) || decide_overload(decision)) return decision;
  const Stage absent = context_->problem.absent();
  for (int copy = 0; copy < stages_.size(); ++copy) {
    if (!stages_[copy].assigned()) return {copy, absent, absent};
  }
  ensure(false, "brancher: asked for a choice although everything is assigned");
  return decision;
}

bool OverloadBrancher::decide_stage(Decision& decision) const {
  for (int copy = 0; copy < stages_.size(); ++copy) {
    const auto& stage = stages_[copy];
    if (stage.assigned() || stage.max() == context_->problem.absent()) continue;
    const Stage incumbent = context_->problem.incumbent(CopyId(copy));
    const bool follow = branching_.follow_incumbent && stage.in(incumbent);
    const Stage value = follow ? incumbent : stage.max();
    decision = {copy, value, value};
    return true;
  }
  return false;
}

bool OverloadBrancher::decide_overload(Decision& decision) {
  const OverloadFinder finder(context_->problem, context_->profile);
  std::vector<Overload> overloads;
  finder.find(overloads);
  if (overloads.empty()) return false;
  const auto worst = std::max_element(overloads.begin(), overloads.end(),
                                      [](const Overload& a, const Overload& b) { return a.excess < b.excess; });
  std::vector<CoverOffer> candidates;
  finder.candidates(worst->event, candidates);
  if (candidates.empty()) return false;
  const CoverOffer* best = nullptr;
  double best_score = -1;
  for (const CoverOffer& candidate : candidates) {
    const double value = score(candidate, *worst);
    if (value > best_score) {
      best_score = value;
      best = &candidate;
    }
  }
  decision = recompute_after(FreeId(best->item), worst->event);
  return true;
}

double OverloadBrancher::score(const CoverOffer& candidate, const Overload& overload) {
  const auto useful = static_cast<double>(std::min(candidate.gain, overload.excess).count());
  double value = useful / (1.0 + static_cast<double>(candidate.cost.count()));
  if (branching_.noise > 0) {
    value *= 1.0 + branching_.noise * (2.0 * random_.unit() - 1.0);
  }
  return value;
}

OverloadBrancher::Decision OverloadBrancher::recompute_after(FreeId op, const MemoryEvent& event) const {
  const RetentionProblem& problem = context_->problem;
  const RetentionProfile& profile = context_->profile;
  const FreeOp& free = problem.free_ops()[op];
  // Of the outputs that can give way here, the largest one's next use says until when.
  Moment before{};
  Bytes largest(-1);
  for (const TouchedId t : problem.outputs(op)) {
    if (problem.touched()[t].size <= largest || !profile.may_give_way(t)) continue;
    if (!profile.retained(t, event, Reading::potential) || profile.retained(t, event, Reading::mandatory)) continue;
    largest = problem.touched()[t].size;
    const auto retentions = profile.retentions(t, Reading::mandatory);
    const auto next = std::find_if(retentions.begin(), retentions.end(),
                                   [&](const Retention& r) { return r.to.moment > event.moment; });
    ensure(next != retentions.end(), "brancher: a retained tensor has no next use");
    before = next->first_use;
  }
  const auto range = RetentionProblem::stages_between(free.op, event.moment, before);
  for (int copy = free.first_copy; copy < free.first_copy + free.copies; ++copy) {
    if (!profile.domain(CopyId(copy)).undecided()) continue;
    const Stage latest = profile.domain(CopyId(copy)).latest_up_to(range.last);
    if (latest != StageDomain::kNone && latest >= range.first) return {copy, range.first, latest};
  }
  ensure(false, "brancher: an op that can give way has no stage to be recomputed in");
  return {};
}

}  // namespace remora::cp
