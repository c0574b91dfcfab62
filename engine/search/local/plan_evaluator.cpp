// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/plan_evaluator.hpp"

#include <algorithm>
#include <limits>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {

PlanEvaluator::PlanEvaluator(const Instance& instance, std::span<const Recompute> plan)
    : instance_(instance),
      in_place_(instance.has_in_place()),
      unit_bits_(needed_unit_bits()),
      first_memory_(index(instance.op_count()) + 1),
      again_(index(instance.op_count()) + 1),
      crowded_(instance.op_count() + 1),
      computes_(index(instance.op_count())),
      reuses_(index(instance.tensor_count())),
      own_(index(instance.op_count())) {
  Bytes& kept = first_memory_.back();
  kept = instance.base_memory();
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
    own_[index(op)] = instance.workspace(op, 0);
    for (const TensorId t : instance.outputs(op)) {
      own_[index(op)] += instance.size(t);
      if (instance.keep(t)) kept += instance.size(t);
    }
  }
  assign(plan);
}

/// So that all bytes at all events that there can be stay within 64 bits.
int PlanEvaluator::needed_unit_bits() const {
  Bytes most = instance_.base_memory();
  Bytes workspace;
  Wide events = 1;
  for (OpId op{0}; op < instance_.op_count(); op = OpId(op + 1)) {
    workspace = std::max(workspace, instance_.workspace(op, 0));
    for (const TensorId t : instance_.outputs(op)) most += instance_.size(t);
    events += std::min(instance_.max_computes(op), instance_.op_count() + 1);
  }
  int bits = 0;
  while (((Wide{most.count()} + workspace.count()) >> bits) + 1 > std::numeric_limits<std::int64_t>::max() / events) {
    ++bits;
  }
  return bits;
}

void PlanEvaluator::assign(std::span<const Recompute> plan) {
  for (auto& stage : again_) stage.clear();
  for (auto& stages : computes_) stages.clear();
  for (auto& reuses : reuses_) reuses.clear();
  crowded_.clear();
  const std::vector<Bytes> memory = evaluate(instance_, sequence_of(instance_, plan)).memory;
  std::size_t step = 0;
  auto next = plan.begin();
  overflow_ = Bytes(0);
  for (Stage stage{0}; stage <= instance_.op_count(); ++stage) {
    for (; next != plan.end() && next->stage == stage; ++next) {
      crowded_.set(stage);
      again_[index(stage)].push_back({next->op, memory[step]});
      computes_[index(next->op)].push_back(stage);
      for (const TensorId t : instance_.inputs(next->op)) reuses_[index(t)].emplace_back(*next);
      overflow_ += above(memory[step++]);
    }
    if (stage == instance_.op_count()) break;
    first_memory_[index(stage)] = memory[step];
    overflow_ += above(memory[step++]);
  }
  extra_ = extra_duration(instance_, plan);
  count_effort(static_cast<std::int64_t>(memory.size()));
}

RecomputePlan PlanEvaluator::plan() const {
  RecomputePlan plan;
  const Stage stages{instance_.op_count() + 1};
  for (Stage stage = crowded_.next(Stage{0}); stage < stages;
       stage = stage + 1 < stages ? crowded_.next(stage + 1) : stages) {
    for (const Event& event : again_[index(stage)]) plan.push_back({stage, event.op});
  }
  count_effort(static_cast<std::int64_t>(plan.size()) + stages / 64);
  return plan;
}

bool PlanEvaluator::contains(Recompute recompute) const {
  const auto& stages = computes_[index(recompute.op)];
  return std::find(stages.begin(), stages.end(), recompute.stage) != stages.end();
}

bool PlanEvaluator::can_add(Recompute recompute) const {
  return recompute.stage > Stage{recompute.op} && recompute.stage <= instance_.op_count() &&
         static_cast<int>(computes_[index(recompute.op)].size()) + 1 < instance_.max_computes(recompute.op) &&
         !contains(recompute);
}

EventKey PlanEvaluator::compute_before(OpId op, EventKey moment) const {
  EventKey latest = EventKey::first_compute(op);
  for (const Stage stage : computes_[index(op)]) {
    const EventKey compute{stage, op};
    if (compute >= moment) break;
    latest = compute;
  }
  return latest;
}

EventKey PlanEvaluator::compute_after(OpId op, EventKey moment) const {
  for (const Stage stage : computes_[index(op)]) {
    const EventKey compute{stage, op};
    if (compute > moment) return compute;
  }
  return end();
}

EventKey PlanEvaluator::last_use_between(TensorId tensor, EventKey after, EventKey before) const {
  EventKey last = after;
  const auto users = instance_.users(tensor);
  const auto user =
      std::partition_point(users.begin(), users.end(), [&](OpId op) { return EventKey::first_compute(op) < before; });
  if (user != users.begin()) last = std::max(last, EventKey::first_compute(*std::prev(user)));
  const auto& reuses = reuses_[index(tensor)];
  const auto reuse = std::lower_bound(reuses.begin(), reuses.end(), before);
  if (reuse != reuses.begin()) last = std::max(last, *std::prev(reuse));
  return last;
}

