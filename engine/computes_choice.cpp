// SPDX-License-Identifier: Apache-2.0
#include "engine/computes_choice.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/work.hpp"
#include "engine/baselines/method.hpp"
#include "engine/search/segments.hpp"
#include "engine/solve.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// More computes than these were never seen to pay where fewer did not.
constexpr int kMostComputes = 8;
/// Of the limits, where there is no schedule: for each problem but the last.
constexpr double kPatience = 0.25;
/// A search gets so long before checkpoints of one compute more are preferred to what it has.
constexpr double kSecondsOfDoubt = 0.6;
constexpr double kPartOfDoubt = 0.05;
/// Of what a proof has taken: for the same with one compute more.
constexpr double kPartAfterProof = 0.25;

Instance with_computes(const Instance& instance, int most) {
  Problem problem = instance.problem();
  problem.max_computes = most;
  return {instance.shared_graph(), problem, instance.shared_modes()};
}

/// Whether any op may run more often in b than in a.
bool allows_more(const Instance& a, const Instance& b) {
  return std::any_of(a.ops().begin(), a.ops().end(), [&](OpId op) { return a.max_computes(op) < b.max_computes(op); });
}

/// Checkpoints between segments; without a sequence if they take more than the budget.
struct Cut {
  Sequence sequence{};
  Duration duration{};
};

class ComputesChoice {
 public:
  ComputesChoice(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks)
      : instance_(instance),
        options_(options),
        callbacks_(callbacks),
        deadline_(options.time_limit, callbacks.cancel) {}

  Schedule run(std::span<const OpId> warm_start) {
    Sequence start(warm_start.begin(), warm_start.end());
    for (Instance stated = instance_;;) {
      const int most = stated.problem().max_computes + 1;
      Instance next = with_computes(stated, most);
      const bool is_last = most > kMostComputes || !allows_more(stated, next);
      cut_.reset();
      if (!take(solve_one(stated, start, is_last ? nullptr : &next)) || is_last || !goes_on()) break;
      if (best_.has_schedule()) start = ops_of(best_);
      const Cut& cut = checkpoints(next);
      const bool is_better = !cut.sequence.empty() && (!best_.has_schedule() || cut.duration < best_.duration);
      if (is_better) start = cut.sequence;
      stated = std::move(next);
    }
    best_.solver.history = std::move(history_);
    best_.solver.seconds = deadline_.elapsed();
    best_.solver.work = work_;
    best_.solver.time_limit = options_.time_limit;
    best_.solver.work_limit = options_.work_limit;
    explain();
    return std::move(best_);
  }

 private:
  /// Of the problem with one compute more, which is always the same until cut_ is reset.
  const Cut& checkpoints(const Instance& next) {
    if (cut_) return *cut_;
    cut_.emplace();
    if (next.problem().order == OrderMode::free || next.has_modes() || !options_.segments) return *cut_;
    const Solution found = start_from_segments(next, [&] { return deadline_.reached(); });
    if (found.peak <= next.budget()) *cut_ = {found.sequence(next), next.baseline_duration() + found.extra};
    return *cut_;
  }

  /// Whether it is the answer so far; false where one compute more has brought nothing.
  bool take(Schedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = found.has_schedule() && (!had_schedule || found.duration < best_.duration);
    if (!pays && had_schedule) return false;
    if (!is_first && pays) reason_ = had_schedule ? "shorter than with fewer" : "with fewer none was found";
    best_ = std::move(found);
    return true;
  }

  /// Whether more computes may hold the budget, or cost less, and limits allow to look.
  [[nodiscard]] bool goes_on() const {
    const bool is_over = deadline_.reached() || (options_.work_limit > 0 && work_ >= options_.work_limit);
    if (is_over || caller_has_enough_) return false;
    if (!best_.has_schedule()) return !best_.certificate;
    return is_tired_ || (best_.status == Status::optimal && best_.duration > best_.baseline_duration);
  }

