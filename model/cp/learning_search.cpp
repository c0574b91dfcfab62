// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "model/cp/nogoods.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora::cp {
namespace {

Gecode::Int::IntView view_of(const RetentionSpace& space, int variable) {
  return {space.variables()[variable]};
}

std::unique_ptr<RetentionSpace> clone_of(RetentionSpace& space) {
  return std::unique_ptr<RetentionSpace>(static_cast<RetentionSpace*>(space.clone()));
}

}  // namespace

LearningSearch::LearningSearch(Context& context, const Branching& branching, const Gecode::Search::Options& options)
    : context_(context),
      store_(context.problem.variable_count()),
      stop_(options.stop),
      options_(options),
      root_below_(context.extra_below) {
  context_.nogoods = &store_;
  levels_.push_back({std::make_unique<RetentionSpace>(context_, branching)});
  Level& root = levels_.front();
  root.status = root.space->status();
  ++statistics_.node;
  if (root.status != Gecode::SS_FAILED) return;
  ++statistics_.fail;
  levels_.clear();
}

LearningSearch::~LearningSearch() = default;

RetentionSpace* LearningSearch::next() {
  stopped_ = false;
  while (!levels_.empty()) {
    if (context_.extra_below < root_below_) begin_again();
    if (levels_.empty()) break;
    if (stop_ != nullptr && stop_->stop(statistics_, options_)) {
      stopped_ = true;
      return nullptr;
    }
    if (levels_.back().status == Gecode::SS_BRANCH) {
      descend();
      continue;
    }
    Level& last = levels_.back();
    if (last.status == Gecode::SS_SOLVED && last.space->extra() < context_.extra_below) {
      context_.extra_below = last.space->extra();
      return last.space.release();
    }
    if (!refute_last_decision()) levels_.clear();
  }
  return nullptr;
}

/// A lower bound says something in every space, so all but the root are made anew.
void LearningSearch::begin_again() {
  root_below_ = context_.extra_below;
  levels_.resize(1);
  Level& root = levels_.front();
  // A solution without any decision was given away.
  if (!root.space) return levels_.clear();
  root.space->bound_fell();
  root.status = root.space->status();
  if (root.status == Gecode::SS_FAILED) levels_.clear();
}

void LearningSearch::descend() {
  Level& top = levels_.back();
  const std::unique_ptr<const Gecode::Choice> choice(top.space->choice());
  const Decision& decision = decision_of(*choice);
  top.decision = {decision.variable, {{decision.first, decision.last}}};
  auto child = clone_of(*top.space);
  child->commit(*choice, 0);
  const Gecode::SpaceStatus status = child->status();
  ++statistics_.node;
  levels_.push_back({std::move(child), status});
}

/// The last level has failed, or was a solution. Learns why, goes back to where that says something, and says it there.
/// False if nothing is left.
bool LearningSearch::refute_last_decision() {
  while (levels_.size() > 1) {
    ++statistics_.fail;
    const std::size_t parent = levels_.size() - 2;
    auto nogood = explain(parent);
    std::size_t back = 0;
    for (std::size_t i = 1; i < nogood.size(); ++i) {
      const std::size_t level = first_level_with(nogood[i], parent);
      if (level < back) continue;
      back = level;
      std::swap(nogood[1], nogood[i]);
    }
    levels_.resize(back + 1);
    Level& level = levels_.back();
    const Fact decision = nogood.front();
    if (nogood.size() > 1) store_.add(nogood);
    if (!decision.exclude(*level.space, view_of(*level.space, decision.variable))) level.space->fail();
    level.status = level.space->status();
    ++statistics_.node;
    if (level.status != Gecode::SS_FAILED) return true;
  }
  return false;
}

