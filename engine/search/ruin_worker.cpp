// SPDX-License-Identifier: Apache-2.0
#include "engine/search/ruin_worker.hpp"

#include <algorithm>
#include <cmath>

#include "engine/search/local/offer.hpp"

namespace remora {
namespace {

/// Recomputes that a ruin takes out at most.
constexpr std::size_t kMostRemoved = 10;
/// What a worse plan may cost more, in mean durations of an op, on average (it is drawn from an exponential
/// distribution): at first, and the part of it at which a cooling ends.
constexpr double kFirstTemperature = 0.7;
constexpr double kLastPart = 0.02;
/// The first cooling takes so many full rounds, each further one more.
constexpr double kFirstCooling = 30;
constexpr double kCoolingGrowth = 1.5;
/// Measured on rl500 at 80 % and a generated graph of 1000 ops at 90 % (benchmarks/README.md).
constexpr int kCandidates = 16;
constexpr double kNoise = 0.3;
/// A recreation may cost so much more, in mean durations, before what is no longer needed is taken out.
constexpr double kSlack = 1;
/// The price of time in phase 1, a part of what it is worth on average.
constexpr double kPriceOfTime = 0.01;
}  // namespace

RuinWorker::RuinWorker(const SolveOptions& /*options*/, std::uint64_t seed)
    : random_(seed), cooling_effort_(static_cast<std::int64_t>(kFirstCooling * kRoundEffort * kLocalPerEffort)) {}

void RuinWorker::begin_round(const RoundInput& input) {
  const Instance& instance = input.instance;
  if (!moves_) {
    moves_.emplace(instance);
    rate_ = exchange_rate(instance);
    moves_->assign(input.incumbent.plan);
  }
  const bool feasible = input.incumbent.peak <= instance.budget();
  const PlanEvaluator& state = moves_->state();
  const bool cold = effort() - cooling_begin_ >= cooling_effort_;
  if (feasible && (state.overflow() > Bytes(0) || cold)) moves_->assign(input.incumbent.plan);
  if (feasible) best_ = std::min(best_, input.incumbent.extra);
  if (cold) {
    cooling_effort_ = static_cast<std::int64_t>(kCoolingGrowth * static_cast<double>(cooling_effort_));
    cooling_begin_ = effort();
  }
}

RoundResult RuinWorker::run(const RoundInput& input) {
  RoundResult result;
  begin_round(input);
  const PlanEvaluator& state = moves_->state();
  const std::int64_t begin = effort();
  while (effort() - begin < kLocalPerEffort * input.effort && !input.interrupted() && best_ > input.lower_bound) {
    const double done = static_cast<double>(effort() - cooling_begin_) / static_cast<double>(cooling_effort_);
    temperature_ = kFirstTemperature * std::pow(kLastPart, done);
    step(input.interrupted);
    if (state.overflow() > Bytes(0) || state.extra() >= best_) continue;
    best_ = state.extra();
    result.solution = make_solution(input.instance, state.plan());
  }
  if (state.overflow() > Bytes(0)) offer(input, state, result);
  result.work = local_work(effort() - begin);
  return result;
}

void RuinWorker::step(const std::function<bool()>& interrupted) {
  const PlanEvaluator& state = moves_->state();
  const Bytes overflow = state.overflow();
  const Duration extra = state.extra();
  const std::size_t mark = moves_->mark();
  ++steps_;
  ruin();
  if (recreate(overflow, extra, interrupted)) {
    moves_->keep();
  } else {
    moves_->undo_to(mark);
  }
}

void RuinWorker::ruin() {
  plan_ = moves_->state().plan();
  if (plan_.empty()) return;
  const std::size_t count = 1 + random_.below(kMostRemoved);
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
      const auto stages = static_cast<std::size_t>(again.stage() - from + 1);
      return remove_around(from + static_cast<Stage>(random_.below(stages)), count);
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

/// Whether the recreated plan is to be kept.
bool RuinWorker::recreate(Bytes overflow, Duration extra, const std::function<bool()>& interrupted) {
  const PlanEvaluator& state = moves_->state();
  const Instance& instance = moves_->instance();
  const double mean = static_cast<double>(instance.baseline_duration().count()) / instance.op_count();
  const double worse = -temperature_ * mean * std::log(1 - random_.unit());
  RepairSettings settings{.candidates = kCandidates, .noise = kNoise, .interrupted = &interrupted};
  Repair repair(*moves_, random_);
  if (overflow > Bytes(0)) {
    repair.run(settings);
    const double price = kPriceOfTime * rate_.area_of_time;
    return static_cast<double>((state.overflow() - overflow).count()) +
               price * static_cast<double>((state.extra() - extra).count()) <=
           price * worse;
  }
  const Duration below = extra + Duration(1 + static_cast<std::int64_t>(worse));
  settings.below = below + Duration(static_cast<std::int64_t>(kSlack * mean));
  if (!repair.run(settings)) return false;
  repair.prune();
  return state.extra() < below;
}

}  // namespace remora
