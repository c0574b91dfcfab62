// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/repair.hpp"

#include <algorithm>
#include <utility>

namespace remora {
namespace {

constexpr double kPruneNoise = 1;
/// A repair that finds no help at so many events in a row is given up.
constexpr int kMostHelpless = 20;

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
          if (++helpless >= kMostHelpless) return false;
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
  const auto wanted = std::min(crossing_.size(), static_cast<std::size_t>(settings.candidates));
  best_value_ = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    std::swap(crossing_[i], crossing_[i + random_.below(crossing_.size() - i)]);
    const OpId producer = state.instance().producer(crossing_[i]);
    const Stage use = state.first_use_after(crossing_[i], event).stage();
    consider({use, producer}, settings);
    const Stage between = use - event.stage();
    if (between < 2) continue;
    consider({event.stage() + 1 + static_cast<Stage>(random_.below(static_cast<std::size_t>(between) - 1)), producer},
             settings);
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

}  // namespace remora
