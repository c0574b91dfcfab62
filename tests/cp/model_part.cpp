// SPDX-License-Identifier: Apache-2.0
#include "tests/cp/model_part.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "model/cp/dominance.hpp"
#include "model/cp/duration.hpp"
#include "model/cp/event_order.hpp"
#include "model/cp/memory.hpp"
#include "model/cp/mode_choice.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora::test {
namespace {

/// For later recompute: what is computed, how, and the sum of the starts of those that are.
std::pair<std::vector<int>, std::int64_t> computed_and_when(const cp::RetentionProblem& problem,
                                                            const Assignment& assignment) {
  auto what = assignment.values;
  std::int64_t when = 0;
  for (int copy = 0; copy < problem.copy_count(); ++copy) {
    int& value = what[static_cast<std::size_t>(copy)];
    if (value != problem.absent()) when += value;
    value = value != problem.absent() ? 1 : 0;
  }
  return {what, when};
}

/// Leaves of those that compute the same only the latest.
void keep_latest(const SmallProblem& small, const cp::RetentionProblem& problem, std::vector<Fate>& fates) {
  std::map<std::vector<int>, std::int64_t> latest;
  const auto& assignments = small.assignments();
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (fates[i] != Fate::kept) continue;
    const auto [what, when] = computed_and_when(problem, assignments[i]);
    auto& most = latest[what];
    most = std::max(most, when);
  }
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (fates[i] != Fate::kept) continue;
    const auto [what, when] = computed_and_when(problem, assignments[i]);
    if (when < latest[what]) fates[i] = Fate::open;
  }
}

/// Whether the whole model has recomputes come later; that is argued for solutions without useless ones only.
bool makes_later(const cp::RetentionProblem& problem) {
  return problem.inferences().later_recompute && !problem.free_order();
}

Fate fate_in_whole(const cp::RetentionProblem& problem, const Assignment& a) {
  const cp::Limits& limits = problem.limits();
  if (!a.meaningful() || !a.packed || !a.tied || !a.light || !a.plain_absences) return Fate::refused;
  if (a.peak > limits.capacity || a.extra >= limits.extra_below) return Fate::refused;
  const bool may_go = problem.inferences().useless_recompute || makes_later(problem);
  return may_go && a.useless ? Fate::open : Fate::kept;
}

Fate fate(const cp::RetentionProblem& problem, ModelPart part, const Assignment& a) {
  const cp::Limits& limits = problem.limits();
  if (part == ModelPart::whole) return fate_in_whole(problem, a);
  if (part == ModelPart::copy_order) return a.in_order ? Fate::kept : Fate::refused;
  if (part == ModelPart::one_event_a_place) return a.distinct && a.packed ? Fate::kept : Fate::refused;
  // The others read the values as a sequence.
  if (!a.meaningful()) return Fate::open;
  if (part == ModelPart::tied_modes) return a.tied && a.plain_absences ? Fate::kept : Fate::refused;
  if (part == ModelPart::weighted_computes) {
    if (!a.light) return Fate::refused;
    return a.plain_absences ? Fate::kept : Fate::open;
  }
  if (part == ModelPart::memory) return a.peak <= limits.capacity ? Fate::kept : Fate::refused;
  if (part == ModelPart::extra_duration) {
    if (a.extra >= limits.extra_below) return Fate::refused;
    return a.peak <= limits.capacity ? Fate::kept : Fate::open;
  }
  return a.useless ? Fate::open : Fate::kept;
}

void post_copy_orders(PartSpace& space, const cp::RetentionProblem& problem) {
  Gecode::Home home(space);
  const auto& x = space.variables();
  for (int copy = 1; copy < problem.copy_count(); ++copy) {
    if (problem.owner(cp::CopyId(copy)) != problem.owner(cp::CopyId(copy - 1))) continue;
    GECODE_ES_FAIL(cp::CopyOrder::post(space, x[copy - 1], x[copy], problem.absent()));
  }
}

}  // namespace

bool has_part(const cp::RetentionProblem& problem, ModelPart part) {
  if (part == ModelPart::one_event_a_place) return problem.free_order();
  if (part == ModelPart::later_recompute) return !problem.free_order();
  if (part == ModelPart::weighted_computes) return problem.limits_computes();
  return part != ModelPart::tied_modes || problem.variable_count() > problem.copy_count();
}

PartSpace::PartSpace(const std::vector<std::vector<int>>& domains) : improvements_(*this, 0, 1) {
  variables_ = Gecode::IntVarArray(*this, static_cast<int>(domains.size()));
  for (int variable = 0; variable < variables_.size(); ++variable) {
    const auto& domain = domains[static_cast<std::size_t>(variable)];
    variables_[variable] = Gecode::IntVar(*this, Gecode::IntSet(domain.data(), static_cast<int>(domain.size())));
  }
}

PartSpace::PartSpace(PartSpace& other) : Space(other) {
  variables_.update(*this, other.variables_);
  improvements_.update(*this, other.improvements_);
}

void PartSpace::post(cp::Context& context, ModelPart part) {
  Gecode::Home home(*this);
  if (failed()) return;
  cp::Views x = views();
  switch (part) {
    case ModelPart::copy_order:
      post_copy_orders(*this, context.problem);
      break;
    case ModelPart::one_event_a_place:
      cp::post_events_different(*this, variables_, context.problem);
      GECODE_ES_FAIL(cp::PackedPlaces::post(*this, x, context));
      break;
    case ModelPart::tied_modes:
      GECODE_ES_FAIL(cp::TiedModes::post(*this, x, context));
      break;
    case ModelPart::weighted_computes:
      GECODE_ES_FAIL(cp::WeightedComputes::post(*this, x, context));
      break;
    case ModelPart::supply:
      GECODE_ES_FAIL(cp::UselessRecompute::post(*this, x, context));
      break;
    case ModelPart::memory:
      GECODE_ES_FAIL(cp::Memory::post(*this, x, context));
      break;
    case ModelPart::extra_duration:
      GECODE_ES_FAIL(cp::ExtraDuration::post(*this, x, Gecode::Int::IntView(improvements_), context));
      break;
    case ModelPart::later_recompute:
      GECODE_ES_FAIL(cp::LaterRecompute::post(*this, x, context));
      break;
    case ModelPart::whole:
      fail();
      break;
  }
}

std::vector<Fate> fates(const SmallProblem& small, const cp::RetentionProblem& problem, ModelPart part) {
  std::vector<Fate> result;
  for (const Assignment& assignment : small.assignments()) result.push_back(fate(problem, part, assignment));
  if (part == ModelPart::whole ? makes_later(problem) : part == ModelPart::later_recompute)
    keep_latest(small, problem, result);
  return result;
}

std::vector<const Assignment*> kept_by(const SmallProblem& small, const cp::RetentionProblem& problem, ModelPart part) {
  const auto all = fates(small, problem, part);
  std::vector<const Assignment*> result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == Fate::kept) result.push_back(&small.assignments()[i]);
  }
  return result;
}

std::unique_ptr<Gecode::Space> root_space(const SmallProblem& small, cp::Context& context, ModelPart part) {
  if (part == ModelPart::whole) return std::make_unique<cp::RetentionSpace>(context, cp::Branching{});
  auto space = std::make_unique<PartSpace>(small.domains());
  space->post(context, part);
  return space;
}

}  // namespace remora::test
