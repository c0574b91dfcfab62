// SPDX-License-Identifier: Apache-2.0
#include "model/cp/nogoods.hpp"

#include <algorithm>
#include <memory>
#include <utility>

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

}  // namespace remora::cp
