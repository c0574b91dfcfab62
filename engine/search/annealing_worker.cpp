// SPDX-License-Identifier: Apache-2.0
#include "engine/search/annealing_worker.hpp"

#include <array>
#include <cmath>

#include "engine/search/local/offer.hpp"

namespace remora {
namespace {

/// The first temperature in areas of an op, and the part of it at which a cooling ends.
constexpr double kFirstTemperature = 0.02;
constexpr double kLastPart = 1e-3;
/// The price of time in a cooling, a part of what it is worth on average; the coolings go through these in turn.
constexpr std::array kPrices{0.01, 0.003, 0.03, 0.1};
/// The first cooling takes so much effort an op; each of the next ones more.
constexpr double kFirstCooling = 30'000;
constexpr double kCoolingGrowth = 1.3;
constexpr double kChainShare = 0.3;
constexpr int kMostChain = 8;
/// A new place for a recompute is mostly the stage of a use.
constexpr double kUseShare = 0.75;

}  // namespace

AnnealingWorker::AnnealingWorker(const SolveOptions& /*options*/, std::uint64_t seed) : random_(seed) {}

void AnnealingWorker::begin(const RoundInput& input) {
  moves_.emplace(input.instance);
  moves_->assign(input.incumbent.plan);
  rate_ = exchange_rate(input.instance);
  for (OpId op{0}; op < input.instance.op_count(); op = OpId(op + 1)) {
    if (input.instance.max_computes(op) > 1) ops_.push_back(op);
  }
  cooling_effort_ = static_cast<std::int64_t>(kFirstCooling * input.instance.op_count());
  begin_cooling();
}

void AnnealingWorker::begin_cooling() {
  price_ = kPrices[static_cast<std::size_t>(coolings_++) % kPrices.size()] * rate_.area_of_time;
  cooling_begin_ = effort();
}

RoundResult AnnealingWorker::run(const RoundInput& input) {
  RoundResult result;
  if (!moves_) begin(input);
  if (ops_.empty()) return result;
  const PlanEvaluator& state = moves_->state();
  const Bytes budget = input.instance.budget();
  Duration best = input.incumbent.peak <= budget ? input.incumbent.extra : Duration::max();
  const std::int64_t begin = effort();
  while (effort() - begin < kLocalPerEffort * input.effort && !input.interrupted() && best > input.lower_bound) {
    const double done = static_cast<double>(effort() - cooling_begin_) / static_cast<double>(cooling_effort_);
    temperature_ = kFirstTemperature * rate_.area_of_op * std::pow(kLastPart, done);
    step();
    if (state.overflow() == Bytes(0) && state.extra() < best) {
      best = state.extra();
      result.solution = make_solution(input.instance, state.plan());
    }
    if (done < 1) continue;
    cooling_effort_ = static_cast<std::int64_t>(kCoolingGrowth * static_cast<double>(cooling_effort_));
    begin_cooling();
  }
  if (!result.solution) offer(input, state, result);
  result.work = local_work(effort() - begin);
  return result;
}

double AnnealingWorker::cost() const {
  const PlanEvaluator& state = moves_->state();
  return static_cast<double>(state.overflow().count()) + price_ * static_cast<double>(state.extra().count());
}

void AnnealingWorker::step() {
  ++steps_;
  const double most = cost() - temperature_ * std::log(1 - random_.unit());
  if (change(ops_[random_.below(ops_.size())]) && cost() <= most) {
    moves_->keep();
  } else {
    moves_->undo_to(0);
  }
}

/// Drops a recompute of the op, adds one, or both. False if there was nothing to do.
bool AnnealingWorker::change(OpId op) {
  const PlanEvaluator& state = moves_->state();
  const auto stages = state.recomputes(op);
  const bool full = static_cast<int>(stages.size()) + 1 >= moves_->instance().max_computes(op);
  const bool drop = !stages.empty() && (full || random_.below(2) == 0);
  if (drop) {
    moves_->remove_chain({stages[random_.below(stages.size())], op});
    if (random_.below(2) == 0) return true;
  }
  const Recompute again{random_stage(op), op};
  if (!state.can_add(again)) return false;
  if (random_.unit() < kChainShare) {
    moves_->add_chain(again, {.most = kMostChain}, random_);
  } else {
    moves_->add(again);
  }
  return true;
}

Stage AnnealingWorker::random_stage(OpId op) {
  const Instance& instance = moves_->instance();
  const auto outputs = instance.outputs(op);
  const TensorId t = outputs[random_.below(outputs.size())];
  const auto users = instance.users(t);
  const Stage last = users.empty() || instance.keep(t) ? instance.op_count() : Stage{users.back()};
  if (!users.empty() && random_.unit() < kUseShare) return users[random_.below(users.size())];
  return op + 1 + static_cast<Stage>(random_.below(static_cast<std::size_t>(last - op)));
}

}  // namespace remora
