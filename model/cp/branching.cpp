// SPDX-License-Identifier: Apache-2.0
#include "model/cp/branching.hpp"

#include <algorithm>
#include <ostream>

#include "model/error.hpp"

namespace remora::cp {

using Gecode::Archive;
using Gecode::Choice;
using Gecode::ExecStatus;
using Gecode::Home;
using Gecode::Space;

namespace {

/// The fastest mode still open to the copy of the variable.
ModeNumber fastest(const Views& views, const RetentionProblem& problem, int variable) {
  const OpId op = problem.free_ops()[problem.owner(problem.mode_copy(variable))].op;
  ModeNumber best = views[variable].min();
  for (ModeNumber mode = best + 1; mode <= views[variable].max(); ++mode) {
    if (!views[variable].in(mode)) continue;
    if (problem.instance().duration(op, mode) < problem.instance().duration(op, best)) best = mode;
  }
  return best;
}

/// How memory grows if the copy is the next event: what it writes, less what it is the last to read.
Bytes growth(const RetentionProblem& problem, const RetentionProfile& profile, CopyId copy, Moment now) {
  const FreeId owner = problem.owner(copy);
  Bytes result;
  for (const TouchedId t : problem.outputs(owner)) result += problem.touched()[t].size;
  for (const TouchedId t : problem.inputs(owner)) {
    const auto uses = problem.fixed_uses(t);
    bool read_later = !uses.empty() && uses.back().moment > now;
    for (const FreeId user : problem.free_users(t)) {
      const FreeOp& free = problem.free_ops()[user];
      for (const CopyId c : free.ids()) {
        if (read_later) break;
        read_later = c != copy && profile.domain(c).active() && !profile.domain(c).assigned();
      }
    }
    if (!read_later) result -= problem.touched()[t].size;
  }
  return result;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Decision& decision) {
  out << "variable " << decision.variable << " in " << decision.first << ".." << decision.last << ": ";
  switch (decision.reason) {
    case Reason::open_start:
      return out << "computed, but when?";
    case Reason::next_event:
      return out << "what comes next?";
    case Reason::open_mode:
      return out << "computed, but how?";
    case Reason::overload:
      return out << "event (" << decision.event.major << ", " << decision.event.minor << ") is overloaded";
    case Reason::nothing_overloaded:
      return out << "nothing is overloaded";
    case Reason::incumbent:
      return out << "the incumbent has it so";
    case Reason::fewest_values:
      return out << "fewest values left";
  }
  return out;
}

Decision DecisionMaker::decide(const Views& views, Context& context) {
  Found found;
  if (branching_.rule == BranchingRule::incumbent) found = incumbent_value(views, context.problem);
  if (branching_.rule == BranchingRule::domain_size) found = fewest_values(views, context.problem);
  if (!found) found = by_overload(views, context);
  ensure(found.has_value(), "branching: asked for a choice although everything is assigned");
  return *found;
}

DecisionMaker::Found DecisionMaker::by_overload(const Views& views, Context& context) {
  context.profile.refresh(views);
  const RetentionProblem& problem = context.problem;
  Found found;
  if (!problem.free_order()) found = open_start(views, problem);
  if (!found) found = open_mode(views, problem);
  if (!found) found = worst_overload(context);
  if (!found && problem.free_order()) found = next_event(views, context);
  for (const CopyId copy : problem.copy_ids()) {
    if (found) break;
    if (views[copy].assigned()) continue;
    found = Decision{copy, problem.absent(), problem.absent(), Reason::nothing_overloaded};
  }
  return found;
}

bool DecisionMaker::follows(const Views& views, const RetentionProblem& problem, int variable) const {
  return branching_.follow_incumbent && views[variable].in(problem.incumbent(variable));
}

DecisionMaker::Found DecisionMaker::open_start(const Views& views, const RetentionProblem& problem) const {
  for (const CopyId copy : problem.copy_ids()) {
    if (views[copy].assigned() || views[copy].max() == problem.absent()) continue;
    const Start value = follows(views, problem, copy) ? problem.incumbent(copy) : views[copy].max();
    return Decision{copy, value, value, Reason::open_start};
  }
  return {};
}

DecisionMaker::Found DecisionMaker::open_mode(const Views& views, const RetentionProblem& problem) const {
  for (int variable = problem.copy_count(); variable < problem.variable_count(); ++variable) {
    const bool certain = views[problem.mode_copy(variable)].max() != problem.absent();
    if (views[variable].assigned() || !certain) continue;
    const bool follow = follows(views, problem, variable);
    const ModeNumber value = follow ? problem.incumbent(variable) : fastest(views, problem, variable);
    return Decision{variable, value, value, Reason::open_mode};
  }
  return {};
}

/// Free order is decided from the front: of the certain copies that can take the first place not yet settled, the one
/// that comes first in the incumbent if that is wanted, else the one after which least is resident.
DecisionMaker::Found DecisionMaker::next_event(const Views& views, const Context& context) {
  const RetentionProblem& problem = context.problem;
  Start front = problem.absent();
  for (const CopyId copy : problem.copy_ids()) {
    if (views[copy].assigned() || views[copy].max() == problem.absent()) continue;
    front = std::min(front, static_cast<Start>(views[copy].min()));
  }
  Found best;
  double best_score = 0;
  for (const CopyId copy : problem.copy_ids()) {
    if (views[copy].assigned() || views[copy].max() == problem.absent() || views[copy].min() != front) continue;
    const Moment now = problem.moment_of(front, problem.free_ops()[problem.owner(copy)].op);
    const double score = branching_.follow_incumbent
                             ? static_cast<double>(problem.incumbent(copy))
                             : with_noise(static_cast<double>(growth(problem, context.profile, copy, now).count()));
    if (best && score >= best_score) continue;
    best_score = score;
    best = Decision{copy, front, front, Reason::next_event};
  }
  return best;
}

DecisionMaker::Found DecisionMaker::worst_overload(Context& context) {
  OverloadFinder finder(context.problem, context.profile);
  std::vector<Overload> overloads;
  finder.find(overloads);
  if (overloads.empty()) return {};
  const auto worst = std::max_element(overloads.begin(), overloads.end(),
                                      [](const Overload& a, const Overload& b) { return a.excess < b.excess; });
  std::vector<CoverOffer> candidates;
  finder.candidates(worst->event, candidates);
  const CoverOffer* best = nullptr;
  double best_score = -1;
  for (const CoverOffer& candidate : candidates) {
    const auto useful = static_cast<double>(std::min(candidate.gain, worst->excess).count());
    const double score = with_noise(useful / (1.0 + static_cast<double>(candidate.cost.count())));
    if (score <= best_score) continue;
    best_score = score;
    best = &candidate;
  }
  if (best == nullptr) return {};
  return recompute_after(context, FreeId(best->item), worst->event);
}

Decision DecisionMaker::recompute_after(const Context& context, FreeId op, const MemoryEvent& event) {
  const RetentionProblem& problem = context.problem;
  const RetentionProfile& profile = context.profile;
  const FreeOp& free = problem.free_ops()[op];
  // The next use of the largest output that can be evicted here decides until when.
  Start last = problem.absent() - 1;
  Bytes largest;
  for (const TouchedId t : problem.outputs(op)) {
    if (!profile.may_give_way(t)) continue;
    const Bytes gain = profile.gain(t, event);
    if (gain <= largest) continue;
    largest = gain;
    const auto retentions = profile.retentions(t, Reading::mandatory);
    const auto next = std::find_if(retentions.begin(), retentions.end(), [&](const Retention& r) {
      return r.to.moment > event.moment && r.first_use > event.moment;
    });
    last = next == retentions.end() ? problem.absent() - 1 : problem.last_start_before(free.op, next->first_use);
  }
  const Start first = problem.first_start_after(free.op, event.moment);
  int undecided = -1;
  for (const CopyId copy : free.ids()) {
    const StartDomain& domain = profile.domain(copy);
    if (!domain.undecided()) continue;
    undecided = copy;
    const Start latest = domain.latest_up_to(last);
    if (latest == StartDomain::kNone || latest < first) continue;
    return {copy, first, latest, Reason::overload, event.moment};
  }
  // A smaller mode of a run before the event can save memory here.
  ensure(undecided >= 0, "branching: an op that can give way has no undecided copy");
  const StartDomain& domain = profile.domain(CopyId(undecided));
  return {undecided, domain.earliest(), domain.latest(), Reason::overload, event.moment};
}

DecisionMaker::Found DecisionMaker::incumbent_value(const Views& views, const RetentionProblem& problem) {
  Found found;
  std::uint64_t seen = 0;
  for (int variable = 0; variable < problem.variable_count(); ++variable) {
    const Start value = problem.incumbent(variable);
    if (views[variable].assigned() || !views[variable].in(value)) continue;
    // Each with the same chance, in one pass.
    if (random_.below(++seen) == 0) found = Decision{variable, value, value, Reason::incumbent};
  }
  return found;
}

DecisionMaker::Found DecisionMaker::fewest_values(const Views& views, const RetentionProblem& problem) {
  int chosen = -1;
  std::uint64_t ties = 0;
  for (int variable = 0; variable < problem.variable_count(); ++variable) {
    if (views[variable].assigned()) continue;
    const bool fewer = chosen < 0 || views[variable].size() < views[chosen].size();
    if (fewer) ties = 0;
    const bool equal = !fewer && views[variable].size() == views[chosen].size();
    if (fewer || (equal && random_.below(ties + 1) == 0)) chosen = variable;
    if (fewer || equal) ++ties;
  }
  if (chosen < 0) return {};
  Start value = chosen < problem.copy_count() ? views[chosen].max() : fastest(views, problem, chosen);
  if (follows(views, problem, chosen)) value = problem.incumbent(chosen);
  return Decision{chosen, value, value, Reason::fewest_values};
}

double DecisionMaker::with_noise(double score) {
  if (branching_.noise <= 0) return score;
  return score * (1.0 + branching_.noise * (2.0 * random_.unit() - 1.0));
}

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

const Decision& decision_of(const Choice& choice) {
  return static_cast<const RetentionChoice&>(choice).decision;
}

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
  const Decision& decision = decision_of(choice);
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
  out << (alternative == 0 ? "yes: " : "no: ") << decision_of(choice);
}

}  // namespace remora::cp
