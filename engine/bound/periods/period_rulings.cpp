// SPDX-License-Identifier: Apache-2.0
//
// A proof by periods: the recomputes that it rules out, since a schedule below the ceiling cannot pay for them.
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "engine/bound/periods/period_proof.hpp"

namespace remora {
namespace {

/// Of the seconds for an integer program, those for probing all ops, and all recomputes.
constexpr double kPartOfPatience = 0.4;

/// A linear program is solved once more without what was ruled out where that is more than such a part.
constexpr int kManyRuledOut = 5;

}  // namespace

bool PeriodProof::are_many(int ruled_out, int choices) {
  return ruled_out > choices / kManyRuledOut;
}

int PeriodProof::rule_out(const ProgramBound& bound, Duration ceiling) {
  int left = 0;
  periods_->for_each_recompute([&](OpId op, int period, int column) {
    if (bound.bound + bound.penalties[at(column)] < ceiling) {
      ++left;
      return;
    }
    rule_out(op, period, column);
  });
  return left;
}

void PeriodProof::rule_out(OpId op, int period, int column) {
  const Periods& periods = periods_->periods();
  program_.out[at(column)] = true;
  std::vector<bool>& out = out_[op];
  out.resize(at(stages_of(instance_)), false);
  std::fill(out.begin() + periods.first(period), out.begin() + periods.last(period) + 1, true);
}

/// Rules out what the linear program with an op recomputed proves too dear. True where without that the linear program is to be
/// solved again.
bool PeriodProof::probe_whole(const ProofLimits& limits, ProofNews& news) {
  const bool applies = limits.ceiling != Duration::max() && limits.work == Work::max() &&
                       linear_.outcome == LinearAnswer::Outcome::optimal;
  if (!applies) return false;
  const int before = choices_;
  for (const bool by_op : {true, false}) {
    choices_ -= probe_groups(by_op, limits);
    if (are_many(before - choices_, before)) break;
  }
  if (choices_ == before) return false;
  news.bans = bans();
  news.bans_below = limits.ceiling;
  return are_many(before - choices_, before);
}

/// How many recomputes it has ruled out. Groups: those of an op, or each of them.
int PeriodProof::probe_groups(bool by_op, const ProofLimits& limits) {
  struct Group {
    Duration penalty = Duration::max();
    std::vector<int> columns{};
  };
  const ProgramBound bound = program_bound(program_, linear_.prices);
  std::vector<Group> groups;
  OpId last{-1};
  std::map<int, std::pair<OpId, int>> places;
  periods_->for_each_recompute([&](OpId op, int period, int column) {
    if (program_.out[at(column)]) return;
    places[column] = {op, period};
    if (!by_op || op != last) groups.emplace_back();
    last = op;
    groups.back().columns.push_back(column);
    groups.back().penalty = std::min(groups.back().penalty, bound.penalties[at(column)]);
  });
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.penalty > b.penalty; });
  std::vector<std::vector<int>> columns;
  columns.reserve(groups.size());
  for (Group& group : groups) columns.push_back(std::move(group.columns));
  const double end = cpu_seconds_of_thread() + kPartOfPatience * limits.seconds;
  const auto is_over = [&] { return cpu_seconds_of_thread() > end || (limits.interrupted && limits.interrupted()); };
  const std::vector<int> found =
      probe(program_, linear_, columns, limits.ceiling, at(choices_ / kManyRuledOut), is_over);
  for (const int column : found) {
    const auto& [op, period] = places.at(column);
    rule_out(op, period, column);
  }
  return static_cast<int>(found.size());
}

/// What is out, as stretches of stages.
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
