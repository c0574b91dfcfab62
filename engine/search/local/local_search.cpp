// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/local_search.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "model/table.hpp"

namespace remora {

PlanMoves::PlanMoves(const Instance& instance, std::span<const Recompute> plan)
    : state_(instance, plan), lifespans_(instance.op_count() + 1) {
  index_lifespans(plan);
}

/// Indexes the lifespans of all tensors, from their first run to their last use.
void PlanMoves::index_lifespans(std::span<const Recompute> plan) {
  lifespans_ = LifespanIndex(instance().op_count() + 1);
  reach_.assign(instance().tensor_count(), Stage{});
  for (TensorId t{0}; t < instance().tensor_count(); t = TensorId(t + 1)) {
    const OpId producer = instance().producer(t);
    if (!producer.valid()) continue;
    const auto users = instance().users(t);
    Stage& reach = reach_[t];
    reach = users.empty() ? Stage{producer} : Stage{users.back()};
    if (instance().keep(t)) reach = Stage{instance().op_count()};
    lifespans_.add(Stage{producer}, reach, t);
  }
  for (const Recompute& recompute : plan) extend_lifespans(recompute);
}

void PlanMoves::assign(std::span<const Recompute> plan) {
  state_.assign(plan);
  // Lifespans only grow with additions, taken back or not.
  index_lifespans(plan);
  keep();
}

void PlanMoves::extend_lifespans(Recompute recompute) {
  for (const TensorId t : instance().inputs(recompute.op)) {
    Stage& reach = reach_[t];
    if (recompute.stage <= reach) continue;
    lifespans_.add(reach + 1, recompute.stage, t);
    reach = recompute.stage;
  }
}

void PlanMoves::add(Recompute recompute) {
  state_.add(recompute);
  extend_lifespans(recompute);
  changes_.push_back({recompute, true});
}

void PlanMoves::remove(Recompute recompute) {
  state_.remove(recompute);
  changes_.push_back({recompute, false});
}

void PlanMoves::add_chain(Recompute recompute, const ChainSettings& settings, Random& random) {
  chain_.assign(1, recompute);
  for (std::size_t next = 0; next < chain_.size(); ++next) {
    const EventKey moment(chain_[next]);
    gone_.clear();
    for (const TensorId t : instance().inputs(moment.op())) {
      const EventKey until = state_.retained_until(t, moment);
      if (until < moment) gone_.push_back({t, until});
    }
    add(chain_[next]);
    for (const Gone& gone : gone_) {
      if (static_cast<int>(chain_.size()) >= settings.most) break;
      const Recompute feeding{recompute.stage, instance().producer(gone.tensor)};
      if (!state_.can_add(feeding) || std::find(chain_.begin(), chain_.end(), feeding) != chain_.end()) continue;
      if (random.unit() >= settings.recomputed || !state_.above_between(gone.until, moment)) continue;
      chain_.push_back(feeding);
    }
  }
}

void PlanMoves::remove_chain(Recompute recompute) {
  chain_.assign(1, recompute);
  for (std::size_t next = 0; next < chain_.size(); ++next) {
    // Two may have been served by one.
    if (!state_.contains(chain_[next])) continue;
    const EventKey moment(chain_[next]);
    remove(chain_[next]);
    for (const TensorId t : instance().inputs(moment.op())) {
      const EventKey served_by = state_.compute_before(instance().producer(t), moment);
      const Recompute feeding{served_by.stage(), served_by.op()};
      if (feeding.stage != Stage{feeding.op} && !state_.useful(feeding)) chain_.push_back(feeding);
    }
  }
}

void PlanMoves::changed_since(std::size_t mark, std::vector<Recompute>& changed) const {
  changed.clear();
  for (std::size_t i = mark; i < changes_.size(); ++i) changed.push_back(changes_[i].recompute);
}

void PlanMoves::undo_to(std::size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) {
    if (changes_.back().added) {
      state_.remove(changes_.back().recompute);
    } else {
      state_.add(changes_.back().recompute);
    }
  }
}

void PlanMoves::find_crossing(EventKey event, std::vector<TensorId>& tensors) const {
  tensors.clear();
  std::int64_t looks = 0;
  lifespans_.visit(event.stage(), [&](TensorId t) {
    ++looks;
    if (state_.crosses(t, event)) tensors.push_back(t);
  });
  state_.count_effort(looks);
}

namespace {

constexpr double kPruneNoise = 1;
/// A repair that finds no help at so many events in a row is given up.
constexpr int kMaxHelpless = 20;

}  // namespace

