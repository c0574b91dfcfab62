// SPDX-License-Identifier: Apache-2.0
#include "engine/order/minimise_peak.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/order/list_order.hpp"
#include "engine/order/order_annealer.hpp"
#include "engine/order/order_worker.hpp"
#include "engine/tasks.hpp"

namespace remora {
namespace {

/// What a round may take of each worker: a tenth of a second or less. The first rounds are shorter, for easy problems.
constexpr std::int64_t kRoundEffort = 5'000'000;
constexpr std::int64_t kFirstRoundEffort = kRoundEffort / 64;
/// What was looked at in a unit of work.
constexpr std::int64_t kEffortOfWork = 1000;
constexpr std::size_t kWorkers = 4;
constexpr int kNoisyStarts = 3;
constexpr double kNoise = 0.5;

/// All that a node reads and writes is resident while it runs.
Bytes largest_footprint(const OrderProblem& problem) {
  Bytes largest = problem.base_memory();
  for (int i = 0; i < problem.node_count(); ++i) {
    Bytes here = problem.base_memory() + problem.workspace(NodeId(i));
    for (const BufferId buffer : problem.reads(NodeId(i))) here += problem.size(buffer);
    for (const BufferId buffer : problem.writes(NodeId(i))) here += problem.size(buffer);
    largest = std::max(largest, here);
  }
  return largest;
}

class OrderSearch {
 public:
  OrderSearch(const OrderProblem& problem, const OrderSettings& settings, const std::function<bool()>& interrupted)
      : problem_(problem), settings_(settings), interrupted_(interrupted), random_(settings.seed) {
    result_.order = given_order(problem);
    result_.peak = peak_of(problem, result_.order);
    result_.lower_bound = largest_footprint(problem);
  }

  OrderResult run() {
    start();
    if (!finished()) hire();
    for (std::int64_t effort = kFirstRoundEffort; !finished(); effort = std::min(2 * effort, kRoundEffort)) {
      run_round(effort);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] Bytes enough() const { return std::max(settings_.target, result_.lower_bound); }
  [[nodiscard]] bool finished() const {
    const bool spent = settings_.work_limit > 0 && result_.work >= settings_.work_limit;
    return spent || result_.peak <= enough() || interrupted_();
  }

  /// List scheduling, first without noise.
  void start() {
    for (int i = 0; i <= kNoisyStarts && !finished(); ++i) {
      std::vector<NodeId> order = list_order(problem_, i == 0 ? 0 : kNoise, random_);
      const Bytes peak = peak_of(problem_, order);
      merge({std::move(order), peak, problem_.node_count()});
    }
  }

  /// Their number is fixed under a work limit only: then it must not matter how many threads there are.
  void hire() {
    const auto threads = static_cast<std::size_t>(std::max(1, settings_.threads));
    const std::size_t count = settings_.work_limit > 0 ? kWorkers : std::max(kWorkers, threads);
    for (std::size_t i = 0; i < count; ++i) {
      OrderAnnealer::Settings settings;
      settings.first_target = i;
      settings.from_best = i % 2 == 1;
      workers_.push_back(std::make_unique<OrderAnnealer>(settings, random_.next()));
    }
  }

  void run_round(std::int64_t effort) {
    const OrderRound round{problem_, result_.order, result_.peak, enough(), interrupted_, effort};
    std::vector<OrderFind> finds(workers_.size());
    run_tasks(std::max(1, settings_.threads), workers_.size(),
              [&](std::size_t i) { finds[i] = workers_[i]->run(round); });
    for (OrderFind& find : finds) merge(std::move(find));
  }

  void merge(OrderFind&& find) {
    result_.work += 1 + find.effort / kEffortOfWork;
    if (find.order.empty() || find.peak >= result_.peak) return;
    result_.order = std::move(find.order);
    result_.peak = find.peak;
    if (settings_.improved) settings_.improved(result_.order, result_.peak);
  }

  const OrderProblem& problem_;
  const OrderSettings& settings_;
  const std::function<bool()>& interrupted_;
  Random random_;
  OrderResult result_;
  std::vector<std::unique_ptr<OrderWorker>> workers_;
};

}  // namespace

OrderResult minimise_peak(const OrderProblem& problem, const OrderSettings& settings,
                          const std::function<bool()>& interrupted) {
  return OrderSearch(problem, settings, interrupted).run();
}

}  // namespace remora