/// Why the level's decision cannot be taken there: the decision, and facts that hold there.
std::vector<Fact> LearningSearch::explain(std::size_t level) {
  RetentionSpace& root = *levels_.front().space;
  const RetentionSpace& here = *levels_[level].space;
  std::vector<std::pair<std::size_t, Fact>> holding;
  for (int variable = 0; variable < here.variables().size(); ++variable) {
    const auto view = view_of(here, variable);
    Fact fact = fact_of(variable, view);
    if (fact.holds(view_of(root, variable))) continue;
    const std::size_t since = first_level_with(fact, level);
    holding.emplace_back(since, std::move(fact));
  }
  // What has held for long is true in more places.
  std::stable_sort(holding.begin(), holding.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Fact> facts;
  facts.reserve(holding.size());
  for (auto& [since, fact] : holding) facts.push_back(std::move(fact));

  const Fact& decision = levels_[level].decision;
  std::vector<Fact> nogood{decision};
  const auto start = propagated(root, nogood);
  if (!start) return nogood;
  auto needed = necessary(*start, facts);
  nogood.insert(nogood.end(), std::make_move_iterator(needed.begin()), std::make_move_iterator(needed.end()));
  bool seen_to_fail = false;
  for (std::size_t i = 1; i < nogood.size(); ++i) seen_to_fail = weaken(nogood, i, level) || seen_to_fail;
  if (seen_to_fail || !propagated(root, nogood)) return nogood;
  // Propagation in another order stopped short of the failure. All that held then is an explanation, if a long one.
  nogood.resize(1);
  nogood.insert(nogood.end(), std::make_move_iterator(facts.begin()), std::make_move_iterator(facts.end()));
  return nogood;
}

/// QuickXplain (Junker 2004): of the facts, which together fail in the space, some that fail and none of which can be
/// left out. Earlier ones are preferred.
std::vector<Fact> LearningSearch::necessary(RetentionSpace& space, std::vector<Fact> facts) {
  std::erase_if(facts, [&](const Fact& fact) { return fact.holds(view_of(space, fact.variable)); });
  if (facts.size() <= 1) return facts;
  const auto middle = facts.begin() + static_cast<std::ptrdiff_t>(facts.size() / 2);
  std::vector<Fact> late(std::make_move_iterator(middle), std::make_move_iterator(facts.end()));
  facts.erase(middle, facts.end());
  std::vector<Fact> result;
  if (const auto with_early = propagated(space, facts)) result = necessary(*with_early, std::move(late));
  if (result.empty()) return necessary(space, std::move(facts));
  if (const auto with_late = propagated(space, result)) {
    for (Fact& fact : necessary(*with_late, std::move(facts))) result.push_back(std::move(fact));
  }
  return result;
}

/// Takes the domain that the fact's variable had at the earliest level at which it suffices. False if none earlier does.
bool LearningSearch::weaken(std::vector<Fact>& nogood, std::size_t fact, std::size_t level) {
  RetentionSpace& root = *levels_.front().space;
  const int variable = nogood[fact].variable;
  std::size_t first = 1;
  std::size_t last = first_level_with(nogood[fact], level);
  bool weaker = false;
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    Fact earlier = fact_of(variable, view_of(*levels_[middle].space, variable));
    std::swap(nogood[fact], earlier);
    if (nogood[fact].holds(view_of(root, variable)) || propagated(root, nogood)) {
      std::swap(nogood[fact], earlier);
      first = middle + 1;
    } else {
      weaker = true;
      last = first_level_with(nogood[fact], middle);
    }
  }
  return weaker;
}

/// A copy of the space in which the facts hold, propagated; null if it fails.
std::unique_ptr<RetentionSpace> LearningSearch::propagated(RetentionSpace& from, const std::vector<Fact>& facts) {
  auto space = clone_of(from);
  ++statistics_.node;
  for (const Fact& fact : facts) {
    if (!fact.impose(*space, view_of(*space, fact.variable))) return nullptr;
  }
  return space->status() == Gecode::SS_FAILED ? nullptr : std::move(space);
}

/// Of the levels up to `last`, at which it holds, the first.
std::size_t LearningSearch::first_level_with(const Fact& fact, std::size_t last) const {
  std::size_t first = 0;
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (fact.holds(view_of(*levels_[middle].space, fact.variable))) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

}  // namespace remora::cp
