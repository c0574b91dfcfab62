// SPDX-License-Identifier: Apache-2.0
#include "model/cp/nogoods.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/cp/solve_retention.hpp"

namespace remora::cp {
namespace {

/// The ranges of a fact as Gecode's iterators.
class FactRanges {
 public:
  explicit FactRanges(const Fact& fact) : at_(fact.within.begin()), end_(fact.within.end()) {}

  bool operator()() const { return at_ != end_; }
  void operator++() { ++at_; }
  [[nodiscard]] int min() const { return at_->first; }
  [[nodiscard]] int max() const { return at_->last; }
  [[nodiscard]] unsigned int width() const { return static_cast<unsigned int>(at_->last - at_->first) + 1; }

 private:
  std::vector<Fact::Range>::const_iterator at_;
  std::vector<Fact::Range>::const_iterator end_;
};

}  // namespace

bool Fact::holds(const Gecode::Int::IntView& view) const {
  if (view.min() < within.front().first || view.max() > within.back().last) return false;
  auto range = within.begin();
  for (Gecode::Int::ViewRanges<Gecode::Int::IntView> values(view); values(); ++values) {
    while (range->last < values.min()) ++range;
    if (range->first > values.min() || range->last < values.max()) return false;
  }
  return true;
}

bool Fact::refuted(const Gecode::Int::IntView& view) const {
  if (view.max() < within.front().first || view.min() > within.back().last) return true;
  auto range = within.begin();
  for (Gecode::Int::ViewRanges<Gecode::Int::IntView> values(view); values(); ++values) {
    while (range != within.end() && range->last < values.min()) ++range;
    if (range == within.end()) return true;
    if (range->first <= values.max()) return false;
  }
  return true;
}

bool Fact::impose(Gecode::Space& home, Gecode::Int::IntView view) const {
  FactRanges ranges(*this);
  return !Gecode::me_failed(view.inter_r(home, ranges, false));
}

bool Fact::exclude(Gecode::Space& home, Gecode::Int::IntView view) const {
  FactRanges ranges(*this);
  return !Gecode::me_failed(view.minus_r(home, ranges, false));
}

Fact fact_of(int variable, const Gecode::Int::IntView& view) {
  Fact fact{variable, {}};
  for (Gecode::Int::ViewRanges<Gecode::Int::IntView> values(view); values(); ++values) {
    fact.within.push_back({values.min(), values.max()});
  }
  return fact;
}

std::size_t NogoodStore::number_of(const Fact& fact) {
  auto& known = known_[at(fact.variable)];
  const auto same = std::find_if(known.begin(), known.end(),
                                 [&](std::size_t number) { return watched_[number].fact.within == fact.within; });
  if (same != known.end()) return *same;
  watched_.push_back({fact, {}});
  known.push_back(watched_.size() - 1);
  return known.back();
}

void NogoodStore::add(const std::vector<Fact>& facts) {
  if (nogoods_.size() >= capacity_) forget_half();
  Nogood nogood{{}, ++learned_};
  for (const Fact& fact : facts) nogood.facts.push_back(number_of(fact));
  insert(std::move(nogood));
}

void NogoodStore::insert(Nogood nogood) {
  for (const int side : {0, 1}) watched_[nogood.facts[at(side)]].nogoods.push_back(nogoods_.size());
  nogoods_.push_back(std::move(nogood));
}

/// Those that have been silent longest go; what is short stays.
void NogoodStore::forget_half() {
  constexpr std::size_t kShort = 2;
  std::vector<std::int64_t> used;
  for (const Nogood& nogood : nogoods_) used.push_back(nogood.used);
  const auto middle = used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end());
  const auto all = std::exchange(nogoods_, {});
  const auto facts = std::exchange(watched_, {});
  for (auto& known : known_) known.clear();
  for (const Nogood& nogood : all) {
    if (nogood.used < *middle && nogood.facts.size() > kShort) continue;
    Nogood kept{{}, nogood.used};
    for (const std::size_t fact : nogood.facts) kept.facts.push_back(number_of(facts[fact].fact));
    insert(std::move(kept));
  }
  capacity_ = std::max(capacity_ + capacity_ / 10, 2 * nogoods_.size());
}

