// SPDX-License-Identifier: Apache-2.0
#include "engine/computes_choice.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/addresses.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/work.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "engine/solve.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// More computes than these were never seen to pay where fewer did not.
constexpr int kMostComputes = 8;
/// Of the limits, for each problem but the last: where there is no schedule, or checkpoints of one compute more are better.
constexpr double kPatience = 0.25;
/// A search gets so long before checkpoints of one compute more are looked for.
constexpr double kSecondsOfDoubt = 0.6;
constexpr double kPartOfDoubt = 0.05;
/// Of what a proof has taken: for the same with one compute more.
constexpr double kPartAfterProof = 0.25;
/// The literature's methods may ask for as many, within such a part of what is left.
constexpr int kMostOfMethods = static_cast<int>(kComputesWithin64Bits);
constexpr double kPartOfMethods = 0.2;
/// Under a work limit, which they do not count, of so many ops at most.
constexpr int kMostOpsOfMethods = 5'000;
constexpr const char* kShorter = "shorter than with fewer";
constexpr const char* kHolds = "with fewer none was found";

Instance with_computes(const Instance& instance, int most) {
  Problem problem = instance.problem();
  problem.max_computes = most;
  return {instance.shared_graph(), problem, instance.shared_modes()};
}

/// Whether any op may run more often in b than in a.
bool allows_more(const Instance& a, const Instance& b) {
  return std::any_of(a.ops().begin(), a.ops().end(), [&](OpId op) { return a.max_computes(op) < b.max_computes(op); });
}

/// The instance, or with as many computes an op as the start needs to hold the budget.
Instance begin_with(const Instance& instance, const Sequence& start) {
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 0);
  int most = 0;
  for (const OpId op : start) {
    if (!op.valid() || op >= instance.op_count()) return instance;  // solve() refuses it
    most = std::max(most, ++computes[op.index()]);
  }
  if (most <= instance.problem().max_computes || most > kMostOfMethods || instance.has_modes()) return instance;
  Instance wider = with_computes(instance, most);
  const bool holds = is_permitted(wider, start) && evaluate(wider, start).peak <= wider.budget();
  return holds ? wider : instance;
}

bool is_better(const Schedule& one, const Schedule& other) {
  return one.has_schedule() && (!other.has_schedule() || one.duration < other.duration);
}

class ComputesChoice {
 public:
  ComputesChoice(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                 std::optional<Bytes> alignment)
      : instance_(instance),
        options_(options),
        callbacks_(callbacks),
        alignment_(alignment),
        deadline_(options.time_limit, callbacks.cancel) {}

  Schedule run(std::span<const OpId> warm_start) {
    Sequence start(warm_start.begin(), warm_start.end());
    for (Instance stated = begin_with(instance_, start);;) {
      const int most = stated.problem().max_computes + 1;
      Instance next = with_computes(stated, most);
      const bool is_last = most > kMostComputes || !allows_more(stated, next);
      cut_.reset();
      if (!take(solve_one(stated, start, is_last ? nullptr : &next)) || is_last || !goes_on()) break;
      if (best_.has_schedule()) start = ops_of(best_);
      const Schedule& cut = checkpoints(next);
      if (is_better(cut, best_)) start = ops_of(cut);
      stated = std::move(next);
      // Where it is proved that there is none, one compute more at a time finds the fewest.
      if (best_.status != Status::unknown || cut.has_schedule()) continue;
      Sequence found = by_methods();
      if (found.empty()) continue;
      start = std::move(found);
      stated = begin_with(stated, start);
    }
    if (cut_ && is_better(*cut_, best_)) take_checkpoints();
    best_.solver.history = std::move(history_);
    best_.solver.seconds = deadline_.elapsed();
    best_.solver.work = work_;
    best_.solver.time_limit = options_.time_limit;
    best_.solver.work_limit = options_.work_limit;
    best_.solver.options = describe_options(options_);
    best_.solver.stop = reason_to_stop();
    explain();
    return std::move(best_);
  }

 private:
  /// What the literature's methods find where the search has found nothing; asked once.
  Sequence by_methods() {
    if (std::exchange(has_asked_methods_, true) || instance_.has_modes() || alignment_) return {};
    if (options_.work_limit > 0 && instance_.op_count() > kMostOpsOfMethods) return {};
    const Instance often = with_computes(instance_, std::max(kMostOfMethods, instance_.problem().max_computes));
    Schedule best;
    for (const Strategy strategy : {Strategy::rotor, Strategy::greedy}) {
      SolveOptions options = options_;
      options.strategy = strategy;
      options.work_limit = 0;
      if (options_.work_limit == 0) {
        options.time_limit = std::max(0.0, options_.time_limit - deadline_.elapsed()) * kPartOfMethods;
      }
      Schedule found = solve(often, options, {.cancel = callbacks_.cancel});
      if (is_better(found, best)) best = std::move(found);
    }
    return best.has_schedule() ? ops_of(best) : Sequence{};
  }

