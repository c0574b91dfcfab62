// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/part_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>

#include "engine/base/deadline.hpp"
#include "engine/base/tasks.hpp"
#include "engine/placement/heuristics.hpp"

namespace remora::placement {
namespace {

/// Overlaps with which items are placed one by one, and the constraint program is posted.
constexpr std::int64_t kMaxOverlaps = 4'000'000;
/// Overlaps that all orders together may look at: in a small part every order is tried.
constexpr std::int64_t kMaxLooked = 5 * kMaxOverlaps;
/// Seconds that the first placement may go on after it was told to end. 150,000 buffers of a training graph take as long.
constexpr double kGrace = 0.2;
/// Questions above the least arena that may stay without an answer in a round.
constexpr int kMaxUnknown = 1;
/// Questions for the capacity in a round, in different orders: as many as the others that may stay without an answer.
constexpr int kCapacityQuestions = 1 + kMaxUnknown;
/// Searches of each kind on orders; placements of one of them before the first question, and items that they place in the
/// time of a node.
constexpr int kOrderSearches = 2;
constexpr std::int64_t kFirstPlacements = 20;
constexpr std::int64_t kItemsOfNode = 20;

/// The orders of the constraint program, of which each solves problems that the others do not (docs/guide/place.md).
const std::vector<std::vector<Key>>& program_keys() {
  static const std::vector<std::vector<Key>> keys{{Key::life, Key::area, Key::crowded},
                                                  {Key::crowded, Key::area, Key::life},
                                                  {Key::crowded, Key::life, Key::area},
                                                  {Key::area, Key::crowded},
                                                  {Key::size, Key::life}};
  return keys;
}

/// Items move by a random part of the order's length.
std::vector<int> disturbed(const std::vector<int>& order, Random& random) {
  constexpr double kPart = 0.2;
  std::vector<std::pair<double, int>> places;
  for (std::size_t k = 0; k < order.size(); ++k) {
    places.emplace_back(static_cast<double>(k) + kPart * static_cast<double>(order.size()) * random.unit(), order[k]);
  }
  std::sort(places.begin(), places.end());
  std::vector<int> result;
  result.reserve(order.size());
  for (const auto& [place, item] : places) result.push_back(item);
  return result;
}

}  // namespace

PartSearch::PartSearch(const Part& part, const Settings& settings)
    : part_(part),
      settings_(settings),
      enough_(settings.goal),
      own_{.random = Random(settings.seed)},
      of_capacity_{.random = Random(settings.seed + 1)},
      lower_bound_(part.lower_bound) {}

void PartSearch::offer(const std::vector<Grains>& offsets) {
  const Bytes arena = part_.arena(offsets);
  if (arena >= arena_) return;
  arena_ = arena;
  offsets_ = offsets;
}

bool PartSearch::finished() const {
  if (!has_placement()) return false;
  if (settings_.capacity && (arena_ <= *settings_.capacity || lower_bound_ > *settings_.capacity)) return true;
  return arena_ <= std::max(enough_, lower_bound_);
}

void PartSearch::start(const std::function<bool()>& interrupted) {
  // A first placement is worth a moment more than there is; then all items are piled up.
  std::optional<Deadline> grace;
  const auto is_over = [&] {
    if (!grace && interrupted()) grace.emplace(kGrace, nullptr);
    return grace && grace->reached();
  };
  const auto first = valley_fit(part_, worth_by(part_, Choice::longest), is_over);
  offer(first ? *first : pile(part_));
  const std::int64_t placement = 1 + part_.count() / kItemsOfNode;
  work_ += placement;
  const bool lists_overlaps = overlap_count(part_) <= kMaxOverlaps;
  const bool has_fixed =
      std::any_of(part_.items.begin(), part_.items.end(), [](const Item& i) { return i.is_fixed(); });
  const auto may_go_on = [&] { return !finished() && !interrupted() && work_ < settings_.work_limit; };
  if (!may_go_on()) return;
  if (has_fixed && lists_overlaps) overlaps_ = overlaps_of(part_);
  for (int i = 0; i < kOrderSearches; ++i) {
    for (const Choice choice : {Choice::longest, Choice::largest}) {
      order_searches_.emplace_back(part_, choice, own_.random.next(), overlaps_);
    }
  }
  for (std::int64_t k = 0; k < kFirstPlacements && may_go_on(); ++k) search_orders(1, interrupted);
  if (finished() || !lists_overlaps) return;
  if (overlaps_.empty()) overlaps_ = overlaps_of(part_);
  FirstFit first_fit(part_, overlaps_);
  std::int64_t looked = 0;
  for (const std::vector<Key>& keys : usual_keys()) {
    const std::vector<int> order = order_by(part_, keys);
    for (const Fit fit : {Fit::lowest, Fit::smallest}) {
      if (!may_go_on() || looked > kMaxLooked) return;
      offer(first_fit.place(order, fit));
      looked += overlap_count(part_);
      work_ += placement;
    }
  }
}

void PartSearch::run_round(std::int64_t nodes, const std::function<bool()>& interrupted) {
  if (finished() || interrupted()) return;
  if (!overlaps_.empty() && settings_.capacity) ask_capacity(nodes, interrupted);
  if (!overlaps_.empty() && !finished()) ask_below(nodes, interrupted);
  if (!finished()) search_orders(1 + nodes * kItemsOfNode / part_.count(), interrupted);
}

void PartSearch::search_orders(std::int64_t placements, const std::function<bool()>& interrupted) {
  const Bytes goal = std::max(settings_.goal, lower_bound_);
  std::vector<std::vector<Grains>> best(order_searches_.size());
  run_tasks(settings_.threads, order_searches_.size(), [&](std::size_t i) {
    Bytes arena = arena_;
    for (std::int64_t k = 0; k < placements && arena > goal; ++k) {
      std::vector<Grains> offsets = order_searches_[i].next(goal, interrupted);
      if (offsets.empty()) return;
      if (part_.arena(offsets) >= arena) continue;
      arena = part_.arena(offsets);
      best[i] = std::move(offsets);
    }
  });
  for (const std::vector<Grains>& offsets : best) {
    if (!offsets.empty()) offer(offsets);
  }
  work_ += static_cast<std::int64_t>(order_searches_.size()) * placements * (1 + part_.count() / kItemsOfNode);
}

void PartSearch::ask_below(std::int64_t nodes, const std::function<bool()>& interrupted) {
  // First what would end it; then between what did not succeed and what there is, from where the last round had no answer. The
  // less room there is to leave, the more the search infers; the more, the more placements there are.
  const Bytes least = std::max(settings_.goal, lower_bound_);
  if (ask(least, nodes, own_, interrupted) == Answer::none) lower_bound_ = std::max(lower_bound_, next_arena(least));
  for (int unknown = 0; unknown < kMaxUnknown && !finished() && !interrupted();) {
    const Bytes bound = std::max(settings_.goal, lower_bound_);
    doubtful_ = std::max(doubtful_, bound);
    if (next_arena(doubtful_) >= arena_) doubtful_ = bound;
    if (next_arena(doubtful_) >= arena_) return;
    const Bytes middle = doubtful_ + Bytes((arena_ - doubtful_).count() / 2);
    const Answer answer = ask(middle, nodes, own_, interrupted);
    if (answer == Answer::none) lower_bound_ = std::max(lower_bound_, next_arena(middle));
    if (answer == Answer::unknown) ++unknown;
    doubtful_ = answer == Answer::found ? Bytes() : middle;
  }
}

void PartSearch::ask_capacity(std::int64_t nodes, const std::function<bool()>& interrupted) {
  const std::int64_t work = work_;
  for (int k = 0; k < kCapacityQuestions && !finished() && !interrupted(); ++k) {
    if (ask(*settings_.capacity, nodes, of_capacity_, interrupted) == Answer::none) {
      lower_bound_ = std::max(lower_bound_, next_arena(*settings_.capacity));
    }
  }
  capacity_work_ += work_ - work;
  work_ = work;
}

PartSearch::Answer PartSearch::ask(Bytes capacity, std::int64_t nodes, Disturbance& disturbance,
                                   const std::function<bool()>& interrupted) {
  const std::optional<StackProblem> problem = stack_problem(part_, overlaps_, capacity);
  if (!problem) return Answer::unknown;
  const std::optional<StackProblem> turned = upside_down(*problem, part_, capacity);
  std::vector<Try> tries = this->tries(disturbance);
  if (!turned) std::erase_if(tries, [](const Try& one) { return one.upside_down; });
  std::vector<StackOutcome> outcomes(tries.size());
  // The first that has an answer; those after it are not needed, whatever they would find.
  std::atomic<std::size_t> answered{tries.size()};
  const auto run = [&](std::size_t i) {
    if (answered.load() < i) return;
    StackSettings settings = tries[i].settings;
    settings.node_limit = nodes;
    settings.inferences = settings_.inferences;
    settings.interrupted = [&, i] { return answered.load(std::memory_order_relaxed) < i || interrupted(); };
    outcomes[i] = search_stack(tries[i].upside_down ? *turned : *problem, settings);
    if (!outcomes[i].complete && outcomes[i].offsets.empty()) return;
    for (std::size_t first = answered.load(); i < first && !answered.compare_exchange_weak(first, i);) {
    }
  };
  if (settings_.threads > 1) {
    run_tasks(settings_.threads, tries.size(), run);
  } else {
    for (std::size_t i = 0; i < tries.size(); ++i) run(i);
  }
  const std::size_t first = answered.load();
  for (std::size_t i = 0; i < tries.size() && i <= first; ++i) work_ += outcomes[i].nodes;
  if (first == tries.size()) return Answer::unknown;
  if (outcomes[first].complete) return Answer::none;
  std::vector<Grains> offsets(outcomes[first].offsets.begin(), outcomes[first].offsets.end());
  for (int i = 0; tries[first].upside_down && i < part_.count(); ++i) {
    offsets[at(i)] = problem->highest[at(i)] - offsets[at(i)];
  }
  offer(offsets);
  return Answer::found;
}

std::vector<PartSearch::Try> PartSearch::tries(Disturbance& disturbance) {
  std::vector<Try> tries;
  const auto add = [&](Branching branching, bool upside_down) {
    for (const std::vector<Key>& keys : program_keys()) {
      const std::vector<int> order = order_by(part_, keys);
      tries.push_back({.settings = {.order = disturbance.asked ? disturbed(order, disturbance.random) : order,
                                    .branching = branching},
                       .upside_down = upside_down});
    }
  };
  add(Branching::tightest, false);
  add(Branching::lowest, false);
  add(Branching::tightest, true);
  disturbance.asked = true;
  return tries;
}

Bytes PartSearch::next_arena(Bytes arena) const {
  Bytes next = Bytes::max();
  for (int i = 0; i < part_.count(); ++i) {
    const Item& item = part_.items[at(i)];
    const Grains below = part_.highest(i, arena);
    const Bytes end = part_.bytes(below < 0 ? 0 : below + item.alignment) + item.bytes;
    next = std::min(next, end);
  }
  return next;
}

namespace {

/// Blame is drawn up to this factor: equal steps go round in circles.
constexpr double kMaxBlame = 1.5;
/// So many placements without a smaller arena, and the order begins anew, disturbed.
constexpr int kMaxStalledRounds = 60;
constexpr double kDisturbance = 1.3;

}  // namespace

OrderSearch::OrderSearch(const Part& part, Choice choice, std::uint64_t seed,
                         const std::vector<std::vector<int>>& overlaps)
    : part_(part), random_(seed), first_(worth_by(part, choice)), worth_(first_) {
  if (!overlaps.empty()) first_fit_.emplace(part, overlaps);
}

std::optional<std::vector<Grains>> OrderSearch::placed(const std::function<bool()>& stopped) {
  if (!first_fit_) return valley_fit(part_, worth_, stopped);
  if (stopped()) return std::nullopt;
  std::vector<int> order(worth_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return worth_[at(a)] > worth_[at(b)]; });
  return first_fit_->place(order);
}

std::vector<Grains> OrderSearch::next(Bytes goal, const std::function<bool()>& stopped) {
  std::optional<std::vector<Grains>> offsets = placed(stopped);
  if (!offsets) return {};
  for (int i = 0; i < part_.count(); ++i) {
    const Bytes end = part_.bytes((*offsets)[at(i)]) + part_.items[at(i)].bytes;
    if (end > goal) worth_[at(i)].first *= 1 + (kMaxBlame - 1) * random_.unit();
  }
  const Bytes arena = part_.arena(*offsets);
  if (arena < best_) {
    best_ = arena;
    since_ = 0;
  } else if (++since_ >= kMaxStalledRounds) {
    best_ = Bytes::max();
    since_ = 0;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      worth_[i] = {first_[i].first * std::pow(kDisturbance, random_.unit()), first_[i].second};
    }
  }
  return *std::move(offsets);
}

}  // namespace remora::placement