EventKey PlanEvaluator::first_use_after(TensorId tensor, EventKey moment) const {
  EventKey first = end();
  const auto users = instance_.users(tensor);
  const auto user =
      std::partition_point(users.begin(), users.end(), [&](OpId op) { return EventKey::first_compute(op) <= moment; });
  if (user != users.end()) first = EventKey::first_compute(*user);
  const auto& reuses = reuses_[index(tensor)];
  const auto reuse = std::upper_bound(reuses.begin(), reuses.end(), moment);
  return reuse != reuses.end() ? std::min(first, *reuse) : first;
}

EventKey PlanEvaluator::retained_until(TensorId tensor, EventKey moment) const {
  const OpId producer = instance_.producer(tensor);
  const EventKey next = compute_after(producer, moment);
  if (next == end() && instance_.keep(tensor)) return end();
  const EventKey use = first_use_after(tensor, moment);
  if (use < next) return last_use_between(tensor, use, next);
  return last_use_between(tensor, compute_before(producer, moment), moment);
}

bool PlanEvaluator::crosses(TensorId tensor, EventKey event) const {
  const OpId producer = instance_.producer(tensor);
  if (EventKey::first_compute(producer) >= event || producer == event.op()) return false;
  const auto inputs = instance_.inputs(event.op());
  return std::find(inputs.begin(), inputs.end(), tensor) == inputs.end() && retained_until(tensor, event) > event;
}

bool PlanEvaluator::serves(TensorId tensor, EventKey moment, EventKey next) const {
  return (next == end() && instance_.keep(tensor)) || first_use_after(tensor, moment) < next;
}

bool PlanEvaluator::useful(Recompute recompute) const {
  const EventKey moment(recompute);
  const EventKey next = compute_after(recompute.op, moment);
  const auto outputs = instance_.outputs(recompute.op);
  return std::any_of(outputs.begin(), outputs.end(), [&](TensorId t) { return serves(t, moment, next); });
}

EventKey PlanEvaluator::event_after(EventKey event) const {
  const auto first_again = [&](Stage stage, OpId after) {
    const auto& events = again_[index(stage)];
    const auto next = std::find_if(events.begin(), events.end(), [&](const Event& again) { return again.op > after; });
    return next != events.end() ? EventKey(stage, next->op) : EventKey(stage, stage);
  };
  const Stage stage = event.stage();
  return Stage{event.op()} < stage ? first_again(stage, event.op()) : first_again(stage + 1, OpId::none());
}

/// Bytes retained from before the event up to it or beyond.
Bytes PlanEvaluator::retained_into(EventKey event) const {
  if (event == end()) return first_memory_.back();
  const Bytes retained = memory(event) - own_[index(event.op())];
  return in_place_ ? retained + saved_at(event) : retained;
}

Bytes PlanEvaluator::taken_over(OpId op, TensorId input) const {
  for (const InnerPeak& peak : instance_.inner(op, 0)) {
    for (const FreedInput& freed : peak.freed) {
      if (freed.tensor == input) return std::min(freed.most, instance_.size(input));
    }
  }
  return Bytes(0);
}

Bytes PlanEvaluator::saved_at(EventKey event) const {
  Bytes saved;
  for (const InnerPeak& peak : instance_.inner(event.op(), 0)) {
    for (const FreedInput& freed : peak.freed) {
      if (retained_until(freed.tensor, event) <= event) saved += taken_over(event.op(), freed.tensor);
    }
  }
  return saved;
}

void PlanEvaluator::add_at(EventKey event, Bytes amount, Effect& effect) {
  if (amount == Bytes(0)) return;
  effect.stretches.push_back({event.just_before(), amount});
  effect.stretches.push_back({event, Bytes(0) - amount});
}

Bytes PlanEvaluator::memory(EventKey event) const {
  if (Stage{event.op()} == event.stage()) return first_memory_[index(event.stage())];
  for (const Event& again : again_[index(event.stage())]) {
    if (again.op == event.op()) return again.memory;
  }
  ensure(false, "PlanEvaluator: no such event");
  return {};
}

