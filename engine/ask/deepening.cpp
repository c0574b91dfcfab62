// SPDX-License-Identifier: Apache-2.0
//
// How often an op may run, if the request leaves that to the engine: iterative deepening over the number of runs. With
// two runs per op the relaxations are strongest and proofs are near; at tight budgets, above all on deep networks, only
// more runs fit within the budget, or are faster. So the problem with two comes first, and the next ones allow one more
// each
//
//     if it is proved that there is no schedule, or none was found in a quarter or half of what is left of the limits
//     if checkpoints between segments (docs/design/search.md), which take milliseconds, are better with one more, and
//     the problem at hand has had a quarter of what was left, or is proved to have nothing better
//
// (or as many more as those checkpoints need). If the best schedule is proved for a number of runs, or is not after a
// quarter of the limits and more runs could shorten it, the search goes on with as many as may shorten it, concurrently
// with a proof for any number (engine/ask/any_number.hpp). The bound that is reported holds for any number of runs from
// the beginning. Declared in engine/ask/problem.hpp.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/any_number.hpp"
#include "engine/ask/combined_progress.hpp"
#include "engine/ask/constructed.hpp"
#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The part of the remaining limits for each problem but the last; the longer one if nothing was constructed, after the
/// first problem or if groups may give a schedule.
constexpr double kShareBeforeMore = 0.25;
constexpr double kLongerShareBeforeMore = 0.5;
/// After this time, or part of the limits, checkpoints with one more run are constructed.
constexpr double kSecondsOfDoubt = 0.6;
constexpr double kPartOfDoubt = 0.05;
constexpr const char* kShorter = "shorter than with fewer";
constexpr const char* kHolds = "with fewer none was found";

/// The covering relaxation's bound for any number of runs, beyond the baseline; before any search.
Duration cheap_bound_for_any(const Instance& instance, SolveOptions options, const Deadline& deadline) {
  options.covering = std::min(options.covering, Covering::lp);
  const FirstBound bound = find_first_bound(with_computes(instance, kMaxConstructedComputes), options, deadline);
  return bound.infeasible ? Duration(0) : bound.lower_bound;
}

class Deepening {
 public:
  Deepening(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
            std::optional<Bytes> alignment)
      : instance_(instance),
        options_(options),
        callbacks_(callbacks),
        alignment_(alignment),
        allowance_(limits_of(options), callbacks.cancel),
        combined_(instance.budget(), callbacks_, allowance_, [this] { return bound_for_any(); }),
        constructed_(instance, options, allowance_, !alignment),
        any_(std::in_place, instance, Duration::max(), cheap_bound_for_any(instance, options, allowance_.deadline())) {}

  /// One problem after the other, each with one more run per op, until more cannot help or the limits are over.
  Schedule run(std::span<const Compute> warm_start) {
    std::vector<Compute> start(warm_start.begin(), warm_start.end());
    Instance stated = with_computes_of(instance_, start);
    bool is_open = false;  // no schedule yet, and more runs per op may have one
    for (;;) {
      const int most = stated.problem().max_computes + 1;
      Instance next = with_computes(stated, most);
      const bool has_next = most <= kMaxComputes && allows_more(stated, next);
      constructed_.begin_problem();
      // The first problem is proved together with the one for any number, if there is anything to prove.
      const bool proves_both =
          is_first() && !alignment_ && options_.period_bound && baseline_peak(stated) > stated.budget();
      Solved solved =
          solve_one(stated, start, has_next ? &next : nullptr,
                    proves_both ? any_->steps_before(stated, allowance_.limits().time_to_spare()) : Prover::Step{});
      const bool improved = update(stated, std::move(solved.schedule));

      if (best_.has_schedule() && (solved.ended == Ended::for_many || is_near(best_.lower_bound))) {
        search_with_many(stated);
        break;
      }
      // What a single op needs does not depend on the number of runs.
      const bool may_help = best_.has_schedule() ? solved.ended == Ended::for_one_more && !allowance_.is_over()
                                                 : least_budget(instance_) <= instance_.budget();
      is_open = !best_.has_schedule() && may_help && has_next;
      if (!has_next || stopped_by_caller_ || !may_help) break;

      const ConstructedSchedule& constructed = constructed_.best_for(next, !best_.has_schedule());
      if (allowance_.is_over()) break;
      if (best_.has_schedule()) start = computes_of(best_);
      // If it is proved that there is no schedule, one more run at a time finds the fewest that have one.
      const bool begins_there =
          !improved || constructed.schedule.solver.max_computes <= most || best_.status == Status::unknown;
      if (is_better(constructed.schedule, best_) && begins_there) {
        announce(constructed);
        start = computes_of(constructed.schedule);
      }
      stated = with_computes_of(next, start);
    }
    if (is_open && best_.status == Status::infeasible) best_.status = Status::unknown;
    // The limits may be over before the problem of the best schedule could be solved.
    if (is_better(constructed_.best().schedule, best_)) {
      announce(constructed_.best());
      update(instance_, Schedule(constructed_.best().schedule));
    }
    conclude();
    SolverReport& report = best_.solver;
    report.history = combined_.history();
    report.seconds = allowance_.elapsed();
    report.work = allowance_.spent().count();
    report.time_limit = options_.time_limit;
    report.work_limit = options_.work_limit;
    report.options = describe_options(options_);
    if (reason_ != nullptr) {
      report.note = "up to " + std::to_string(report.max_computes) + " runs per op: " + reason_ +
                    (report.note.empty() ? "" : "; ") + report.note;
    }
    return std::move(best_);
  }

