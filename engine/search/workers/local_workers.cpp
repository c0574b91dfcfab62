// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/local_workers.hpp"

#include <algorithm>
#include <cmath>

#include "model/table.hpp"

namespace remora {
namespace {

constexpr double kChainShare = 0.3;
constexpr int kMaxChain = 8;
/// A new place for a recompute is mostly the stage of a use.
constexpr double kUseShare = 0.75;

}  // namespace

AnnealingWorker::Walk::Walk(const Solution& begin, const Instance& instance)
    : moves(instance, begin.plan()), rate(exchange_rate(instance)), cooling(annealing_cooling(instance, rate)) {
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
    if (instance.max_computes(op) > 1) ops.push_back(op);
  }
}

AnnealingWorker::AnnealingWorker(std::uint64_t seed) : random_(seed) {}

double AnnealingWorker::price() const {
  return annealing_price(walk_->rate, coolings_);
}

RoundResult AnnealingWorker::run(const RoundInput& input) {
  RoundResult result;
  if (!walk_) walk_.emplace(input.incumbent, input.instance);
  if (walk_->ops.empty()) return result;
  const PlanEvaluator& state = walk_->moves.state();
  Duration best = input.incumbent.peak <= input.instance.budget() ? input.incumbent.extra : Duration::max();
  const Effort begin = effort();
  while (effort() - begin < input.effort && !input.interrupted() && best > input.lower_bound) {
    step();
    offer_cheaper(state, best, result);
    if (!walk_->cooling.cold(effort())) continue;
    walk_->cooling.begin_again(effort());
    ++coolings_;
  }
  if (!result.solution) offer(input, state, result);
  result.work = work_of(effort() - begin);
  return result;
}

double AnnealingWorker::cost() const {
  const PlanEvaluator& state = walk_->moves.state();
  return static_cast<double>(state.overflow().count()) + price() * static_cast<double>(state.extra().count());
}

void AnnealingWorker::step() {
  ++steps_;
  const double most = cost() - walk_->cooling.temperature(effort()) * std::log(1 - random_.unit());
  if (change(walk_->ops[random_.below(walk_->ops.size())]) && cost() <= most) {
    walk_->moves.keep();
  } else {
    walk_->moves.undo_to(0);
  }
}

/// Drops a recompute of the op, adds one, or both. False if there was nothing to do.
bool AnnealingWorker::change(OpId op) {
  const PlanEvaluator& state = walk_->moves.state();
  const auto stages = state.recomputes(op);
  const bool full = static_cast<int>(stages.size()) + 1 >= walk_->moves.instance().max_computes(op);
  const bool drop = !stages.empty() && (full || random_.below(2) == 0);
  if (drop) {
    walk_->moves.remove_chain({stages[random_.below(stages.size())], op});
    if (random_.below(2) == 0) return true;
  }
  const Recompute again{random_stage(op), op};
  if (!state.can_add(again)) return false;
  if (random_.unit() < kChainShare) {
    walk_->moves.add_chain(again, {.most = kMaxChain}, random_);
  } else {
    walk_->moves.add(again);
  }
  return true;
}

Stage AnnealingWorker::random_stage(OpId op) {
  const Instance& instance = walk_->moves.instance();
  const auto outputs = instance.outputs(op);
  const TensorId t = outputs[random_.below(outputs.size())];
  const auto users = instance.users(t);
  const Stage last = users.empty() || instance.keep(t) ? Stage{instance.op_count()} : Stage{users.back()};
  if (!users.empty() && random_.unit() < kUseShare) return Stage{users[random_.below(users.size())]};
  return Stage{op} + 1 + static_cast<std::int32_t>(random_.below(at(last - Stage{op})));
}

namespace {

/// Recomputes that a ruin takes out at most.
constexpr std::size_t kMaxRemoved = 10;
/// The extra cost of a worse plan that is accepted, in mean durations of an op, on average (drawn from an exponential
/// distribution), and the number of full rounds of the first cooling.
constexpr Cooling::Settings kCooling{
    .first_temperature = 0.7, .last_part = 0.02, .first_effort = 30.0 * kRoundEffort, .growth = 1.5};
/// A recreation may cost so much more, in mean durations, before what is no longer needed is taken out.
constexpr double kSlack = 1;
/// The price of time in phase 1, a part of what it is worth on average.
constexpr double kPriceOfTime = 0.01;

/// The sum, or what comes next to it within 64 bits.
Duration plus(Duration duration, double more) {
  const auto room = static_cast<double>((Duration::max() - duration).count());
  return more < room / 2 ? duration + Duration(static_cast<std::int64_t>(more)) : Duration::max();
}

}  // namespace

