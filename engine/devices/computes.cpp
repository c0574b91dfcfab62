// SPDX-License-Identifier: Apache-2.0
//
// How often an op may run, on all devices together, where that is left to the engine: the problem's number first, and more
// where that is proved to have no schedule or to be settled, where it finds none, or where one device alone costs less with
// more than all that is known (Turns::choose_computes).
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/ask/problem.hpp"
#include "engine/base/deadline.hpp"
#include "engine/devices/solve.hpp"
#include "engine/devices/state.hpp"
#include "engine/devices/turns.hpp"

namespace remora::devices {
namespace {

class Ladder {
 public:
  Ladder(const DeviceGraph& graph, Problem problem, const Options& options)
      : graph_(graph),
        problem_(std::move(problem)),
        options_(options),
        start_(options.start),
        deadline_(options.time_limit, options.cancel) {
    begin_with_start();
  }

  DeviceSchedule run() {
    for (;;) {
      const bool may_go_on = problem_.max_computes < kMostComputes && allows_more();
      Wish wish;
      const bool is_first = best_.solver.max_computes == 0;
      DeviceSchedule found = solve_or_wish(graph_, problem_, limits(), may_go_on ? &wish : nullptr, is_first);
      work_ += found.solver.work;
      const bool pays = take(std::move(found));
      // What is wished for and known is taken, however late.
      if (!pays || !may_go_on || (is_over() && wish.steps.empty())) break;
      if (wish.computes == 0 && !may_pay()) break;
      start_ = !wish.steps.empty() ? std::move(wish.steps) : best_.has_schedule() ? best_.steps : start_;
      after_proof_ = wish.computes == 0 && best_.has_schedule();
      problem_.max_computes = std::max(wish.computes, problem_.max_computes + 1);
    }
    best_.solver.seconds = deadline_.elapsed();
    best_.solver.work = work_;
    best_.solver.work_limit = options_.work_limit;
    explain();
    return std::move(best_);
  }

 private:
  /// A start that holds the budgets with more computes is where it begins.
  void begin_with_start() {
    std::map<OpId, int> computes;
    Problem wider = problem_;
    for (const DeviceStep& step : start_) {
      if (!step.is_copy()) wider.max_computes = std::max(wider.max_computes, ++computes[step.op]);
    }
    if (wider.max_computes > problem_.max_computes && wider.max_computes <= kComputesWithin64Bits &&
        cost_of_schedule(graph_, wider, start_)) {
      problem_ = std::move(wider);
    }
  }

  [[nodiscard]] bool allows_more() const {
    return std::any_of(graph_.graph.ops.begin(), graph_.graph.ops.end(), [&](const Op& op) {
      return op.recompute && op.max_computes.value_or(kMostComputes) > problem_.max_computes;
    });
  }

  [[nodiscard]] bool is_over() const {
    return deadline_.reached() || (options_.work_limit > 0 && work_ >= options_.work_limit);
  }

  [[nodiscard]] Options limits() const {
    Options options = options_;
    options.start = start_;
    const double spent = deadline_.elapsed();
    options.time_limit = std::max(0.0, options_.time_limit - spent);
    if (options_.work_limit > 0) {
      options.work_limit = std::max<std::int64_t>(1, options_.work_limit - work_);
      const auto some = static_cast<std::int64_t>(kPartAfterProof * static_cast<double>(work_));
      if (after_proof_) options.work_limit = std::clamp<std::int64_t>(some, 1, options.work_limit);
    } else if (after_proof_) {
      options.time_limit = std::min(options.time_limit, kPartAfterProof * spent);
    }
    return options;
  }

  /// Whether it is the answer so far; false where more computes have brought nothing.
  bool take(DeviceSchedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = found.has_schedule() && (!had_schedule || found.cost() < best_.cost());
    if (had_schedule && !pays) return false;
    if (pays && !is_first) reason_ = had_schedule ? kShorter : kHolds;
    best_ = std::move(found);
    return true;
  }

  /// Whether more computes may hold the budgets, or cost less.
  [[nodiscard]] bool may_pay() const {
    if (best_.has_schedule()) return best_.status == Status::optimal && best_.cost() > best_.baseline_cost;
    // What no number of computes can mend.
    Problem most = problem_;
    most.max_computes = kMostComputes;
    return bound_of(graph_, most).infeasible.empty();
  }

  void explain() {
    if (reason_ == nullptr || !best_.has_schedule()) return;
    best_.solver.note = "up to " + std::to_string(best_.solver.max_computes) + " computes an op: " + reason_;
  }

  static constexpr const char* kShorter = "costs less than with fewer";
  static constexpr const char* kHolds = "with fewer none was found";

  const DeviceGraph& graph_;
  Problem problem_;
  const Options& options_;
  std::vector<DeviceStep> start_;
  Deadline deadline_;
  DeviceSchedule best_{};
  std::int64_t work_ = 0;
  bool after_proof_ = false;
  const char* reason_ = nullptr;
};

}  // namespace

DeviceSchedule solve_with_more_computes(const DeviceGraph& graph, const Problem& problem, const Options& options) {
  return Ladder(graph, problem, options).run();
}

}  // namespace remora::devices
