// SPDX-License-Identifier: Apache-2.0
#include "engine/order/minimise_peak.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "engine/base/tasks.hpp"
#include "engine/base/work.hpp"
#include "engine/order/exact_order.hpp"
#include "engine/order/first_orders.hpp"
#include "engine/order/least_resident.hpp"
#include "engine/order/order_annealer.hpp"
#include "engine/order/order_worker.hpp"
#include "engine/order/peak_bound.hpp"
#include "engine/order/window_worker.hpp"

namespace remora {
namespace {

/// What a round may take of each worker: a tenth of a second or less. The first rounds are shorter, for easy problems.
constexpr std::int64_t kRoundEffort = 5'000'000;
constexpr std::int64_t kFirstRoundEffort = kRoundEffort / 64;
constexpr std::size_t kAnnealers = 4;
/// Those of the workers, in turn.
constexpr std::array kTemperatures{0.5, 0.2, 2.0, 5.0};
constexpr int kStarts = 6;
constexpr double kNoise = 0.5;
/// Nodes in the networks of the bound, at most, and how many of them are a unit of work.
constexpr std::int64_t kMostCutNodes = std::int64_t{1} << 22;
constexpr std::int64_t kCutNodesOfWork = 20;
/// Nodes run by the first exact search, how much more the next one may, and how many of them are a unit of work.
constexpr std::int64_t kFirstExactNodes = 1 << 18;
constexpr std::int64_t kExactGrowth = 2;
constexpr std::int64_t kExactNodesOfWork = 10;

class PeakSearch {
 public:
  PeakSearch(const OrderProblem& problem, const OrderSettings& settings, const std::function<bool()>& interrupted)
      : problem_(problem), settings_(settings), interrupted_(interrupted), random_(settings.seed) {
    result_.order = given_order(problem);
    result_.peak = peak_of(problem, result_.order);
    result_.lower_bound = largest_footprint(problem);
  }

  OrderResult run() {
    start();
    if (!can_cut()) return std::move(result_);
    if (!finished()) raise_bound();
    std::int64_t effort = kFirstRoundEffort;
    for (std::int64_t nodes = kFirstExactNodes; !finished(); nodes *= kExactGrowth) {
      search_exactly(nodes);
      const std::int64_t until = result_.work + nodes / kExactNodesOfWork;
      for (; !finished() && result_.work < until; effort = std::min(2 * effort, kRoundEffort)) run_round(effort);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] Bytes enough() const { return std::max(settings_.target, result_.lower_bound); }
  [[nodiscard]] std::int64_t work_left() const {
    return settings_.work_limit > 0 ? settings_.work_limit - result_.work : INT64_MAX;
  }
  [[nodiscard]] bool finished() const {
    if (work_left() <= 0 || result_.peak <= enough() || interrupted_()) return true;
    return settings_.enough && settings_.enough(result_.work);
  }

  /// Minimum cuts, and the search's sums over places, add up what all buffers take.
  [[nodiscard]] bool can_cut() const {
    Wide total = problem_.base_memory().count();
    for (int b = 0; b < problem_.buffer_count(); ++b) total += problem_.size(BufferId(b)).count();
    return total < MinimumCut::kUncut;
  }

  /// List scheduling and depth first in turn, first without noise.
  void start() {
    for (int i = 0; i < kStarts && !finished(); ++i) {
      const double noise = i < 2 ? 0 : kNoise;
      std::vector<NodeId> order =
          i % 2 == 0 ? list_order(problem_, noise, random_) : depth_first_order(problem_, noise, random_);
      const Bytes peak = peak_of(problem_, order);
      merge({std::move(order), peak, problem_.node_count()});
    }
  }

  void raise_bound() {
    PeakBoundSettings settings;
    settings.enough = result_.peak;
    settings.work_limit = std::min(kMostCutNodes, limit_of(kCutNodesOfWork));
    settings.interrupted = interrupted_;
    const PeakBound bound = peak_bound(problem_, result_.order, settings);
    result_.work += 1 + bound.work / kCutNodesOfWork;
    result_.lower_bound = std::max(result_.lower_bound, bound.bytes);
  }

  void search_exactly(std::int64_t nodes) {
    ExactOrderSettings settings;
    settings.at_least = result_.lower_bound;
    settings.enough = enough();
    settings.work_limit = std::min(nodes, limit_of(kExactNodesOfWork));
    settings.interrupted = interrupted_;
    PartwiseResult exact = exact_order_by_parts(problem_, result_.order, settings);
    result_.lower_bound = std::max(result_.lower_bound, exact.lower_bound);
    result_.work += 1 + exact.work / kExactNodesOfWork;
    merge({std::move(exact.order), exact.peak, 0});
  }

  /// What is left of the work limit, in the unit of which so many are one of work.
  [[nodiscard]] std::int64_t limit_of(std::int64_t per_work) const {
    return work_left() > INT64_MAX / per_work ? INT64_MAX : work_left() * per_work;
  }

  /// Their number is fixed under a work limit: then it must not matter how many threads there are.
  void hire() {
    const auto threads = static_cast<std::size_t>(std::max(1, settings_.threads));
    const std::size_t count = settings_.work_limit > 0 ? kAnnealers : std::max(kAnnealers, threads - 1);
    workers_.push_back(std::make_unique<WindowWorker>(random_.next()));
    for (std::size_t i = 0; i < count; ++i) {
      OrderAnnealer::Settings settings;
      settings.temperature = kTemperatures[i % kTemperatures.size()];
      settings.first_target = i;
      settings.from_best = i % 2 == 1;
      workers_.push_back(std::make_unique<OrderAnnealer>(settings, random_.next()));
    }
  }

  void run_round(std::int64_t effort) {
    if (workers_.empty()) hire();
    const OrderRound round{problem_, result_.order, result_.peak, enough(), interrupted_, effort};
    std::vector<OrderFind> finds(workers_.size());
    run_tasks(std::max(1, settings_.threads), workers_.size(),
              [&](std::size_t i) { finds[i] = workers_[i]->run(round); });
    for (OrderFind& find : finds) merge(std::move(find));
  }

  void merge(OrderFind&& find) {
    result_.work += work_of(find.effort).count();
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
  return PeakSearch(problem, settings, interrupted).run();
}

}  // namespace remora