RuinWorker::RuinWorker(std::uint64_t seed) : random_(seed), cooling_(kCooling) {}

void RuinWorker::begin_round(const RoundInput& input) {
  if (!moves_) {
    moves_.emplace(input.instance, input.incumbent.plan());
    rate_ = exchange_rate(input.instance);
  }
  if (input.incumbent.peak <= input.instance.budget()) best_ = std::min(best_, input.incumbent.extra);
  if (!cooling_.cold(effort())) return;
  moves_->assign(input.incumbent.plan());
  cooling_.begin_again(effort());
}

RoundResult RuinWorker::run(const RoundInput& input) {
  RoundResult result;
  begin_round(input);
  const PlanEvaluator& state = moves_->state();
  const Effort begin = effort();
  const Effort end = begin + input.effort;
  while (effort() < end && !input.interrupted() && best_ > input.lower_bound) {
    step(end, input.interrupted);
    offer_cheaper(state, best_, result);
  }
  if (state.overflow() > Bytes(0)) offer(input, state, result);
  result.work = work_of(effort() - begin);
  return result;
}

void RuinWorker::step(Effort end, const std::function<bool()>& interrupted) {
  const PlanEvaluator& state = moves_->state();
  const Bytes overflow = state.overflow();
  const Duration extra = state.extra();
  const std::size_t mark = moves_->mark();
  ++steps_;
  ruin();
  const RepairSettings settings{.effort_limit = state.effort() + (end - effort()), .interrupted = interrupted};
  if (overflow > Bytes(0) ? approach(overflow, extra, settings) : recreate(extra, settings)) {
    moves_->keep();
  } else {
    moves_->undo_to(mark);
  }
}

double RuinWorker::mean_duration() const {
  const Instance& instance = moves_->instance();
  return static_cast<double>(instance.baseline_duration().count()) / instance.op_count();
}

/// The extra cost that is accepted this time.
double RuinWorker::tolerated() {
  return -cooling_.temperature(effort()) * mean_duration() * std::log(1 - random_.unit());
}

/// Repairs a plan above the budget as far as it goes. Whether the outcome is to be kept.
bool RuinWorker::approach(Bytes overflow, Duration extra, const RepairSettings& settings) {
  const PlanEvaluator& state = moves_->state();
  Repair(*moves_, random_).run(settings);
  const double price = kPriceOfTime * rate_.area_of_time;
  const double change = static_cast<double>((state.overflow() - overflow).count()) +
                        price * static_cast<double>((state.extra() - extra).count());
  return change <= price * tolerated();
}

/// Repairs a plan that was within the budget. Whether the outcome, pruned, is to be kept.
bool RuinWorker::recreate(Duration extra, RepairSettings settings) {
  const Duration below = plus(extra, 1 + tolerated());
  settings.below = plus(below, kSlack * mean_duration());
  Repair repair(*moves_, random_);
  if (!repair.run(settings)) return false;
  repair.prune(settings.interrupted);
  return moves_->state().extra() < below;
}

void RuinWorker::ruin() {
  plan_ = moves_->state().plan();
  if (plan_.empty()) return;
  const std::size_t count = 1 + random_.below(kMaxRemoved);
  const std::size_t first = random_.below(plan_.size());
  switch (random_.below(4)) {
    case 0:
      random_.shuffle(plan_);
      return remove_some(0, count);
    case 1:
      return remove_some(first, count);
    case 2:
      moves_->remove_chain(plan_[first]);
      return;
    default: {
      const EventKey again(plan_[first]);
      const Stage from = moves_->state().compute_before(again.op(), again).stage();
      const std::size_t stages = at(again.stage() - from + 1);
      return remove_around(from + static_cast<std::int32_t>(random_.below(stages)), count);
    }
  }
}

void RuinWorker::remove_some(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < std::min(plan_.size(), first + count); ++i) moves_->remove(plan_[i]);
}

/// Removes recomputes that save memory in the stage.
void RuinWorker::remove_around(Stage stage, std::size_t count) {
  const PlanEvaluator& state = moves_->state();
  std::erase_if(plan_, [&](const Recompute& recompute) {
    return recompute.stage < stage || state.compute_before(recompute.op, EventKey(recompute)).stage() > stage;
  });
  random_.shuffle(plan_);
  remove_some(0, count);
}

}  // namespace remora
