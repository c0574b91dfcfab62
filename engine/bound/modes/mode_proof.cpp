// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/modes/mode_proof.hpp"

#include <algorithm>
#include <utility>

#include "engine/bound/highs.hpp"
#include "engine/bound/periods/period_solver.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Rows that are taken at once. One is enough where memory has one peak; many peaks of chains of modules want one each.
constexpr std::size_t kRows = 20;
/// Dives, each with the rows that the last one violates.
constexpr int kDives = 4;

}  // namespace

ProofUpdate ModeProof::step(const ProofLimits& limits) {
  return is_relaxed_ ? solve_whole(limits) : relax(limits);
}

Duration ModeProof::with_constant(Duration cost) const {
  return cost >= Duration::max() - program_->constant() ? Duration::max() : cost + program_->constant();
}

ProofUpdate ModeProof::relax(const ProofLimits& limits) {
  if (!program_) {
    program_.emplace(instance_, limits.interrupted);
    program_->take_violated(std::vector<double>(program_->program().costs.size(), 0), kRows, true);
  }
  Program& program = program_->program();
  ProofUpdate update;
  update.infeasible = program_->has_no_choice();
  update.finished = update.infeasible || program.costs.empty();
  if (update.finished) return update;
  LinearAnswer answer;
  do {
    answer = solve_linear(program, limits.interrupted);
    if (answer.outcome == LinearAnswer::Outcome::no_solution) {
      update.infeasible = !answer.prices.empty() && proves_no_solution(program, answer.prices);
      update.finished = update.infeasible;
      is_relaxed_ = true;
      return update;
    }
    update.finished = answer.outcome != LinearAnswer::Outcome::optimal;
    if (update.finished) return update;
    exact_bound_ = std::max(exact_bound_, with_constant(program_bound(program, answer.prices).bound));
    update.bound = update.exact_bound = bound_ = std::max(bound_, exact_bound_);
  } while (program_->take_violated(answer.solution, kRows, false) > 0);
  is_relaxed_ = true;
  update.finished = bound_ >= limits.cutoff;
  if (!update.finished) dive_for(limits, update);
  return update;
}

void ModeProof::dive_for(const ProofLimits& limits, ProofUpdate& update) {
  Program& program = program_->program();
  for (int i = 0; i < kDives; ++i) {
    const std::vector<double> solution = dive(program, program_->groups(), limits.interrupted);
    if (solution.empty()) return;
    if (std::vector<Compute> found = program_->sequence(solution); !found.empty())
      update.sequences.push_back(std::move(found));
    if (program_->take_violated(solution, kRows, true) == 0) return;
  }
}

ProofUpdate ModeProof::solve_whole(const ProofLimits& limits) {
  ProofUpdate update{.bound = bound_, .exact_bound = exact_bound_, .finished = has_ended_ || bound_ >= limits.cutoff};
  if (update.finished) return update;
  Program& program = program_->program();
  const bool by_highs = limits.mip == IntegerSolver::highs && !find_highs().name.empty();
  update.finished = limits.mip == IntegerSolver::off;
  if (update.finished) return update;
  bool is_outdated = false;
  const auto is_over = [&] {
    is_outdated = is_outdated || limits.is_outdated(bound_);
    return is_outdated || limits.is_interrupted();
  };
  const Duration cutoff = limits.cutoff == Duration::max() ? limits.cutoff : limits.cutoff - program_->constant();
  const IntegerAnswer answer = solve_integer(
      program, {.cutoff = cutoff, .interrupted = is_over, .stopped = limits.stopped, .by_highs = by_highs});
  update.solved_by = by_highs ? IntegerSolver::highs : IntegerSolver::cbc;
  use(answer, limits, update);
  // Where it was stopped for nodes, the next one would be, too.
  update.finished = update.finished || (!answer.complete && !is_outdated);
  return update;
}

void ModeProof::use(const IntegerAnswer& answer, const ProofLimits& limits, ProofUpdate& update) {
  bound_ = std::max(bound_, std::min(limits.cutoff, with_constant(answer.bound)));
  update.bound = bound_;
  if (answer.solution.empty()) {
    update.finished = answer.complete;
    if (!answer.complete) return;
    update.infeasible = limits.cutoff == Duration::max();
    if (!update.infeasible) update.bound = bound_ = limits.cutoff;
    return;
  }
  if (std::vector<Compute> found = program_->sequence(answer.solution); !found.empty())
    update.sequences.push_back(std::move(found));
  // With the rows that it violates it is another program; without, the relaxation knows no better.
  has_ended_ = program_->take_violated(answer.solution, kRows, true) == 0 && answer.complete;
  update.finished = has_ended_;
}

}  // namespace remora