bool NogoodStore::propagate(Gecode::Space& home, Views& views, int variable) {
  const auto& known = known_[at(variable)];
  return std::all_of(known.begin(), known.end(), [&](std::size_t number) {
    const Watched& watched = watched_[number];
    return watched.nogoods.empty() || !watched.fact.holds(views[variable]) || came_true(home, views, number);
  });
}

/// A watched fact holds: each of its nogoods finds another one to watch, or says something.
bool NogoodStore::came_true(Gecode::Space& home, Views& views, std::size_t fact) {
  const auto holds = [&](std::size_t number) {
    const Fact& other = watched_[number].fact;
    return other.holds(views[other.variable]);
  };
  auto& watching = watched_[fact].nogoods;
  std::size_t kept = 0;
  bool consistent = true;
  for (std::size_t i = 0; i < watching.size(); ++i) {
    const std::size_t number = watching[i];
    watching[kept++] = number;
    if (!consistent) continue;
    auto& facts = nogoods_[number].facts;
    const std::size_t side = facts[0] == fact ? 0 : 1;
    const Fact& other = watched_[facts[1 - side]].fact;
    if (other.refuted(views[other.variable])) continue;
    const auto open = std::find_if_not(facts.begin() + 2, facts.end(), holds);
    if (open != facts.end()) {
      std::swap(facts[side], *open);
      watched_[facts[side]].nogoods.push_back(number);
      --kept;
      continue;
    }
    nogoods_[number].used = learned_;
    consistent = !other.holds(views[other.variable]) && other.exclude(home, views[other.variable]);
  }
  watching.resize(kept);
  return consistent;
}

LearnedNogoods::LearnedNogoods(Gecode::Home home, Views& views, Context& context)
    : StartPropagator(home, views, context),
      seen_(static_cast<Gecode::Space&>(home).alloc<unsigned int>(views.size())) {
  for (int i = 0; i < views.size(); ++i) seen_[i] = views[i].size();
}

LearnedNogoods::LearnedNogoods(Gecode::Space& home, LearnedNogoods& other)
    : StartPropagator(home, other), seen_(home.alloc<unsigned int>(other.x.size())) {
  std::copy_n(other.seen_, other.x.size(), seen_);
}

Gecode::PropCost LearnedNogoods::cost(const Gecode::Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::LO, x.size());
}

Gecode::ExecStatus LearnedNogoods::propagate(Gecode::Space& home, const Gecode::ModEventDelta&) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int variable = 0; variable < x.size(); ++variable) {
      if (x[variable].size() == seen_[variable]) continue;
      seen_[variable] = x[variable].size();
      changed = true;
      if (!context().nogoods->propagate(home, x, variable)) return Gecode::ES_FAILED;
    }
  }
  return Gecode::ES_FIX;
}

namespace {

Gecode::Int::IntView view_of(const RetentionSpace& space, int variable) {
  return {space.variables()[variable]};
}

std::unique_ptr<RetentionSpace> clone_of(RetentionSpace& space) {
  return std::unique_ptr<RetentionSpace>(static_cast<RetentionSpace*>(space.clone()));
}

}  // namespace