  /// Of the problem with one compute more, between segments: the same until cut_ is reset. Without steps if they take more
  /// than the budget.
  const Schedule& checkpoints(const Instance& next) {
    if (cut_) return *cut_;
    cut_.emplace();
    if (next.problem().order == OrderMode::free || next.has_modes() || !options_.segments || alignment_) return *cut_;
    const Solution found = start_from_segments(next, [&] { return deadline_.reached(); });
    if (found.peak > next.budget()) return *cut_;
    *cut_ = describe_problem(next, options_);
    cut_->lower_bound = next.baseline_duration();
    cut_->solver.reached_peak = found.peak;
    write_steps(next, found.computes(next), *cut_);
    return *cut_;
  }

  /// Whether it is the answer so far; false where one compute more has brought nothing.
  bool take(Schedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = is_better(found, best_);
    if (!pays && had_schedule) return false;
    if (!is_first && pays) reason_ = had_schedule ? kShorter : kHolds;
    best_ = std::move(found);
    return true;
  }

  /// Limits were over before one compute more could be solved with, and its checkpoints are the best there is.
  void take_checkpoints() {
    cut_->solver.stop = best_.solver.stop;
    take(std::move(*cut_));
  }

  /// Whether more computes may hold the budget, or cost less, and limits allow to look.
  [[nodiscard]] bool goes_on() const {
    const bool is_over = deadline_.reached() || (options_.work_limit > 0 && work_ >= options_.work_limit);
    if (is_over || caller_has_enough_) return false;
    // What one op needs at once it needs whatever the computes.
    if (!best_.has_schedule()) return least_budget(instance_) <= instance_.budget();
    return is_tired_ || (best_.status == Status::optimal && best_.duration > best_.baseline_duration);
  }

  /// What listeners know: who listens hears of one solve, whose seconds and work go on, and of nothing that is no better.
  struct Told {
    double begun = 0;
    std::int64_t worked = 0;
    Duration best = Duration::max();
  };

  /// `now`, of the solve at hand, as part of the whole; the checkpoints are its incumbent where they are better.
  [[nodiscard]] Progress as_one(Progress now, const Told& told) const {
    now.seconds += told.begun;
    now.work += told.worked;
    if (!announced_ || (now.peak <= instance_.budget() && now.duration <= announced_->duration)) return now;
    now.phase = 2;
    now.duration = announced_->duration;
    now.peak = announced_->peak;
    now.lower_bound = std::min(now.lower_bound, now.duration);
    return now;
  }

  /// Tells of checkpoints that are better than what was told of.
  void announce(const Schedule& cut, const Progress& now, Told& told) {
    if (cut.duration >= told.best) return;
    told.best = cut.duration;
    announced_ = {deadline_.elapsed(), cut.duration, cut.peak_memory, source_name(Source::segments)};
    if (callbacks_.incumbent) callbacks_.incumbent(cut);
    if (!callbacks_.progress) return;
    Progress news = as_one(now, told);
    news.event = Event::schedule;
    news.source = Source::segments;
    callbacks_.progress(news);
  }

  [[nodiscard]] bool is_later_than(const Progress& now, double seconds, double part) const {
    if (options_.work_limit > 0) return now.work > part_of(Work(options_.work_limit), part).count();
    return now.seconds > std::min(seconds, part * options_.time_limit);
  }

  /// Whether one compute more is worth more than what this problem's solve has still to say.
  [[nodiscard]] bool is_tired(const Instance& next, const Progress& now, Told& told) {
    if (!is_later_than(now, kSecondsOfDoubt, kPartOfDoubt)) return false;
    const Schedule& cut = checkpoints(next);
    const bool has_none = now.peak > instance_.budget();
    const bool cut_is_better = cut.has_schedule() && (has_none || cut.duration < now.duration);
    if (cut_is_better) announce(cut, now, told);
    if (cut_is_better && now.lower_bound >= cut.duration) return true;
    return (has_none || cut_is_better) && is_later_than(now, kNoTimeLimit, kPatience);
  }

  /// `after_proof`: the problem before is solved.
  [[nodiscard]] SolveOptions limits_of_next(bool after_proof) const {
    const double spent = deadline_.elapsed();
    SolveOptions options = options_;
    options.time_limit = std::max(0.0, options_.time_limit - spent);
    // Under a work limit nothing may depend on time.
    if (after_proof && options_.work_limit == 0) {
      options.time_limit = std::min(options.time_limit, kPartAfterProof * spent);
    }
    if (options.work_limit > 0) {
      const std::int64_t left = options_.work_limit - work_;
      const std::int64_t some = part_of(Work(work_), kPartAfterProof).count();
      options.work_limit = std::max<std::int64_t>(1, after_proof ? std::min(left, some) : left);
    }
    return options;
  }

