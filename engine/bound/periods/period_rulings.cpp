// SPDX-License-Identifier: Apache-2.0
//
// A proof by periods: the recomputes that it rules out, since a schedule below the cutoff cannot pay for them, and lower cutoffs
// that rule out more.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/bound/periods/period_proof.hpp"

namespace remora {
namespace {

/// The part of the seconds for an integer program that is used for probing all ops, and all recomputations.
constexpr double kProbingShare = 0.4;

/// A linear program is solved once more without what was ruled out where that is more than such a part.
constexpr int kManyRuledOut = 5;

/// A target is no more than this part of the way from the linear program to the cutoff: else it would rule out little more.
constexpr std::int64_t kMaxOfWay = 3;
constexpr std::int64_t kWay = 5;
/// It is halfway between bound and cutoff or, where too many choices would be left and the gap is more than such a part of the
/// cutoff, a half, a quarter or an eighth of that. Where the gap is small the proof is to end, not the bound to rise.
constexpr std::int64_t kMaxPartsOfTarget = 16;
constexpr std::int64_t kWideGap = 20;

}  // namespace

bool PeriodProof::aim(const ProofLimits& limits) {
  const Duration cutoff = limits.cutoff;
  const bool again = has_target();
  const int few = again ? 3 * limits.few_choices : limits.few_choices;
  const int most = 2 * limits.few_choices;
  const bool applies = cutoff != Duration::max() && linear_.outcome == LinearAnswer::Outcome::optimal && choices_ > few;
  const bool is_wide = applies && cutoff.count() / kWideGap < (cutoff - bound_).count();
  if (!applies || (again && !is_wide)) return false;
  const ProgramBound relaxed = program_bound(program_, linear_.prices);
  Duration target{};
  for (std::int64_t parts = 2;; parts *= 2) {
    const bool is_last = !is_wide || parts == kMaxPartsOfTarget;
    target = bound_ + Duration((cutoff - bound_).count() / parts);
    if (target <= bound_) return false;
    const bool is_far = kWay * (target - relaxed.bound).count() > kMaxOfWay * (cutoff - relaxed.bound).count();
    if (is_far && (is_last || choices_ <= most)) return false;
    int left = 0;
    periods_->for_each_recompute([&](OpId, int, int column) {
      left += !program_.out[at(column)] && relaxed.bound + relaxed.penalties[at(column)] < target ? 1 : 0;
    });
    if (is_last || (!is_far && left <= most)) break;
  }
  if (!again) out_below_cutoff_ = out_;
  target_ = target;
  const int before = choices_;
  choices_ = rule_out(relaxed, target_);
  next_ = are_many(before - choices_, before) ? Next::relax : Next::whole;
  return true;
}

void PeriodProof::miss(ProofUpdate& update) {
  bound_ = std::max(bound_, update.bound);
  exact_bound_ = std::max(exact_bound_, update.exact_bound);
  target_ = Duration::max();
  out_ = std::exchange(out_below_cutoff_, {});
  finer_.reset();
  next_ = Next::relax;
  update.finished = false;
}

bool PeriodProof::are_many(int ruled_out, int choices) {
  return ruled_out > choices / kManyRuledOut;
}

int PeriodProof::rule_out(std::vector<bool> columns) {
  const Periods& periods = periods_->periods();
  int left = 0;
  periods_->for_each_recompute([&](OpId op, int period, int column) {
    if (!columns[at(column)]) {
      ++left;
      return;
    }
    std::vector<bool>& out = out_[op];
    out.resize(at(stages_of(instance_)), false);
    std::fill(out.begin() + periods.first(period), out.begin() + periods.last(period) + 1, true);
  });
  program_.out = std::move(columns);
  return left;
}

int PeriodProof::rule_out(const ProgramBound& bound, Duration cutoff) {
  std::vector<bool> columns = program_.out;
  periods_->for_each_recompute([&](OpId, int, int column) {
    columns[at(column)] = columns[at(column)] || bound.bound + bound.penalties[at(column)] >= cutoff;
  });
  return rule_out(std::move(columns));
}

/// Rules out what the linear program with an op recomputed proves too expensive. True where without that the linear program is to be
/// solved again.
bool PeriodProof::probe_whole(const ProofLimits& limits, ProofUpdate& update) {
  const bool applies = limits.cutoff != Duration::max() && linear_.outcome == LinearAnswer::Outcome::optimal;
  if (!applies) return false;
  const ProgramBound bound = program_bound(program_, linear_.prices);
  const int before = choices_;
  choices_ = rule_out(bound, limits.cutoff);
  for (const bool by_op : {true, false}) {
    if (are_many(before - choices_, before) || limits.is_outdated(bound_)) break;
    const double end = limits.clock() + kProbingShare * limits.seconds;
    const auto is_over = [&] { return limits.clock() > end || limits.is_over(bound_); };
    choices_ =
        rule_out(probe(program_, linear_, groups(by_op, bound), limits.cutoff, choices_ / kManyRuledOut, is_over));
  }
  if (choices_ == before) return false;
  update.bans = bans();
  update.bans_below = limits.cutoff;
  return are_many(before - choices_, before);
}

/// The columns of the recomputes that are left, those of an op together or each alone; the costliest first.
std::vector<std::vector<int>> PeriodProof::groups(bool by_op, const ProgramBound& bound) const {
  std::vector<std::vector<int>> found;
  OpId last{-1};
  periods_->for_each_recompute([&](OpId op, int, int column) {
    if (program_.out[at(column)]) return;
    if (!by_op || op != last) found.emplace_back();
    last = op;
    found.back().push_back(column);
  });
  const auto penalty = [&](const std::vector<int>& group) {
    Duration least = Duration::max();
    for (const int column : group) least = std::min(least, bound.penalties[at(column)]);
    return least;
  };
  std::stable_sort(found.begin(), found.end(), [&](auto& a, auto& b) { return penalty(a) > penalty(b); });
  return found;
}

/// The excluded recomputations, as stretches of stages.
std::vector<cp::StageBan> PeriodProof::bans() const {
  std::vector<cp::StageBan> bans;
  for (const OpId op : instance_.ops()) {
    const std::vector<bool>& out = out_[op];
    for (std::size_t k = at(op) + 1; k < out.size(); ++k) {
      if (!out[k]) continue;
      if (out[k - 1] && k > at(op) + 1) {
        ++bans.back().last;
      } else {
        bans.push_back({op, Stage(k), Stage(k)});
      }
    }
  }
  return bans;
}

}  // namespace remora