  /// One problem's solve, within what is left. `next`: what comes after this; null for nothing.
  Schedule solve_one(const Instance& stated, std::span<const OpId> start, const Instance* next) {
    const bool had_schedule = best_.has_schedule();
    const bool after_proof = had_schedule && !std::exchange(is_tired_, false);
    const double begun = deadline_.elapsed();
    const std::int64_t worked = work_;
    SolveOptions options = options_;
    options.time_limit = std::max(0.0, (after_proof ? kPartAfterProof * begun : options_.time_limit - begun));
    options.time_limit = std::min(options.time_limit, std::max(0.0, options_.time_limit - begun));
    if (options.work_limit > 0) {
      const std::int64_t left = options_.work_limit - work_;
      const std::int64_t some = part_of(Work(work_), kPartAfterProof).count();
      options.work_limit = std::max<std::int64_t>(1, after_proof ? std::min(left, some) : left);
    }
    const auto is_later_than = [&](const Progress& now, double seconds, double part) {
      if (options_.work_limit > 0) return now.work > part_of(Work(options_.work_limit), part).count();
      return now.seconds > std::min(seconds, part * options_.time_limit);
    };
    SolveCallbacks callbacks = callbacks_;
    // Who listens hears of one solve: its seconds and work go on, and what is not better than before is no news.
    const auto as_one = [&](Progress now) {
      now.seconds += begun;
      now.work += worked;
      return now;
    };
    if (callbacks_.progress) {
      callbacks.progress = [&](const Progress& now) {
        if (!had_schedule || now.event == Event::schedule) callbacks_.progress(as_one(now));
      };
    }
    if (callbacks_.heartbeat) callbacks.heartbeat = [&](const Progress& now) { callbacks_.heartbeat(as_one(now)); };
    if (callbacks_.incumbent) {
      callbacks.incumbent = [&](const Schedule& schedule) {
        if (!had_schedule || schedule.duration < best_.duration) callbacks_.incumbent(schedule);
      };
    }
    callbacks.enough = [&](const Progress& now) {
      caller_has_enough_ = caller_has_enough_ || (callbacks_.enough && callbacks_.enough(as_one(now)));
      if (next == nullptr || !is_later_than(now, kSecondsOfDoubt, kPartOfDoubt)) return caller_has_enough_;
      const bool has_none = now.peak > stated.budget();
      const Cut& cut = checkpoints(*next);
      is_tired_ = (has_none && is_later_than(now, kNoTimeLimit, kPatience)) ||
                  (!cut.sequence.empty() && (has_none || cut.duration < now.duration));
      return caller_has_enough_ || is_tired_;
    };
    Schedule schedule = solve(stated, options, callbacks, start);
    work_ += schedule.solver.work;
    for (Incumbent step : schedule.solver.history) {
      step.seconds += begun;
      if (!had_schedule || step.duration < best_.duration) history_.push_back(std::move(step));
    }
    return schedule;
  }

  void explain() {
    if (reason_.empty()) return;
    std::string& note = best_.solver.note;
    note = "up to " + std::to_string(best_.solver.max_computes) + " computes an op: " + reason_ +
           (note.empty() ? "" : "; ") + note;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const SolveCallbacks& callbacks_;
  Deadline deadline_;
  Schedule best_{};
  std::optional<Cut> cut_{};
  std::vector<Incumbent> history_{};
  std::int64_t work_ = 0;
  bool caller_has_enough_ = false;
  /// The last solve was ended for what comes next.
  bool is_tired_ = false;
  std::string reason_{};
};

}  // namespace

Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                  const SolveCallbacks& callbacks, std::span<const OpId> warm_start) {
  if (!is_search(options.strategy)) return solve(instance, options, callbacks, warm_start);
  return ComputesChoice(instance, options, callbacks).run(warm_start);
}

}  // namespace remora
