// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_space.hpp"

#include <algorithm>

#include "model/cp/duration.hpp"
#include "model/cp/later_recompute.hpp"
#include "model/cp/memory.hpp"
#include "model/cp/supply.hpp"

namespace remora::cp {
namespace {

constexpr int kMostImprovements = 1 << 30;

}  // namespace

RetentionSpace::RetentionSpace(Context& context, const Branching& branching)
    : context_(&context), improvements_(*this, 0, kMostImprovements) {
  const RetentionProblem& problem = context.problem;
  const Stage absent = problem.absent();
  Gecode::Home home(*this);
  stages_ = Gecode::IntVarArray(*this, problem.copy_count());
  for (int copy = 0; copy < problem.copy_count(); ++copy) {
    const FreeId owner = problem.owner(CopyId(copy));
    const Stage first = problem.free_ops()[owner].op + 1;
    const Stage last = problem.latest_useful(owner);
    const int ranges[][2] = {{first, last}, {absent, absent}};
    stages_[copy] =
        first <= last ? Gecode::IntVar(*this, Gecode::IntSet(ranges, 2)) : Gecode::IntVar(*this, absent, absent);
  }
  for (const FreeOp& free : problem.free_ops()) {
    for (int copy = free.first_copy; copy + 1 < free.first_copy + free.copies; ++copy) {
      GECODE_ES_FAIL(CopyOrder::post(*this, stages_[copy], stages_[copy + 1], absent));
    }
  }
  StageViews views(*this, Gecode::IntVarArgs(stages_));
  if (problem.inferences().useless_recompute) GECODE_ES_FAIL(Supply::post(*this, views, context));
  GECODE_ES_FAIL(Memory::post(*this, views, context));
  if (problem.inferences().later_recompute) GECODE_ES_FAIL(LaterRecompute::post(*this, views, context));
  GECODE_ES_FAIL(ExtraDuration::post(*this, views, improvements_, context));
  OverloadBrancher::post(*this, views, context, branching);
}

RetentionSpace::RetentionSpace(RetentionSpace& other) : Space(other), context_(other.context_) {
  stages_.update(*this, other.stages_);
  improvements_.update(*this, other.improvements_);
}

Gecode::Space* RetentionSpace::copy() {
  return new RetentionSpace(*this);
}

void RetentionSpace::constrain(const Gecode::Space& best) {
  const auto& solution = static_cast<const RetentionSpace&>(best);
  context_->extra_below = std::min(context_->extra_below, solution.extra());
  if (failed()) return;
  Gecode::Int::IntView improvements(improvements_);
  if (Gecode::me_failed(improvements.gq(*this, improvements.min() + 1))) fail();
}

std::vector<Stage> RetentionSpace::copy_stages() const {
  std::vector<Stage> result;
  result.reserve(static_cast<std::size_t>(stages_.size()));
  for (int copy = 0; copy < stages_.size(); ++copy) result.push_back(stages_[copy].val());
  return result;
}

Duration RetentionSpace::extra() const {
  Duration total = context_->problem.rest_extra();
  for (int copy = 0; copy < stages_.size(); ++copy) {
    if (stages_[copy].val() == context_->problem.absent()) continue;
    total += context_->problem.free_ops()[context_->problem.owner(CopyId(copy))].duration;
  }
  return total;
}

}  // namespace remora::cp
