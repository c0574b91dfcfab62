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

ProofNews ModeProof::step(const ProofLimits& limits) {
  return is_relaxed_ ? solve_whole(limits) : relax(limits);
}

Duration ModeProof::with_constant(Duration cost) const {
  return cost >= Duration::max() - program_->constant() ? Duration::max() : cost + program_->constant();
}

ProofNews ModeProof::relax(const ProofLimits& limits) {
  if (!program_) {
    program_.emplace(instance_, limits.interrupted);
    program_->take_violated(std::vector<double>(program_->program().costs.size(), 0), kRows, true);
  }
  Program& program = program_->program();
  ProofNews news;
  news.infeasible = program_->has_no_choice();
  news.finished = news.infeasible || program.costs.empty();
  if (news.finished) return news;
  LinearAnswer answer;
  do {
    news.finished = work_of_linear(program) > limits.work - news.work;
    if (news.finished) return news;
    news.work += work_of_linear(program);
    answer = solve_linear(program, limits.interrupted);
    if (answer.outcome == LinearAnswer::Outcome::no_solution) {
      news.infeasible = !answer.prices.empty() && proves_no_solution(program, answer.prices);
      news.finished = news.infeasible;
      is_relaxed_ = true;
      return news;
    }
    news.finished = answer.outcome != LinearAnswer::Outcome::optimal;
    if (news.finished) return news;
    exact_bound_ = std::max(exact_bound_, with_constant(program_bound(program, answer.prices).bound));
    news.bound = news.exact_bound = bound_ = std::max(bound_, exact_bound_);
  } while (program_->take_violated(answer.solution, kRows, false) > 0);
  is_relaxed_ = true;
  news.finished = bound_ >= limits.ceiling;
  if (!news.finished) dive_for(limits, news);
  return news;
}

void ModeProof::dive_for(const ProofLimits& limits, ProofNews& news) {
  Program& program = program_->program();
  for (int i = 0; i < kDives && work_of_linear(program) <= limits.work - news.work; ++i) {
    news.work += work_of_linear(program);
    const std::vector<double> solution = dive(program, program_->groups(), limits.interrupted);
    if (solution.empty()) return;
    if (std::vector<Compute> found = program_->sequence(solution); !found.empty())
      news.sequences.push_back(std::move(found));
    if (program_->take_violated(solution, kRows, true) == 0) return;
  }
}

ProofNews ModeProof::solve_whole(const ProofLimits& limits) {
  ProofNews news{.bound = bound_, .exact_bound = exact_bound_, .finished = has_ended_ || bound_ >= limits.ceiling};
  if (news.finished) return news;
  Program& program = program_->program();
  // Work is counted in CBC's nodes.
  const bool by_highs = limits.mip == IntegerSolver::highs && limits.work == Work::max() && !find_highs().name.empty();
  const std::int64_t nodes = std::min(limits.nodes, nodes_within(limits.work, program));
  news.finished = limits.mip == IntegerSolver::off || nodes <= 0;
  if (news.finished) return news;
  bool is_outdated = false;
  const auto is_over = [&] {
    is_outdated = is_outdated || limits.is_outdated(bound_);
    return is_outdated || limits.is_interrupted();
  };
  const Duration ceiling = limits.ceiling == Duration::max() ? limits.ceiling : limits.ceiling - program_->constant();
  const IntegerAnswer answer =
      solve_integer(program, {.ceiling = ceiling, .nodes = nodes, .interrupted = is_over, .by_highs = by_highs});
  news.work = work_of_integer(program, answer.nodes);
  news.solved_by = by_highs ? IntegerSolver::highs : IntegerSolver::cbc;
  use(answer, limits, news);
  // Where it was stopped for nodes, the next one would be, too.
  news.finished = news.finished || (!answer.complete && !is_outdated);
  return news;
}

void ModeProof::use(const IntegerAnswer& answer, const ProofLimits& limits, ProofNews& news) {
  bound_ = std::max(bound_, std::min(limits.ceiling, with_constant(answer.bound)));
  news.bound = bound_;
  if (answer.solution.empty()) {
    news.finished = answer.complete;
    if (!answer.complete) return;
    news.infeasible = limits.ceiling == Duration::max();
    if (!news.infeasible) news.bound = bound_ = limits.ceiling;
    return;
  }
  if (std::vector<Compute> found = program_->sequence(answer.solution); !found.empty())
    news.sequences.push_back(std::move(found));
  // With the rows that it violates it is another program; without, the relaxation knows no better.
  has_ended_ = program_->take_violated(answer.solution, kRows, true) == 0 && answer.complete;
  news.finished = has_ended_;
}

}  // namespace remora