bool Repair::run(const RepairSettings& settings) {
  const PlanEvaluator& state = moves_.state();
  int helpless = 0;
  while (state.overflow() > Bytes(0)) {
    std::vector<EventKey> events = state.overflowing();
    random_.shuffle(events);
    for (const EventKey event : events) {
      while (state.memory(event) > state.instance().budget()) {
        if (given_up(settings)) return false;
        if (!relieve(event, settings)) {
          if (++helpless >= kMaxHelpless) return false;
          break;
        }
        helpless = 0;
      }
    }
  }
  return state.extra() < settings.below;
}

bool Repair::given_up(const RepairSettings& settings) const {
  const PlanEvaluator& state = moves_.state();
  return state.extra() >= settings.below || state.effort() >= settings.effort_limit || settings.interrupted();
}

/// Adds the best of the candidates at one event. False if none lowers the overflow.
bool Repair::relieve(EventKey event, const RepairSettings& settings) {
  const PlanEvaluator& state = moves_.state();
  moves_.find_crossing(event, crossing_);
  const auto wanted = std::min(crossing_.size(), at(settings.candidates));
  best_value_ = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    std::swap(crossing_[i], crossing_[i + random_.below(crossing_.size() - i)]);
    const OpId producer = state.instance().producer(crossing_[i]);
    const Stage use = state.first_use_after(crossing_[i], event).stage();
    consider({use, producer}, settings);
    const std::int32_t between = use - event.stage();
    if (between < 2) continue;
    consider({event.stage() + 1 + static_cast<std::int32_t>(random_.below(at(between) - 1)), producer}, settings);
  }
  if (best_value_ <= 0) return false;
  for (const Recompute& recompute : best_) moves_.add(recompute);
  return true;
}

double Repair::value(const PlanChange& change, double noise) {
  const double relief = -static_cast<double>(change.overflow.count());
  return relief / (1 + static_cast<double>(change.extra.count())) * (1 + noise * random_.unit());
}

/// Remembers the recompute, alone or with a chain, if it is the best so far.
void Repair::consider(Recompute recompute, const RepairSettings& settings) {
  const PlanEvaluator& state = moves_.state();
  if (!state.can_add(recompute)) return;
  const double alone = value(state.probe(recompute), settings.noise);
  if (alone > best_value_) {
    best_value_ = alone;
    best_.assign(1, recompute);
  }
  if (random_.unit() >= settings.chains) return;
  const std::size_t mark = moves_.mark();
  const Bytes overflow = state.overflow();
  const Duration extra = state.extra();
  moves_.add_chain(recompute, {.recomputed = random_.unit()}, random_);
  const double chained = value({state.extra() - extra, state.overflow() - overflow}, settings.noise);
  if (chained > best_value_) {
    best_value_ = chained;
    moves_.changed_since(mark, best_);
  }
  moves_.undo_to(mark);
}

void Repair::prune(const std::function<bool()>& interrupted) {
  const PlanEvaluator& state = moves_.state();
  std::vector<std::pair<double, Recompute>> order;
  for (const Recompute& recompute : state.plan()) {
    const auto cost = static_cast<double>(moves_.instance().duration(recompute.op).count());
    order.emplace_back(-cost * (1 + kPruneNoise * random_.unit()), recompute);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [cost, recompute] : order) {
    if (interrupted()) return;
    if (!state.needed(recompute)) moves_.remove(recompute);
  }
}

ExchangeRate exchange_rate(const Instance& instance) {
  double area = 1;
  for (TensorId t{0}; t < instance.tensor_count(); t = TensorId(t + 1)) {
    const auto users = instance.users(t);
    if (!instance.producer(t).valid() || users.empty()) continue;
    area += static_cast<double>(instance.size(t).count()) * (users.back() - instance.producer(t));
  }
  const auto time = static_cast<double>(std::max<std::int64_t>(1, instance.baseline_duration().count()));
  return {area / std::max(1, instance.op_count()), area / time};
}

Cooling annealing_cooling(const Instance& instance, const ExchangeRate& rate) {
  // Temperatures are in areas of an op; the first effort is an op's.
  Cooling::Settings settings{.first_temperature = 0.02, .last_part = 1e-3, .first_effort = 30'000, .growth = 1.3};
  settings.first_temperature *= rate.area_of_op;
  settings.first_effort *= std::max(1, instance.op_count());
  return Cooling(settings);
}

double annealing_price(const ExchangeRate& rate, std::size_t cooling) {
  constexpr std::array kPrices{0.01, 0.003, 0.03, 0.1};
  return kPrices[cooling % kPrices.size()] * rate.area_of_time;
}

void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result) {
  Solution solution = make_solution(input.instance, state.plan());
  if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
}

void offer_cheaper(const PlanEvaluator& state, Duration& best, RoundResult& result) {
  if (state.overflow() > Bytes(0) || state.extra() >= best) return;
  result.solution = make_solution(state.instance(), state.plan());
  best = result.solution->extra;
}

}  // namespace remora
