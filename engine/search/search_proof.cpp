// SPDX-License-Identifier: Apache-2.0
//
// The search and the proof by periods beside it: what each hears of the other, and how they share the cores.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/options.hpp"
#include "engine/base/tasks.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/highs.hpp"
#include "engine/search/search.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

/// The prover's part of a core: at least, and where the search has found nothing in this part of its time, a whole one.
constexpr double kLeastShare = 0.25;
constexpr double kShareOfQuiet = 2;
/// A whole one, too, where the search could gain no more than this part of the extra time.
constexpr double kSmallGap = 0.05;
/// From such a part on the prover takes the place of one of the search's threads.
constexpr double kShareOfThread = 0.5;

}  // namespace

bool Search::proves() const {
  const bool applies = instance_.problem().order == OrderMode::input && !instance_.has_modes();
  return parts_.proves && options_.period_bound && applies && cover_mip_available();
}

void Search::hear_prover() {
  if (!prover_) return;
  take_news(prover_->take());
  if (holds_budget()) prover_->set_ceiling(incumbent_.extra);
  prover_->set_share(prover_share());
}

Prover::Step Search::steps_of_proof() const {
  if (parts_.proof) return parts_.proof;
  const auto proof = std::make_shared<PeriodProof>(instance_);
  return [proof](const ProofLimits& limits) { return proof->step(limits); };
}

/// All of it until the first linear program is solved, and where there is no schedule, or none much better. Else, as long as the
/// search finds better ones, little; the longer it has found none, a part of its time, the more.
double Search::prover_share() const {
  if (!holds_budget() || cover_.roundings == 0) return 1;
  const auto gap = static_cast<double>((incumbent_.extra - lower_bound_).count());
  if (gap <= kSmallGap * static_cast<double>(incumbent_.extra.count())) return 1;
  const double found = report_.history.empty() ? 0 : report_.history.back().seconds;
  const double now = std::max(elapsed(), 1e-3);
  return std::clamp(kShareOfQuiet * (now - found) / now, kLeastShare, 1.0);
}

void Search::take_news(std::vector<ProofNews> news) {
  for (ProofNews& item : news) {
    if (item.infeasible) refute();
    if (item.solved_by != IntegerSolver::off) integer_solvers_.insert(item.solved_by);
    if (item.plan) offer(make_solution(instance_, within_limits(instance_, *std::move(item.plan))), Source::periods);
    if (item.rounded) {
      cover_.rounded = *std::move(item.rounded);
      ++cover_.roundings;
    }
    exact_bound_ = std::max(exact_bound_, item.exact_bound);
    if (options_.work_limit > 0) charge(item.work);
    if (item.bans_below > Duration(0)) {
      cover_.banned = std::move(item.bans);
      cover_.banned_below = item.bans_below;
    }
    if (item.bound <= lower_bound_) continue;
    raise_bound(item.bound);
    ensure(!holds_budget() || lower_bound_ <= incumbent_.extra, "search: the period bound is above a schedule");
    if (announced_) tell(Event::bound, Source::periods);
  }
}

std::string Search::integer_solvers() const {
  std::string names;
  for (const IntegerSolver solver : integer_solvers_) {
    names += names.empty() ? "" : " and ";
    names += solver == IntegerSolver::highs ? find_highs().name : "COIN-OR CBC";
  }
  return names.empty() ? "none" : names;
}

/// Three threads on two cores would leave the prover two thirds of one.
int Search::threads_of_round() const {
  const int all = thread_count(options_);
  const bool gives_one = prover_ && holds_budget() && cover_.roundings > 0 &&
                         prover_->state() == Prover::State::works && prover_share() >= kShareOfThread;
  return gives_one ? std::max(1, all - 1) : all;
}

}  // namespace remora
