// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/plan_moves.hpp"

#include <algorithm>

namespace remora {

PlanMoves::PlanMoves(const Instance& instance, std::span<const Recompute> plan)
    : state_(instance, plan), lifespans_(instance.op_count() + 1) {
  index_lifespans(plan);
}

/// Of all tensors, from their first compute to their last use.
void PlanMoves::index_lifespans(std::span<const Recompute> plan) {
  lifespans_ = LifespanIndex(instance().op_count() + 1);
  reach_.assign(static_cast<std::size_t>(instance().tensor_count()), 0);
  for (TensorId t{0}; t < instance().tensor_count(); t = TensorId(t + 1)) {
    const OpId producer = instance().producer(t);
    if (!producer.valid()) continue;
    const auto users = instance().users(t);
    Stage& reach = reach_[static_cast<std::size_t>(t)];
    reach = users.empty() ? Stage{producer} : Stage{users.back()};
    if (instance().keep(t)) reach = instance().op_count();
    lifespans_.add(producer, reach, t);
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
    Stage& reach = reach_[static_cast<std::size_t>(t)];
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
      if (feeding.stage != feeding.op && !state_.useful(feeding)) chain_.push_back(feeding);
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
  state_.charge(looks);
}

}  // namespace remora