  /// Continues from a schedule found with the instance's number of runs.
  Schedule run_beyond(Schedule known) {
    const std::int64_t worked = known.solver.work;
    update(instance_, std::move(known));
    search_with_many(instance_);
    conclude();
    best_.solver.work = worked + allowance_.spent().count();
    return std::move(best_);
  }

 private:
  /// Why a problem's solve ended.
  enum class Ended {
    by_itself,     ///< it was solved, the limits were over, or the caller stopped it
    for_one_more,  ///< one more run per op is more useful
    for_many,      ///< as many runs per op as may shorten the schedule are more useful
  };
  struct Solved {
    Schedule schedule{};
    Ended ended = Ended::by_itself;
  };

  /// Searches with as many runs per op as a schedule better than the best one may need, starting from the best one,
  /// which was found in the problem `stated`, until it is proved for any number of runs.
  void search_with_many(Instance stated) {
    const auto may_be_improved = [&] {
      return !stopped_by_caller_ && !allowance_.is_over() && !is_near(bound_for_any()) &&
             needs_more(stated, best_.duration - best_.baseline_duration);
    };
    const int first = std::max(stated.problem().max_computes, kMaxComputes);
    for (int most = first; most <= kMaxConstructedComputes && may_be_improved(); most *= 2) {
      Instance wider = with_computes(instance_, most);
      constructed_.begin_problem();
      const ConstructedSchedule& constructed = constructed_.best_for(wider, false);
      const bool has_start = is_better(constructed.schedule, best_);
      if (has_start) announce(constructed);
      const Schedule& start = has_start ? constructed.schedule : best_;
      // The better the schedule, the more the proof for any number can rule out.
      const Duration extra = start.duration - start.baseline_duration;
      const Duration bound = any_->bound();
      if (extra < any_->extra()) any_.emplace(instance_, extra, bound);
      Schedule found =
          solve_one(wider, computes_of(start), nullptr, any_->steps(allowance_.limits().time_to_spare())).schedule;
      const bool is_proved = found.status == Status::optimal || found.solver.stop == Stop::gap;
      found.solver.max_computes = with_computes_of(instance_, computes_of(found)).problem().max_computes;
      update(wider, std::move(found));
      if (!is_proved) break;
      stated = std::move(wider);
    }
  }

