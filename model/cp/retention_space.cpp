// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_space.hpp"

#include <algorithm>
#include <memory>

#include "model/cp/branching.hpp"
#include "model/cp/dominance.hpp"
#include "model/cp/duration.hpp"
#include "model/cp/event_order.hpp"
#include "model/cp/memory.hpp"
#include "model/cp/mode_choice.hpp"
#include "model/ensure.hpp"

namespace remora::cp {
namespace {

constexpr int kMostImprovements = 1 << 30;

Gecode::IntVar start_variable(Gecode::Space& home, const RetentionProblem& problem, CopyId copy) {
  const auto [first, last] = problem.possible_starts(copy);
  const Start absent = problem.absent();
  if (!problem.is_recompute(copy)) {
    ensure(first <= last, "retention space: the incumbent's order contradicts the graph");
    return {home, first, last};
  }
  if (first > last) return {home, absent, absent};
  // What lies between the bans, and absent.
  const auto banned = problem.banned_starts(copy);
  const auto ranges = std::make_unique<int[][2]>(banned.size() + 2);
  int count = 0;
  const auto add = [&](Start from, Start to) {
    if (from > to) return;
    ranges[at(count)][0] = from;
    ranges[at(count)][1] = to;
    ++count;
  };
  Start next = first;
  for (const auto& ban : banned) {
    add(next, std::min(ban.first - 1, last));
    next = std::max(next, ban.last + 1);
  }
  add(next, last);
  add(absent, absent);
  return {home, Gecode::IntSet(ranges.get(), count)};
}

Gecode::IntVar mode_variable(Gecode::Space& home, const RetentionProblem& problem, CopyId copy) {
  const OpId op = problem.free_ops()[problem.owner(copy)].op;
  std::vector<int> offered;
  for (ModeNumber mode = 0; mode < problem.instance().mode_count(op); ++mode) {
    if (problem.instance().offers(op, mode)) offered.push_back(mode);
  }
  return {home, Gecode::IntSet(offered.data(), static_cast<int>(offered.size()))};
}

}  // namespace

RetentionSpace::RetentionSpace(Context& context, const Branching& branching)
    : context_(&context), improvements_(*this, 0, kMostImprovements) {
  const RetentionProblem& problem = context.problem;
  const Inferences& inferences = problem.inferences();
  Gecode::Home home(*this);
  make_variables();
  Views views(*this, Gecode::IntVarArgs(variables_));
  order_events(views);
  if (problem.has_modes()) GECODE_ES_FAIL(TiedModes::post(*this, views, context));
  if (problem.limits_computes()) GECODE_ES_FAIL(WeightedComputes::post(*this, views, context));
  if (inferences.useless_recompute) GECODE_ES_FAIL(UselessRecompute::post(*this, views, context));
  GECODE_ES_FAIL(Memory::post(*this, views, context));
  if (inferences.later_recompute && !problem.free_order()) {
    GECODE_ES_FAIL(LaterRecompute::post(*this, views, context));
  }
  GECODE_ES_FAIL(ExtraDuration::post(*this, views, improvements_, context));
  RetentionBrancher::post(*this, views, context, branching);
}

RetentionSpace::RetentionSpace(RetentionSpace& other) : Space(other), context_(other.context_) {
  variables_.update(*this, other.variables_);
  improvements_.update(*this, other.improvements_);
}

Gecode::Space* RetentionSpace::copy() {
  return new RetentionSpace(*this);
}

void RetentionSpace::make_variables() {
  const RetentionProblem& problem = context_->problem;
  variables_ = Gecode::IntVarArray(*this, problem.variable_count());
  for (int variable = 0; variable < problem.variable_count(); ++variable) {
    variables_[variable] = variable < problem.copy_count() ? start_variable(*this, problem, CopyId(variable))
                                                           : mode_variable(*this, problem, problem.mode_copy(variable));
  }
}

void RetentionSpace::order_events(Views& views) {
  const RetentionProblem& problem = context_->problem;
  Gecode::Home home(*this);
  for (const FreeOp& free : problem.free_ops()) {
    for (int copy = free.first_copy; copy + 1 < free.first_copy + free.copies; ++copy) {
      GECODE_ES_FAIL(CopyOrder::post(*this, variables_[copy], variables_[copy + 1], problem.absent()));
    }
  }
  if (!problem.free_order()) return;
  for (const auto& [before, after] : problem.precedences()) {
    const auto& free_ops = problem.free_ops();
    Gecode::rel(*this, variables_[free_ops[before].first_copy], Gecode::IRT_LE, variables_[free_ops[after].first_copy]);
  }
  post_events_different(*this, variables_, problem);
  GECODE_ES_FAIL(PackedPlaces::post(*this, views, *context_));
}

void RetentionSpace::constrain(const Gecode::Space& best) {
  const auto& solution = static_cast<const RetentionSpace&>(best);
  context_->extra_below = std::min(context_->extra_below, solution.extra());
  if (failed()) return;
  Gecode::Int::IntView improvements(improvements_);
  if (Gecode::me_failed(improvements.gq(*this, improvements.min() + 1))) fail();
}

std::vector<int> RetentionSpace::values() const {
  std::vector<int> result;
  result.reserve(at(variables_.size()));
  for (int variable = 0; variable < variables_.size(); ++variable) result.push_back(variables_[variable].val());
  return result;
}

Duration RetentionSpace::extra() const {
  const RetentionProblem& problem = context_->problem;
  Duration total = problem.rest_extra();
  for (const CopyId copy : problem.copy_ids()) {
    if (variables_[copy].val() == problem.absent()) continue;
    const FreeOp& free = problem.free_ops()[problem.owner(copy)];
    const int variable = problem.mode_variable(copy);
    const ModeNumber mode = variable < 0 ? 0 : variables_[variable].val();
    total += problem.extra_of(copy, problem.instance().duration(free.op, mode));
  }
  return total;
}

}  // namespace remora::cp
