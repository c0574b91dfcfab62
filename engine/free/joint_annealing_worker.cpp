// SPDX-License-Identifier: Apache-2.0
#include "engine/free/joint_annealing_worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "engine/order/order_profile.hpp"
#include "model/evaluate.hpp"
#include "model/free_sequence.hpp"

namespace remora {
namespace {

/// Steps between two changes of the recomputes, per node.
constexpr double kStepsOfChange = 0.3;
/// What a change looks at, per node.
constexpr std::int64_t kChangeEffort = 60;
constexpr double kHotShare = 0.5;
constexpr double kChainShare = 0.3;
constexpr std::size_t kMostChain = 8;
constexpr std::int64_t kLookSteps = 4096;

/// The last step of the retention interval from which a use before `at` would read the tensor.
int last_use(const Evaluation& evaluation, TensorId tensor, int at) {
  int last = -1;
  for (const RetentionInterval& interval : evaluation.intervals) {
    if (interval.first_step >= at) break;
    if (interval.tensor == tensor) last = interval.last_step;
  }
  return last;
}

/// The op and, as far as they are away by `place`, what it reads, each after what it reads itself.
std::vector<OpId> chain_of(const Instance& instance, const Evaluation& evaluation, OpId op, int place, int at,
                           const std::vector<int>& left) {
  std::vector<OpId> chain{op};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    for (const TensorId t : instance.inputs(chain[i])) {
      const OpId producer = instance.producer(t);
      const bool known = std::find(chain.begin(), chain.end(), producer) != chain.end();
      if (known || left[producer] <= 0 || chain.size() >= kMostChain) continue;
      if (last_use(evaluation, t, at) < place) chain.push_back(producer);
    }
  }
  // Ops are numbered in a topological order.
  std::sort(chain.begin(), chain.end());
  return chain;
}

Duration extra_of(const Instance& instance, std::span<const OpId> sequence) {
  Duration total;
  for (const OpId op : sequence) total += instance.duration(op);
  return total - instance.baseline_duration();
}

}  // namespace

JointAnnealingWorker::Walk::Walk(const Instance& instance, std::span<const OpId> sequence)
    : problem(instance, sequence), profile(problem, given_order(problem)), extra(extra_of(instance, sequence)) {
  profile.set_target(instance.budget());
}

void JointAnnealingWorker::begin(const RoundInput& input) {
  walk_ = std::make_unique<Walk>(input.instance, input.incumbent.sequence());
  rate_ = exchange_rate(input.instance);
  cooling_.emplace(annealing_cooling(input.instance, rate_));
}

/// Every other one goes on from where the one before has ended.
void JointAnnealingWorker::begin_cooling(const RoundInput& input) {
  if (++coolings_ % 2 == 0) {
    effort_ += walk_->profile.effort();
    walk_ = std::make_unique<Walk>(input.instance, input.incumbent.sequence());
  }
  cooling_->begin_again(effort());
}

double JointAnnealingWorker::price() const {
  return annealing_price(rate_, coolings_);
}

double JointAnnealingWorker::cost(const Walk& walk) const {
  return static_cast<double>(walk.profile.overflow().count()) + price() * static_cast<double>(walk.extra.count());
}

RoundResult JointAnnealingWorker::run(const RoundInput& input) {
  RoundResult result;
  if (input.instance.op_count() < 2) return result;
  if (!walk_) begin(input);
  Duration best = input.incumbent.peak <= input.instance.budget() ? input.incumbent.extra : Duration::max();
  const std::int64_t first = effort();
  while (effort() - first < input.effort && best > input.lower_bound) {
    if (++steps_ % kLookSteps == 0 && input.interrupted()) break;
    step(input);
    offer_cheaper(input, best, result);
    if (cooling_->cold(effort())) begin_cooling(input);
  }
  if (!result.solution && best == Duration::max()) {
    Solution here = make_solution(input.instance, std::span<const OpId>(walk_->sequence()));
    if (better(input.instance, here, input.incumbent)) result.solution = std::move(here);
  }
  result.work = work_of(effort() - first);
  return result;
}