LearningSearch::LearningSearch(Context& context, const Branching& branching, const Gecode::Search::Options& options)
    : context_(context), store_(context.problem.variable_count()), options_(options), root_below_(context.extra_below) {
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

Gecode::Space* LearningSearch::next() {
  stopped_ = false;
  while (!levels_.empty()) {
    if (context_.extra_below < root_below_) begin_again();
    if (levels_.empty()) break;
    if (options_.stop != nullptr && options_.stop->stop(statistics_, options_)) {
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
      if (nogood[i].since < back) continue;
      back = nogood[i].since;
      std::swap(nogood[1], nogood[i]);
    }
    levels_.resize(back + 1);
    Level& level = levels_.back();
    const Fact decision = nogood.front();
    if (nogood.size() > 1) store_.add({nogood.begin(), nogood.end()});
    if (!decision.exclude(*level.space, view_of(*level.space, decision.variable))) level.space->fail();
    level.status = level.space->status();
    ++statistics_.node;
    if (level.status != Gecode::SS_FAILED) return true;
  }
  return false;
}

/// Why the level's decision cannot be taken there: the decision, and facts that hold there.
std::vector<LearningSearch::DatedFact> LearningSearch::explain(std::size_t level) {
  RetentionSpace& root = *levels_.front().space;
  const RetentionSpace& here = *levels_[level].space;
  std::vector<DatedFact> facts;
  for (int variable = 0; variable < here.variables().size(); ++variable) {
    DatedFact fact{fact_of(variable, view_of(here, variable))};
    if (fact.holds(view_of(root, variable))) continue;
    fact.since = first_level_with(fact, level);
    facts.push_back(std::move(fact));
  }
  // Facts that have held for long hold in more places.
  std::stable_sort(facts.begin(), facts.end(), [](const auto& a, const auto& b) { return a.since < b.since; });

  std::vector<DatedFact> nogood{{levels_[level].decision}};
  const auto start = propagated(root, nogood);
  if (!start) return nogood;
  auto needed = necessary(*start, facts);
  nogood.insert(nogood.end(), std::make_move_iterator(needed.begin()), std::make_move_iterator(needed.end()));
  bool seen_to_fail = false;
  for (std::size_t i = 1; i < nogood.size(); ++i) seen_to_fail = weaken(nogood, i) || seen_to_fail;
  if (seen_to_fail || !propagated(root, nogood)) return nogood;
  // Propagation in another order stopped short of the failure. All that held then is an explanation, if a long one.
  nogood.resize(1);
  nogood.insert(nogood.end(), std::make_move_iterator(facts.begin()), std::make_move_iterator(facts.end()));
  return nogood;
}

/// QuickXplain (Junker 2004): of the facts, which together fail in the space, some that fail and none of which can be
/// left out. Earlier ones are preferred.
std::vector<LearningSearch::DatedFact> LearningSearch::necessary(RetentionSpace& space, std::vector<DatedFact> facts) {
  std::erase_if(facts, [&](const Fact& fact) { return fact.holds(view_of(space, fact.variable)); });
  if (facts.size() <= 1) return facts;
  const auto middle = facts.begin() + static_cast<std::ptrdiff_t>(facts.size() / 2);
  std::vector<DatedFact> late(std::make_move_iterator(middle), std::make_move_iterator(facts.end()));
  facts.erase(middle, facts.end());
  std::vector<DatedFact> result;
  if (const auto with_early = propagated(space, facts)) result = necessary(*with_early, std::move(late));
  if (result.empty()) return necessary(space, std::move(facts));
  if (const auto with_late = propagated(space, result)) {
    for (DatedFact& fact : necessary(*with_late, std::move(facts))) result.push_back(std::move(fact));
  }
  return result;
}

/// Takes the domain that the fact's variable had at the earliest level at which it suffices. False if none earlier does.
bool LearningSearch::weaken(std::vector<DatedFact>& nogood, std::size_t fact) {
  RetentionSpace& root = *levels_.front().space;
  const int variable = nogood[fact].variable;
  std::size_t first = 1;
  bool weaker = false;
  while (first < nogood[fact].since) {
    const std::size_t middle = first + (nogood[fact].since - first) / 2;
    DatedFact earlier{fact_of(variable, view_of(*levels_[middle].space, variable))};
    std::swap(nogood[fact], earlier);
    if (nogood[fact].holds(view_of(root, variable)) || propagated(root, nogood)) {
      std::swap(nogood[fact], earlier);
      first = middle + 1;
    } else {
      weaker = true;
      nogood[fact].since = first_level_with(nogood[fact], middle);
    }
  }
  return weaker;
}

/// A copy of the space in which the facts hold, propagated; null if it fails.
std::unique_ptr<RetentionSpace> LearningSearch::propagated(RetentionSpace& from, const std::vector<DatedFact>& facts) {
  auto space = clone_of(from);
  ++statistics_.node;
  for (const Fact& fact : facts) {
    if (!fact.impose(*space, view_of(*space, fact.variable))) return nullptr;
  }
  return space->status() == Gecode::SS_FAILED ? nullptr : std::move(space);
}

/// The first of the levels up to `last` at which the fact holds.
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