  /// The caller's callbacks, as if there were one solve.
  SolveCallbacks callbacks_of(const Told& told) {
    SolveCallbacks callbacks = callbacks_;
    const auto is_news = [this, &told](Bytes peak, Duration duration) {
      return told.best == Duration::max() || (peak <= instance_.budget() && duration < told.best);
    };
    if (callbacks_.progress) {
      callbacks.progress = [=, this, &told](const Progress& now) {
        const bool tells = told.best == Duration::max() || now.event == Event::schedule;
        if (tells && is_news(now.peak, now.duration)) callbacks_.progress(as_one(now, told));
      };
    }
    if (callbacks_.heartbeat) {
      callbacks.heartbeat = [this, &told](const Progress& now) { callbacks_.heartbeat(as_one(now, told)); };
    }
    if (callbacks_.incumbent) {
      callbacks.incumbent = [=, this](const Schedule& schedule) {
        if (is_news(schedule.peak_memory, schedule.duration)) callbacks_.incumbent(schedule);
      };
    }
    return callbacks;
  }

  /// One problem's solve, within what is left. `next`: what comes after this; null for nothing.
  Schedule solve_one(const Instance& stated, std::span<const OpId> start, const Instance* next) {
    const bool had_schedule = best_.has_schedule();
    const SolveOptions options = limits_of_next(had_schedule && !std::exchange(is_tired_, false));
    is_tired_ = false;
    Told told{.begun = deadline_.elapsed(), .worked = work_};
    if (had_schedule) told.best = best_.duration;
    if (announced_) told.best = std::min(told.best, announced_->duration);
    SolveCallbacks callbacks = callbacks_of(told);
    callbacks.enough = [&](const Progress& now) {
      caller_has_enough_ = caller_has_enough_ || (callbacks_.enough && callbacks_.enough(as_one(now, told)));
      is_tired_ = is_tired_ || (next != nullptr && is_tired(*next, now, told));
      return caller_has_enough_ || is_tired_;
    };
    Schedule schedule = alignment_ ? solve_with_addresses(stated, options, *alignment_, callbacks, start)
                                   : solve(stated, options, callbacks, start);
    work_ += schedule.solver.work;
    record(schedule.solver.history, told.begun);
    return schedule;
  }

  /// Goes on with the history: what is better than all before.
  void record(std::vector<Incumbent> steps, double begun) {
    for (Incumbent& step : steps) step.seconds += begun;
    if (announced_) steps.push_back(*announced_);
    std::ranges::stable_sort(steps, {}, &Incumbent::seconds);
    const auto holds = [&](const Incumbent& step) { return step.peak <= instance_.budget(); };
    for (Incumbent& step : steps) {
      const bool had_none = history_.empty() || !holds(history_.back());
      const bool is_news = history_.empty() || (had_none ? step.peak < history_.back().peak || holds(step)
                                                         : holds(step) && step.duration < history_.back().duration);
      if (is_news) history_.push_back(std::move(step));
    }
  }

  /// Of the whole: what ended one problem's solve may have been its share of the limits, or what came next.
  [[nodiscard]] Stop reason_to_stop() const {
    const Stop stop = best_.solver.stop;
    const bool is_share = (stop == Stop::time && !deadline_.reached()) ||
                          (stop == Stop::work && work_ < options_.work_limit) ||
                          (stop == Stop::callback && !caller_has_enough_);
    if (!is_share) return stop;
    if (deadline_.cancelled()) return Stop::cancelled;
    return deadline_.reached() ? Stop::time : Stop::exhausted;
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
  std::optional<Bytes> alignment_;
  Deadline deadline_;
  Schedule best_{};
  std::optional<Schedule> cut_{};
  /// The last checkpoints that listeners were told of.
  std::optional<Incumbent> announced_{};
  std::vector<Incumbent> history_{};
  std::int64_t work_ = 0;
  bool caller_has_enough_ = false;
  bool has_asked_methods_ = false;
  /// The last solve was ended for what comes next.
  bool is_tired_ = false;
  std::string reason_{};
};

}  // namespace

Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                  const SolveCallbacks& callbacks, std::span<const OpId> warm_start,
                                  std::optional<Bytes> alignment) {
  if (is_search(options.strategy)) return ComputesChoice(instance, options, callbacks, alignment).run(warm_start);
  return alignment ? solve_with_addresses(instance, options, *alignment, callbacks, warm_start)
                   : solve(instance, options, callbacks, warm_start);
}

BudgetBracket bracket_with_more_computes(const Instance& instance, const SolveOptions& options,
                                         const std::atomic<bool>* cancel) {
  constexpr double kPartOfRest = 0.5;
  const Deadline deadline(options.time_limit, cancel);
  BudgetBracket best;
  for (Instance stated = instance;;) {
    const int most = stated.problem().max_computes + 1;
    Instance next = with_computes(stated, most);
    const bool is_last = most > kMostComputes || !allows_more(stated, next);
    SolveOptions some = options;
    some.time_limit = std::max(0.0, options.time_limit - deadline.elapsed()) * (is_last ? 1 : kPartOfRest);
    BudgetBracket found = bracket_min_budget(stated, some, cancel, best.sequence);
    const bool pays = best.max_computes == 0 || found.reached < best.reached;
    if (pays) best = std::move(found);
    if (!pays || is_last || deadline.reached() || best.reached <= least_budget(instance)) return best;
    stated = std::move(next);
  }
}

}  // namespace remora