  /// Solves one problem within all that is left of the limits, or until `next` (null for none) is more useful.
  Solved solve_one(const Instance& stated, std::span<const Compute> start, const Instance* next, Prover::Step proof) {
    Solved solved;
    const Limits limits = allowance_.left();
    combined_.begin(best_.has_schedule() ? best_.duration : Duration::max());
    SolveCallbacks callbacks = combined_.callbacks();
    callbacks.enough = [&](const Progress& now) {
      stopped_by_caller_ = stopped_by_caller_ || (callbacks_.enough && callbacks_.enough(combined_.reported(now)));
      if (next != nullptr && solved.ended == Ended::by_itself) solved.ended = more_useful(stated, *next, limits, now);
      return stopped_by_caller_ || solved.ended != Ended::by_itself;
    };
    const SolveOptions options = within(options_, limits);
    solved.schedule = alignment_
                          ? solve_with_addresses(stated, options, *alignment_, callbacks, start, std::move(proof))
                          : solve(stated, options, callbacks, start, std::move(proof));
    allowance_.spend(Work(solved.schedule.solver.work));
    combined_.record(solved.schedule.solver.history);
    stop_ = solved.schedule.solver.stop;
    return solved;
  }

  /// Asked while a problem is solved, which may use these limits: is something else more useful than the rest of its
  /// solve? Constructs schedules with one more run, and reports one that is better.
  Ended more_useful(const Instance& stated, const Instance& next, const Limits& limits, const Progress& now) {
    const auto is_later_than = [&](double seconds, double part) {
      return limits.clock(now.seconds, Work(now.work)) > std::min(seconds, limits.part(part).on_clock());
    };
    const bool has_none = now.peak > instance_.budget();
    const bool is_in_doubt = is_later_than(kSecondsOfDoubt, kPartOfDoubt);
    if (!has_none && !is_in_doubt) return Ended::by_itself;
    const ConstructedSchedule& constructed = constructed_.best_for(next, has_none);
    const Schedule& other = constructed.schedule;
    const bool is_improved = other.has_schedule() && (has_none || other.duration < now.duration);
    if (is_improved) combined_.announce(other, constructed.source, now, !best_.has_schedule());
    // One that is as short with fewer runs is preferred, and has until then to be found.
    if (is_improved && now.lower_bound >= other.duration && (is_in_doubt || now.lower_bound > other.duration))
      return Ended::for_one_more;
    const bool waits =
        !other.has_schedule() && (combined_.worked_before() > Work(0) || wants_groups(instance_, options_));
    if (!is_later_than(kNoTimeLimit, waits ? kLongerShareBeforeMore : kShareBeforeMore)) return Ended::by_itself;
    if (has_none || is_improved) return Ended::for_one_more;
    // Only in the staged form do more runs make a problem no larger.
    const bool is_staged = has_plans(stated) && !alignment_;
    const bool may_be_shorter =
        is_staged && bound_for_any() < now.duration && needs_more(stated, now.duration - stated.baseline_duration());
    return may_be_shorter ? Ended::for_many : Ended::by_itself;
  }

  /// Takes the answer to the problem `stated` if it is better than the best one; its bound, which holds for fewer runs,
  /// too, raises that of the best one, and the one for any number of runs if no shorter schedule needs more. Returns
  /// false if there was a schedule that is as good.
  bool update(const Instance& stated, Schedule found) {
    const bool was_first = is_first();
    const bool had_schedule = best_.has_schedule();
    const bool is_shorter = is_better(found, best_);
    const Duration bound = found.status == Status::infeasible ? Duration(0) : found.lower_bound;
    if (is_shorter || !had_schedule) {
      const bool is_wider = found.solver.max_computes > best_.solver.max_computes;
      if (is_shorter && !was_first && is_wider) reason_ = had_schedule ? kShorter : kHolds;
      best_ = std::move(found);
    }
    if (best_.has_schedule()) {
      // The bound of the best schedule may be one for fewer runs than `stated` allows, so that it says nothing of
      // those.
      const Duration proved = std::min(bound, best_.duration);
      best_.lower_bound = std::max(best_.lower_bound, proved);
      if (best_.lower_bound == best_.duration) best_.status = Status::optimal;
      if (proved == best_.duration) proved_for_ = std::max(proved_for_, stated.problem().max_computes);
      if (!needs_more(stated, best_.duration - best_.baseline_duration))
        bound_for_any_ = std::max(bound_for_any_, proved);
    }
    return is_shorter || !had_schedule;
  }

  /// Reports a constructed schedule between the solves of two problems.
  void announce(const ConstructedSchedule& constructed) {
    combined_.begin(Duration::max());
    combined_.announce(constructed.schedule, constructed.source, {.peak = Bytes::max()}, !best_.has_schedule());
    combined_.record({});
  }

