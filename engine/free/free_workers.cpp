// SPDX-License-Identifier: Apache-2.0
#include "engine/free/free_workers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/order/order_problem.hpp"
#include "engine/order/order_profile.hpp"
#include "engine/order/order_workers.hpp"
#include "model/evaluate.hpp"
#include "model/random.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Steps between two changes of the recomputes, per node.
constexpr double kStepsOfChange = 0.3;
/// The effort of a change, per node.
constexpr std::int64_t kChangeEffort = 60;
constexpr double kFreeHotShare = 0.5;
constexpr double kFreeChainShare = 0.3;
constexpr std::size_t kMaxFreeChain = 8;
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
                           const Table<OpId, int>& left) {
  std::vector<OpId> chain{op};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    for (const TensorId t : instance.inputs(chain[i])) {
      const OpId producer = instance.producer(t);
      const bool known = std::find(chain.begin(), chain.end(), producer) != chain.end();
      if (known || left[producer] <= 0 || chain.size() >= kMaxFreeChain) continue;
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
  walk_ = std::make_unique<Walk>(input.instance, input.incumbent.sequence(input.instance));
  rate_ = exchange_rate(input.instance);
  cooling_.emplace(annealing_cooling(input.instance, rate_));
}

/// Every other one goes on from where the one before has ended.
void JointAnnealingWorker::begin_cooling(const RoundInput& input) {
  if (++coolings_ % 2 == 0) {
    effort_ += walk_->profile.effort();
    walk_ = std::make_unique<Walk>(input.instance, input.incumbent.sequence(input.instance));
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
  if (hot_.empty() || random_.unit() >= kFreeHotShare) {
    return static_cast<int>(random_.below(at(size)));
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
  Sequence sequence = walk_->sequence();
  effort_ += kChangeEffort * static_cast<std::int64_t>(sequence.size());
  const bool dropped = random_.below(2) == 0 && drop(input.instance, sequence);
  const bool added = (!dropped || random_.below(2) == 0) && add(input.instance, sequence);
  if (!dropped && !added) return;
  auto next = std::make_unique<Walk>(input.instance, sequence);
  if (!accepts(cost(*next) - cost(*walk_))) return;
  effort_ += walk_->profile.effort();
  walk_ = std::move(next);
}

bool JointAnnealingWorker::drop(const Instance& instance, Sequence& sequence) {
  const std::vector<std::size_t> recomputes = recompute_steps(instance, sequence);
  if (recomputes.empty()) return false;
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(recomputes[random_.below(recomputes.size())]));
  return true;
}

bool JointAnnealingWorker::add(const Instance& instance, Sequence& sequence) {
  const int place = std::min(static_cast<int>(sequence.size()) - 1, draw_place());
  const Evaluation evaluation = evaluate(instance, sequence);
  Table<OpId, int> left(instance.op_count());
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
  if (random_.unit() < kFreeChainShare) {
    again = chain_of(instance, evaluation, again.front(), place, static_cast<int>(at), left);
  }
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), again.begin(), again.end());
  return true;
}

namespace {

/// The effort limit of one order, per node.
constexpr double kMinEffort = 50;
constexpr double kMaxEffort = 5000;
/// The temperature of its annealing, in mean sizes: the order is a good one already.
constexpr double kTemperature = 0.2;
/// Recomputes that one exchange puts in at most.
constexpr int kMaxAdded = 3;
/// A blur of what a recompute is worth, so that others than the best get their turn.
constexpr double kFreeNoise = 0.5;
/// The effort of making an order problem, per run; orders are counted in it, too.
constexpr Effort kEffortOfCompute = 30;

}  // namespace

RoundResult ReorderWorker::run(const RoundInput& input) {
  RoundResult result;
  Solution current = input.incumbent;
  Effort effort = 0;
  while (effort < input.effort && !input.interrupted()) {
    std::optional<Solution> found;
    if (current.peak > input.instance.budget()) {
      found = lowered(input, current, effort);
    } else if (current.extra <= input.lower_bound) {
      break;
    } else {
      found = exchange(input, current, effort);
    }
    if (!found) continue;
    current = *std::move(found);
    result.solution = current;
  }
  result.work = work_of(effort);
  return result;
}

