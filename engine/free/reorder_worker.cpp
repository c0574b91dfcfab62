// SPDX-License-Identifier: Apache-2.0
#include "engine/free/reorder_worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/base/draw_weighted.hpp"
#include "engine/order/order_annealer.hpp"
#include "engine/order/order_problem.hpp"
#include "model/evaluate.hpp"
#include "model/free_sequence.hpp"

namespace remora {
namespace {

/// What one order may take, in looks a node.
constexpr double kLeastEffort = 50;
constexpr double kMostEffort = 5000;
/// Of its annealing, in mean sizes: the order is a good one already.
constexpr double kTemperature = 0.2;
/// Recomputes that one exchange puts in at most.
constexpr int kMostAdded = 3;
/// A blur of what a recompute is worth, so that others than the best get their turn.
constexpr double kNoise = 0.5;
/// Of making an order problem, by compute; orders are counted in it, too.
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
    if (added == kMostAdded || input.interrupted()) return std::nullopt;
    std::optional<Solution> next = relieved(input, candidate, Duration::max());
    if (!next) return std::nullopt;
    candidate = reordered(input, *next, effort);
  }
  return candidate;
}

std::optional<Solution> ReorderWorker::exchange(const RoundInput& input, const Solution& current, Effort& effort) {
  effort += kEffortOfCompute * (1 + static_cast<Effort>(current.sequence().size()) / 16);
  Solution candidate = without_one(input, current);
  for (int added = 0;; ++added) {
    if (candidate.peak > input.instance.budget()) candidate = reordered(input, candidate, effort);
    if (candidate.peak <= input.instance.budget()) {
      if (!better(input.instance, candidate, current)) return std::nullopt;
      return candidate;
    }
    if (added == kMostAdded || input.interrupted()) break;
    std::optional<Solution> next = relieved(input, candidate, current.extra);
    if (!next) break;
    candidate = *std::move(next);
  }
  return std::nullopt;
}

Solution ReorderWorker::without_one(const RoundInput& input, const Solution& current) {
  const std::vector<std::size_t> steps = recompute_steps(input.instance, current.sequence());
  if (steps.empty()) return current;
  const std::size_t chosen = draw_weighted(steps.size(), random_, [&](std::size_t i) {
    return static_cast<double>(input.instance.duration(current.sequence()[steps[i]]).count());
  });
  std::vector<OpId> sequence = current.sequence();
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(steps[chosen]));
  return make_solution(input.instance, std::span<const OpId>(sequence));
}

Solution ReorderWorker::reordered(const RoundInput& input, const Solution& solution, Effort& effort) {
  const OrderProblem problem(input.instance, solution.sequence());
  const std::vector<NodeId> order = given_order(problem);
  // Mostly a little is enough, and sometimes nothing is: each order of magnitude is as likely.
  const double looks = kLeastEffort * std::pow(kMostEffort / kLeastEffort, random_.unit());
  OrderAnnealer annealer({.temperature = kTemperature, .effort = looks}, random_.next());
  const Effort left = std::max(kEffortOfCompute, input.effort - effort);
  const Effort most = std::min(left, static_cast<Effort>(looks) * problem.node_count());
  const OrderFind find =
      annealer.run({problem, order, solution.peak, input.instance.budget(), input.interrupted, most});
  effort += kEffortOfCompute * (1 + find.effort / kEffortOfCompute + problem.node_count());
  if (find.order.empty()) return solution;
  const std::vector<OpId> sequence = problem.sequence_of(find.order);
  return make_solution(input.instance, std::span<const OpId>(sequence));
}

std::optional<Solution> ReorderWorker::relieved(const RoundInput& input, const Solution& solution, Duration below) {
  const Instance& instance = input.instance;
  const Evaluation evaluation = evaluate(instance, solution.sequence());
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 0);
  for (const OpId op : solution.sequence()) ++computes[op];
  const auto used = instance.inputs(solution.sequence()[static_cast<std::size_t>(std::max(0, evaluation.peak_step))]);
  double most = 0;
  TensorId chosen;
  for (const RetentionInterval& interval : evaluation.intervals) {
    if (interval.first_step >= evaluation.peak_step || interval.last_step <= evaluation.peak_step) continue;
    if (std::find(used.begin(), used.end(), interval.tensor) != used.end()) continue;
    const OpId op = instance.producer(interval.tensor);
    if (computes[op] >= instance.max_computes(op) || solution.extra + instance.duration(op) >= below) continue;
    const double worth = static_cast<double>(interval.size.count()) /
                         static_cast<double>(instance.duration(op).count() + 1) * (1 - kNoise * random_.unit());
    if (worth > most) {
      most = worth;
      chosen = interval.tensor;
    }
  }
  if (!chosen.valid()) return std::nullopt;
  const std::size_t place =
      next_use(instance, solution.sequence(), static_cast<std::size_t>(evaluation.peak_step), chosen);
  std::vector<OpId> sequence = solution.sequence();
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(place), instance.producer(chosen));
  return make_solution(instance, std::span<const OpId>(sequence));
}

}  // namespace remora