void PlanEvaluator::find_effect(Recompute recompute, Effect& effect) const {
  const EventKey moment(recompute);
  effect.stretches.clear();
  effect.memory = retained_into(event_after(moment)) + own_[index(recompute.op)];
  const EventKey before = compute_before(recompute.op, moment);
  const EventKey next = compute_after(recompute.op, moment);
  for (const TensorId t : instance_.outputs(recompute.op)) {
    if (!serves(t, moment, next)) continue;
    effect.memory -= instance_.size(t);
    const EventKey last = last_use_between(t, before, moment);
    effect.stretches.push_back({last, Bytes(0) - instance_.size(t)});
    if (in_place_ && last > before) add_at(last, Bytes(0) - taken_over(last.op(), t), effect);
  }
  for (const TensorId t : instance_.inputs(recompute.op)) {
    const EventKey until = retained_until(t, moment);
    if (until > moment) continue;
    effect.memory += instance_.size(t);
    effect.stretches.push_back({until, instance_.size(t)});
    if (!in_place_) continue;
    effect.memory -= taken_over(recompute.op, t);
    if (until.op() != instance_.producer(t)) add_at(until, taken_over(until.op(), t), effect);
  }
  std::sort(effect.stretches.begin(), effect.stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.after < b.after; });
  effort_ += 4 + static_cast<std::int64_t>(instance_.inputs(recompute.op).size());
}

template <class Self, class Visit>
bool PlanEvaluator::visit_stretches(Self& self, EventKey moment, const Effect& effect, Visit visit) {
  Bytes amount;
  for (std::size_t i = 0; i < effect.stretches.size(); ++i) {
    amount += effect.stretches[i].amount;
    const bool last = i + 1 == effect.stretches.size();
    const EventKey until = last ? moment : effect.stretches[i + 1].after.just_after();
    if (amount == Bytes(0) || effect.stretches[i].after.just_after() == until) continue;
    const auto visit_with_amount = [&](auto& memory) { return visit(memory, amount); };
    if (!visit_between(self, effect.stretches[i].after, until, visit_with_amount)) return false;
  }
  return true;
}

PlanChange PlanEvaluator::probe(Recompute recompute) const {
  find_effect(recompute, effect_);
  Bytes overflow = above(effect_.memory);
  visit_stretches(*this, EventKey(recompute), effect_, [&](const Bytes& memory, Bytes amount) {
    overflow += above(memory + amount) - above(memory);
    return true;
  });
  return {instance_.duration(recompute.op), overflow};
}

bool PlanEvaluator::needed(Recompute recompute) const {
  find_effect(recompute, effect_);
  return !visit_stretches(*this, EventKey(recompute), effect_, [&](const Bytes& memory, Bytes amount) {
    return amount > Bytes(0) || memory - amount <= instance_.budget();
  });
}

void PlanEvaluator::apply(EventKey moment, const Effect& effect, bool reverse) {
  // A sum of its own stays in a register.
  Bytes change;
  visit_stretches(*this, moment, effect, [&](Bytes& memory, Bytes amount) {
    const Bytes before = memory;
    const Bytes after = reverse ? before - amount : before + amount;
    change += above(after) - above(before);
    memory = after;
    return true;
  });
  overflow_ += change;
}

void PlanEvaluator::record_uses(Recompute recompute, bool add) {
  const EventKey moment(recompute);
  for (const TensorId t : instance_.inputs(recompute.op)) {
    auto& reuses = reuses_[index(t)];
    const auto at = std::lower_bound(reuses.begin(), reuses.end(), moment);
    if (add) {
      reuses.insert(at, moment);
    } else {
      reuses.erase(at);
    }
  }
}

void PlanEvaluator::add(Recompute recompute) {
  find_effect(recompute, effect_);
  apply(EventKey(recompute), effect_, false);
  auto& stage = again_[index(recompute.stage)];
  crowded_.set(recompute.stage);
  stage.insert(std::find_if(stage.begin(), stage.end(), [&](const Event& event) { return event.op > recompute.op; }),
               {recompute.op, effect_.memory});
  overflow_ += above(effect_.memory);
  auto& computes = computes_[index(recompute.op)];
  computes.insert(std::lower_bound(computes.begin(), computes.end(), recompute.stage), recompute.stage);
  record_uses(recompute, true);
  extra_ += instance_.duration(recompute.op);
}

void PlanEvaluator::remove(Recompute recompute) {
  auto& stage = again_[index(recompute.stage)];
  const auto event =
      std::find_if(stage.begin(), stage.end(), [&](const Event& here) { return here.op == recompute.op; });
  overflow_ -= above(event->memory);
  stage.erase(event);
  if (stage.empty()) crowded_.clear(recompute.stage);
  auto& computes = computes_[index(recompute.op)];
  computes.erase(std::lower_bound(computes.begin(), computes.end(), recompute.stage));
  record_uses(recompute, false);
  extra_ -= instance_.duration(recompute.op);
  find_effect(recompute, effect_);
  apply(EventKey(recompute), effect_, true);
}

std::vector<EventKey> PlanEvaluator::overflowing() const {
  std::vector<EventKey> events;
  count_effort(instance_.op_count() / 8);
  for (Stage stage{0}; stage <= instance_.op_count(); ++stage) {
    for (const Event& event : again_[index(stage)]) {
      if (event.memory > instance_.budget()) events.emplace_back(stage, event.op);
    }
    if (stage < instance_.op_count() && first_memory_[index(stage)] > instance_.budget())
      events.emplace_back(stage, stage);
  }
  return events;
}

}  // namespace remora
