// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/cover_facts.hpp"

#include <algorithm>

namespace remora {

RecomputePlan suggested_plan(const Instance& instance, const CoverFacts& facts) {
  RecomputePlan plan;
  for (std::size_t i = 0; i < facts.given_up.size(); ++i) {
    if (!facts.given_up[i]) continue;
    const CoverItem& item = facts.problem.items[i];
    Stage next_use{instance.op_count()};
    for (const Gap& gap : item.gaps) next_use = std::min(next_use, gap.last + 1);
    plan.push_back({next_use, item.op});
  }
  std::sort(plan.begin(), plan.end());
  plan.erase(std::unique(plan.begin(), plan.end()), plan.end());
  return plan;
}

bool can_be_banned(const Instance& instance, const CoverItem& item) {
  return instance.outputs(item.op).size() == 1;
}

std::vector<cp::StageBan> bans_outside(const Instance& instance, const CoverProblem& problem,
                                       const std::vector<bool>& allowed) {
  std::vector<cp::StageBan> bans;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const CoverItem& item = problem.items[i];
    if (allowed[i] || !can_be_banned(instance, item)) continue;
    bans.push_back({item.op, item.gaps.front().first, item.gaps.front().last + 1});
  }
  return bans;
}

std::vector<cp::StageBan> bans_below(const Instance& instance, const CoverFacts& facts, Duration below) {
  std::vector<cp::StageBan> bans;
  if (!facts.priced.penalties.empty()) {
    std::vector<bool> allowed;
    for (const Duration penalty : facts.priced.penalties) allowed.push_back(penalty < below - facts.priced.bound);
    bans = bans_outside(instance, facts.problem, allowed);
  }
  if (below > facts.banned_below) return bans;
  bans.insert(bans.end(), facts.banned.begin(), facts.banned.end());
  std::sort(bans.begin(), bans.end(), [](const cp::StageBan& a, const cp::StageBan& b) {
    return a.op != b.op ? a.op < b.op : a.first < b.first;
  });
  return bans;
}

}  // namespace remora