  /// Completes the answer: bound and status for any number of runs, and why the whole solve stopped, which may differ
  /// from why the last problem's solve did.
  void conclude() {
    if (best_.status != Status::infeasible) {
      const bool is_optimal = best_.status == Status::optimal;
      best_.lower_bound = bound_for_any();
      best_.solver.bound_for_any_number = true;
      if (best_.has_schedule()) {
        best_.lower_bound = std::min(best_.lower_bound, best_.duration);
        const bool is_proved = best_.lower_bound == best_.duration;
        best_.status = is_proved ? Status::optimal : Status::feasible;
        best_.solver.optimal_for_max_computes = is_proved ? kAnyNumber : is_optimal ? proved_for_ : 0;
      }
    }
    const bool was_for_more = stop_ == Stop::unknown || stop_ == Stop::gap || stop_ == Stop::optimum ||
                              stop_ == Stop::infeasible || (stop_ == Stop::callback && !stopped_by_caller_);
    Stop& stop = best_.solver.stop;
    if (best_.status == Status::optimal) {
      stop = Stop::optimum;
    } else if (best_.status == Status::infeasible) {
      stop = Stop::infeasible;
    } else if (best_.has_schedule() && is_near(best_.lower_bound)) {
      stop = Stop::gap;
    } else if (!was_for_more) {
      stop = stop_;
    } else if (allowance_.deadline().cancelled()) {
      stop = Stop::cancelled;
    } else if (stopped_by_caller_) {
      stop = Stop::callback;
    } else if (allowance_.deadline().reached()) {
      stop = Stop::time;
    } else {
      stop = allowance_.is_over() ? Stop::work : Stop::exhausted;
    }
    combined_.close(best_);
  }

  /// True until the first problem has been solved.
  [[nodiscard]] bool is_first() const { return best_.solver.max_computes == 0; }

  /// No schedule with any number of runs takes less, as far as is proved.
  [[nodiscard]] Duration bound_for_any() const {
    return std::max(bound_for_any_, instance_.baseline_duration() + any_->bound());
  }

  /// True if the best schedule is as close to the bound as the caller asked.
  [[nodiscard]] bool is_near(Duration bound) const {
    const auto duration = static_cast<double>(best_.duration.count());
    return static_cast<double>((best_.duration - bound).count()) <= options_.gap * duration;
  }

  /// True if a schedule with less than `extra` beyond the baseline may need more runs than the problem allows.
  [[nodiscard]] bool needs_more(const Instance& stated, Duration extra) const {
    return extra > Duration(0) && !AnyNumber(instance_, extra).is_within(stated);
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const SolveCallbacks& callbacks_;
  std::optional<Bytes> alignment_;
  Allowance allowance_;
  CombinedProgress combined_;
  Constructed constructed_;
  /// The best answer so far, the number of runs for which it is proved, and why it has more runs than the first one.
  Schedule best_{};
  int proved_for_ = 0;
  const char* reason_ = nullptr;
  /// The proof for any number of runs, and the bound by solves that allow as many runs as a shorter schedule may need.
  std::optional<AnyNumber> any_{};
  Duration bound_for_any_{};
  Stop stop_ = Stop::unknown;  // of the last solve
  bool stopped_by_caller_ = false;
};

}  // namespace

Instance with_computes(const Instance& instance, int most) {
  Problem problem = instance.problem();
  problem.max_computes = most;
  return instance.with_problem(problem);
}

bool allows_more(const Instance& a, const Instance& b) {
  return std::any_of(a.ops().begin(), a.ops().end(), [&](OpId op) { return a.max_computes(op) < b.max_computes(op); });
}

Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                  const SolveCallbacks& callbacks, std::span<const Compute> warm_start,
                                  std::optional<Bytes> alignment) {
  if (is_search(options.strategy)) return Deepening(instance, options, callbacks, alignment).run(warm_start);
  return alignment ? solve_with_addresses(instance, options, *alignment, callbacks, warm_start)
                   : solve(instance, options, callbacks, warm_start);
}

Schedule solve_beyond(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                      Schedule known) {
  return Deepening(instance, options, callbacks, {}).run_beyond(std::move(known));
}

}  // namespace remora