std::optional<Solution> ReorderWorker::lowered(const RoundInput& input, const Solution& current, Effort& effort) {
  Solution candidate = reordered(input, current, effort);
  for (int added = 0; !better(input.instance, candidate, current); ++added) {
    if (added == kMaxAdded || input.interrupted()) return std::nullopt;
    std::optional<Solution> next = relieved(input, candidate, Duration::max());
    if (!next) return std::nullopt;
    candidate = reordered(input, *next, effort);
  }
  return candidate;
}

std::optional<Solution> ReorderWorker::exchange(const RoundInput& input, const Solution& current, Effort& effort) {
  effort += kEffortOfCompute * (1 + static_cast<Effort>(current.computes(input.instance).size()) / 16);
  Solution candidate = without_one(input, current);
  for (int added = 0;; ++added) {
    if (candidate.peak > input.instance.budget()) candidate = reordered(input, candidate, effort);
    if (candidate.peak <= input.instance.budget()) {
      if (!better(input.instance, candidate, current)) return std::nullopt;
      return candidate;
    }
    if (added == kMaxAdded || input.interrupted()) break;
    std::optional<Solution> next = relieved(input, candidate, current.extra);
    if (!next) break;
    candidate = *std::move(next);
  }
  return std::nullopt;
}

Solution ReorderWorker::without_one(const RoundInput& input, const Solution& current) {
  Sequence sequence = current.sequence(input.instance);
  const std::vector<std::size_t> steps = recompute_steps(input.instance, sequence);
  if (steps.empty()) return current;
  const std::size_t chosen = draw_weighted(steps.size(), random_, [&](std::size_t i) {
    return static_cast<double>(input.instance.duration(sequence[steps[i]]).count());
  });
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(steps[chosen]));
  return make_solution(input.instance, std::span<const OpId>(sequence));
}

Solution ReorderWorker::reordered(const RoundInput& input, const Solution& solution, Effort& effort) {
  const OrderProblem problem(input.instance, solution.sequence(input.instance));
  const std::vector<NodeId> order = given_order(problem);
  // Mostly a little is enough, and sometimes nothing is: each order of magnitude is as likely.
  const double looks = kMinEffort * std::pow(kMaxEffort / kMinEffort, random_.unit());
  OrderAnnealer annealer({.temperature = kTemperature, .effort = looks}, random_.next());
  const Effort left = std::max(kEffortOfCompute, input.effort - effort);
  const Effort most = std::min(left, static_cast<Effort>(looks) * problem.node_count());
  const OrderFind find =
      annealer.run({problem, order, solution.peak, input.instance.budget(), input.interrupted, most});
  effort += kEffortOfCompute * (1 + find.effort / kEffortOfCompute + problem.node_count());
  if (find.order.empty()) return solution;
  const Sequence sequence = problem.sequence_of(find.order);
  return make_solution(input.instance, std::span<const OpId>(sequence));
}

std::optional<Solution> ReorderWorker::relieved(const RoundInput& input, const Solution& solution, Duration below) {
  const Instance& instance = input.instance;
  Sequence sequence = solution.sequence(instance);
  const Evaluation evaluation = evaluate(instance, sequence);
  Table<OpId, int> computes(instance.op_count());
  for (const OpId op : sequence) ++computes[op];
  const auto used = instance.inputs(sequence[static_cast<std::size_t>(std::max(0, evaluation.peak_step))]);
  double most = 0;
  TensorId chosen;
  for (const RetentionInterval& interval : evaluation.intervals) {
    if (interval.first_step >= evaluation.peak_step || interval.last_step <= evaluation.peak_step) continue;
    if (std::find(used.begin(), used.end(), interval.tensor) != used.end()) continue;
    const OpId op = instance.producer(interval.tensor);
    if (computes[op] >= instance.max_computes(op) || solution.extra + instance.duration(op) >= below) continue;
    const double worth = static_cast<double>(interval.size.count()) /
                         static_cast<double>(instance.duration(op).count() + 1) * (1 - kFreeNoise * random_.unit());
    if (worth > most) {
      most = worth;
      chosen = interval.tensor;
    }
  }
  if (!chosen.valid()) return std::nullopt;
  const std::size_t place = next_use(instance, sequence, static_cast<std::size_t>(evaluation.peak_step), chosen);
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(place), instance.producer(chosen));
  return make_solution(instance, std::span<const OpId>(sequence));
}

}  // namespace remora