void JointAnnealingWorker::offer_cheaper(const RoundInput& input, Duration& best, RoundResult& result) {
  if (walk_->profile.overflow() > Bytes(0) || walk_->extra >= best) return;
  result.solution = make_solution(input.instance, std::span<const OpId>(walk_->sequence()));
  best = result.solution->extra;
}

bool JointAnnealingWorker::accepts(double more) {
  return more <= 0 || more <= -cooling_->temperature(effort()) * std::log(1 - random_.unit());
}

void JointAnnealingWorker::step(const RoundInput& input) {
  effort_ += kLocalStepEffort;
  const int size = walk_->profile.size();
  if (steps_ % std::max(1, static_cast<int>(kStepsOfChange * size)) == 0) {
    change(input);
    list_overflowing(walk_->profile, hot_);
  } else {
    move_node();
  }
}

int JointAnnealingWorker::draw_place() {
  const int size = walk_->profile.size();
  if (hot_.empty() || random_.unit() >= kHotShare) {
    return static_cast<int>(random_.below(static_cast<std::size_t>(size)));
  }
  return std::min(size - 1, hot_[random_.below(hot_.size())]);
}

void JointAnnealingWorker::move_node() {
  OrderProfile& profile = walk_->profile;
  const NodeId node = profile.at(draw_place());
  const int goal = draw_goal(profile, node, random_);
  if (goal == profile.place(node)) return;
  if (accepts(static_cast<double>((profile.overflow_after(node, goal) - profile.overflow()).count()))) {
    profile.move(node, goal);
  }
}

void JointAnnealingWorker::change(const RoundInput& input) {
  std::vector<OpId> sequence = walk_->sequence();
  effort_ += kChangeEffort * static_cast<std::int64_t>(sequence.size());
  const bool dropped = random_.below(2) == 0 && drop(input.instance, sequence);
  const bool added = (!dropped || random_.below(2) == 0) && add(input.instance, sequence);
  if (!dropped && !added) return;
  auto next = std::make_unique<Walk>(input.instance, sequence);
  if (!accepts(cost(*next) - cost(*walk_))) return;
  effort_ += walk_->profile.effort();
  walk_ = std::move(next);
}

bool JointAnnealingWorker::drop(const Instance& instance, std::vector<OpId>& sequence) {
  const std::vector<std::size_t> recomputes = recompute_steps(instance, sequence);
  if (recomputes.empty()) return false;
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(recomputes[random_.below(recomputes.size())]));
  return true;
}

bool JointAnnealingWorker::add(const Instance& instance, std::vector<OpId>& sequence) {
  const int place = std::min(static_cast<int>(sequence.size()) - 1, draw_place());
  const Evaluation evaluation = evaluate(instance, sequence);
  std::vector<int> left(static_cast<std::size_t>(instance.op_count()), 0);
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) left[op] = instance.max_computes(op);
  for (const OpId op : sequence) --left[op];
  const auto used = instance.inputs(sequence[static_cast<std::size_t>(place)]);
  std::vector<const RetentionInterval*> across;
  for (const RetentionInterval& interval : evaluation.intervals) {
    if (interval.first_step >= place) break;
    const bool away = std::find(used.begin(), used.end(), interval.tensor) == used.end();
    if (away && interval.last_step > place && left[instance.producer(interval.tensor)] > 0) across.push_back(&interval);
  }
  if (across.empty()) return false;
  const RetentionInterval& chosen = *across[random_.below(across.size())];
  const std::size_t at = next_use(instance, sequence, static_cast<std::size_t>(place), chosen.tensor);
  std::vector<OpId> again{instance.producer(chosen.tensor)};
  if (random_.unit() < kChainShare) {
    again = chain_of(instance, evaluation, again.front(), place, static_cast<int>(at), left);
  }
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), again.begin(), again.end());
  return true;
}

}  // namespace remora
