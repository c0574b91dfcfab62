// SPDX-License-Identifier: Apache-2.0
//
// How often an op may run, where that is left to the engine. With two computes an op the relaxations say most and proofs
// are near; at tight budgets, on deep networks above all, only more computes hold the budget, or are shorter. So the problem
// with two comes first, and one more at a time is allowed
//
//     where it is proved that there is no schedule, or none was found in a quarter or half of what is left of the limits
//     where checkpoints between segments (docs/design/search.md), which take milliseconds, are better with one more, and two have
//     been given a quarter of what was left, or are proved to be worse; they are the answer until something better is found
//
// as long as that brings something. Where the best schedule is proved for a number of computes, or is not after a quarter of the limits and
// more computes could give a shorter one, the search goes on with as many as may pay, alongside a proof for any number
// (engine/ask/any_number.hpp). What holds for any number is known from the beginning: it is the bound that is reported meanwhile, and the
// answer's.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/any_number.hpp"
#include "engine/ask/combined_progress.hpp"
#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The part of the remaining limits for each problem but the last; the longer one without a fallback, after the first
/// problem or if groups may give one.
constexpr double kShareBeforeMore = 0.25;
constexpr double kLongerShareBeforeMore = 0.5;
constexpr double kSecondsOfDoubt = 0.6;  // then checkpoints of one compute more are looked for
constexpr double kPartOfDoubt = 0.05;
/// The maximum runs of constructed schedules, and the part of the remaining time for constructing them.
constexpr int kMaxConstructedComputes = static_cast<int>(kComputesWithin64Bits);
constexpr double kPartOfConstruction = 0.2;
constexpr const char* kShorter = "shorter than with fewer";
constexpr const char* kHolds = "with fewer none was found";

/// The instance, or with as many computes an op as the start needs to hold the budget.
Instance begin_with(const Instance& instance, const Sequence& start) {
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 0);
  int most = 0;
  for (const OpId op : start) {
    if (!op.valid() || op >= instance.op_count()) return instance;  // solve() refuses it
    most = std::max(most, ++computes[op.index()]);
  }
  if (most <= instance.problem().max_computes || most > kMaxConstructedComputes || instance.has_modes())
    return instance;
  Instance wider = with_computes(instance, most);
  const bool holds = is_permitted(wider, start) && evaluate(wider, start).peak <= wider.budget();
  return holds ? wider : instance;
}

bool is_better(const Schedule& one, const Schedule& other) {
  return one.has_schedule() && (!other.has_schedule() || one.duration < other.duration);
}

/// One problem after the other, each with a compute more.
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
        any_(std::in_place, instance, Duration::max(), cheap_bound_for_any()) {}

  /// Continues from a schedule found with the instance's number of runs.
  Schedule run_beyond(Schedule known) {
    const std::int64_t worked = known.solver.work;
    best_ = std::move(known);
    learn_bound(instance_, best_.lower_bound);
    look_beyond(instance_);
    conclude();
    best_.solver.work = worked + allowance_.spent().count();
    return std::move(best_);
  }

  Schedule run(std::span<const OpId> warm_start) {
    Sequence start(warm_start.begin(), warm_start.end());
    for (Instance stated = begin_with(instance_, start);;) {
      const int most = stated.problem().max_computes + 1;
      Instance next = with_computes(stated, most);
      const bool is_last = most > kMaxComputes || !allows_more(stated, next);
      cut_.reset();
      const bool is_first = best_.solver.max_computes == 0;
      // Where there is something to prove; under a work limit what is not asked for is not done.
      const bool proves_both = is_first && !alignment_ && !allowance_.counts_work() && options_.period_bound &&
                               baseline_peak(stated) > stated.budget();
      Prover::Step proof = proves_both ? any_->steps_before(stated) : Prover::Step{};
      const bool pays = take(stated, solve_one(stated, start, is_last ? nullptr : &next, std::move(proof)));
      if (best_.has_schedule() && (is_open_ || is_near(best_.lower_bound))) {
        look_beyond(stated);
        break;
      }
      if (is_last || !may_pay()) break;
      const Schedule& other = fallback(next, !best_.has_schedule()).schedule;
      if (allowance_.is_over()) break;
      if (best_.has_schedule()) start = ops_of(best_);
      // Where it is proved that there is none, one compute more at a time finds the fewest.
      const bool is_next = !pays || other.solver.max_computes <= most || best_.status == Status::unknown;
      if (is_better(other, best_) && is_next) {
        report_fallback();
        start = ops_of(other);
      }
      stated = begin_with(next, start);
    }
    if (is_better(fallback().schedule, best_)) take_fallback();
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

 private:
  /// Completes the answer: if the number of runs is open, bound and status are for any number.
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
    best_.solver.stop = reason_to_stop();
    combined_.close(best_);
  }

  /// A schedule found in addition to the searches: the answer until one of them has a better one. Without steps if it
  /// exceeds the budget.
  struct Fallback {
    Schedule schedule{};
    Source source = Source::segments;
  };

  [[nodiscard]] const Fallback& fallback() const {
    static const Fallback none;
    const Fallback& cut = cut_ ? *cut_ : none;
    const Fallback& construction = construction_ ? *construction_ : none;
    return is_better(cut.schedule, construction.schedule) ? cut : construction;
  }

  /// The same, once checkpoints of one compute more are asked and, where nothing holds the budget, what takes any number.
  const Fallback& fallback(const Instance& next, bool has_none) {
    const bool applies = next.problem().order == OrderMode::input && !next.has_modes() && !alignment_;
    if (!applies || allowance_.deadline().reached()) return fallback();
    if (!cut_) cut_ = checkpoints(next, allowance_.deadline());
    const bool wants_any = has_none && !fallback().schedule.has_schedule() && !allowance_.deadline().reached();
    if (wants_any && !construction_) construction_ = construct_any();
    return fallback();
  }

  /// Between segments, as many computes as the problem allows.
  [[nodiscard]] Fallback checkpoints(const Instance& instance, const Deadline& deadline) const {
    if (!options_.segments) return {};
    return as_fallback(instance, start_from_segments(instance, [&] { return deadline.reached(); }), Source::segments);
  }

  /// A schedule within the budget with any number of runs: checkpoints, nested segments, or a method from the
  /// literature.
  [[nodiscard]] Fallback construct_any() const {
    const Deadline deadline(allowance_.uncounted_seconds(kPartOfConstruction), callbacks_.cancel);
    const int fewest = instance_.problem().max_computes;
    Fallback nested = checkpoints(with_computes(instance_, std::max(kMaxComputes, fewest)), deadline);
    if (nested.schedule.has_schedule() || deadline.reached()) return nested;
    const Instance often = with_computes(instance_, std::max(kMaxConstructedComputes, fewest));
    const Construction found = construct(often, options_, deadline);
    return found.sequence.empty() ? Fallback{} : as_fallback(often, make_solution(often, found.sequence), found.source);
  }

  /// As an answer to the problem with as many computes as it takes.
  [[nodiscard]] Fallback as_fallback(const Instance& instance, const Solution& found, Source source) const {
    if (found.peak > instance.budget()) return {};
    Schedule schedule = describe_problem(instance, options_);
    schedule.lower_bound = instance.baseline_duration();
    schedule.solver.reached_peak = found.peak;
    write_steps(instance, found.computes(instance), schedule);
    schedule.solver.max_computes = begin_with(instance_, ops_of(schedule)).problem().max_computes;
    return {std::move(schedule), source};
  }

  /// Returns true if it is the answer so far, false if more runs brought no schedule. Proofs for more runs hold for
  /// fewer.
  bool take(const Instance& stated, Schedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = is_better(found, best_) || !had_schedule;
    const Duration bound = found.status == Status::infeasible ? Duration(0) : found.lower_bound;
    if (pays) {
      const bool is_wider = found.solver.max_computes > best_.solver.max_computes;
      if (is_better(found, best_) && !is_first && is_wider) reason_ = had_schedule ? kShorter : kHolds;
      best_ = std::move(found);
    }
    learn_bound(stated, bound);
    return pays;
  }

  /// Raises the bound of the best schedule, and the one for any number of runs if no shorter schedule needs more.
  void learn_bound(const Instance& stated, Duration bound) {
    if (!best_.has_schedule()) return;
    best_.lower_bound = std::max(best_.lower_bound, std::min(bound, best_.duration));
    if (best_.lower_bound == best_.duration) best_.status = Status::optimal;
    if (best_.status == Status::optimal) proved_for_ = stated.problem().max_computes;
    if (holds_for_any(stated)) bound_for_any_ = std::max(bound_for_any_, best_.lower_bound);
  }

  /// Limits were over before its problem could be solved, and this is the best there is.
  void take_fallback() {
    Schedule other = fallback().schedule;
    report_fallback();
    take(instance_, std::move(other));
  }

  /// No schedule with any number of computes is shorter: so far as is proved.
  [[nodiscard]] Duration bound_for_any() const {
    return std::max(bound_for_any_, instance_.baseline_duration() + any_->bound());
  }

  /// The covering relaxation's, before any search, beyond the baseline.
  [[nodiscard]] Duration cheap_bound_for_any() const {
    SolveOptions options = options_;
    options.covering = std::min(options.covering, Covering::lp);
    const FirstBound bound =
        find_first_bound(with_computes(instance_, kMaxConstructedComputes), options, allowance_.deadline());
    return bound.infeasible ? Duration(0) : bound.lower_bound;
  }

  /// The search goes on with more computes from the best schedule, which was searched with those of the problem as it is stated, until it is
  /// proved for any number, or the limits are over.
  void look_beyond(Instance stated) {
    const int first = stated.problem().max_computes;
    for (int most = std::max(first, kMaxComputes); is_open(stated) && most <= kMaxConstructedComputes; most *= 2) {
      Instance wider = with_computes(instance_, most);
      cut_.reset();
      const bool has_start = is_better(fallback(wider, false).schedule, best_);
      if (has_start) report_fallback();
      begin_proof_for_any(has_start ? fallback().schedule : best_);
      Schedule found = solve_one(wider, ops_of(has_start ? fallback().schedule : best_), nullptr, any_->steps());
      const bool is_proved = found.status == Status::optimal || found.solver.stop == Stop::gap;
      if (!wider.has_modes()) found.solver.max_computes = begin_with(instance_, ops_of(found)).problem().max_computes;
      take(wider, std::move(found));
      if (!is_proved) break;
      stated = std::move(wider);
    }
  }

  /// True if the caller wants schedules beyond the stated problem, and there may be some.
  [[nodiscard]] bool is_open(const Instance& stated) const {
    return !caller_has_enough_ && !allowance_.is_over() && !is_near(bound_for_any()) && !holds_for_any(stated);
  }

  /// True if the best schedule is as close to the bound as the caller asked.
  [[nodiscard]] bool is_near(Duration bound) const {
    const auto duration = static_cast<double>(best_.duration.count());
    return static_cast<double>((best_.duration - bound).count()) <= options_.gap * duration;
  }

  /// True if no schedule that is shorter than the best one needs more runs than the instance allows.
  [[nodiscard]] bool holds_for_any(const Instance& stated) const {
    return !needs_more(stated, best_.duration - best_.baseline_duration);
  }

  /// True if a schedule with less than `extra` beyond the baseline may need more runs than the instance allows.
  [[nodiscard]] bool needs_more(const Instance& stated, Duration extra) const {
    return extra > Duration(0) && !AnyNumber(instance_, extra).is_within(stated);
  }

  /// The better the schedule, the more the proof can rule out.
  void begin_proof_for_any(const Schedule& known) {
    const Duration extra = known.duration - known.baseline_duration;
    const Duration bound = any_->bound();
    if (extra < any_->extra()) any_.emplace(instance_, extra, bound);
  }

  /// True if more runs may fit within the budget, or cost less.
  [[nodiscard]] bool may_pay() const {
    if (caller_has_enough_) return false;
    // The needs of a single op do not depend on the number of runs.
    if (!best_.has_schedule()) return least_budget(instance_) <= instance_.budget();
    return !allowance_.is_over() && stopped_early_;
  }

  /// Between two problems' solves.
  void report_fallback() {
    combined_.begin(Duration::max());
    combined_.announce(fallback().schedule, fallback().source, {.peak = Bytes::max()}, !best_.has_schedule());
    combined_.record({});
  }

  [[nodiscard]] bool is_later_than(const Progress& now, double seconds, double part) const {
    if (limits_.counts_work()) return Work(now.work) > limits_.part(part).work;
    return now.seconds > std::min(seconds, limits_.part(part).seconds);
  }

  /// True if one more run per op is more useful than the rest of this problem's solve.
  [[nodiscard]] bool should_stop_early(const Instance& stated, const Instance& next, const Progress& now) {
    const bool has_none = now.peak > instance_.budget();
    if (!has_none && !is_later_than(now, kSecondsOfDoubt, kPartOfDoubt)) return false;
    const Fallback& other = fallback(next, has_none);
    const bool has_fallback = other.schedule.has_schedule();
    const bool is_beaten = has_fallback && (has_none || other.schedule.duration < now.duration);
    if (is_beaten) combined_.announce(other.schedule, other.source, now, !best_.has_schedule());
    if (is_beaten && now.lower_bound >= other.schedule.duration) return true;
    const bool waits = !has_fallback && (combined_.worked_before() > Work(0) || wants_groups(instance_, options_));
    if (!is_later_than(now, kNoTimeLimit, waits ? kLongerShareBeforeMore : kShareBeforeMore)) return false;
    is_open_ = !has_none && !is_beaten && is_open_beyond(stated, now.duration);
    return has_none || is_beaten || is_open_;
  }

  /// True if more runs per op could give a shorter schedule; only for the staged form, where they make a problem no
  /// larger.
  [[nodiscard]] bool is_open_beyond(const Instance& stated, Duration duration) const {
    const bool is_staged = stated.problem().order == OrderMode::input && !stated.has_modes() && !alignment_;
    return is_staged && bound_for_any() < duration && needs_more(stated, duration - stated.baseline_duration());
  }

  /// One problem's solve, in all that is left. `next`: what comes after this; null for nothing.
  Schedule solve_one(const Instance& stated, std::span<const OpId> start, const Instance* next, Prover::Step proof) {
    const bool had_schedule = best_.has_schedule();
    limits_ = allowance_.left();
    const SolveOptions options = within(options_, limits_);
    stopped_early_ = is_open_ = false;
    combined_.begin(had_schedule ? best_.duration : Duration::max());
    SolveCallbacks callbacks = combined_.callbacks();
    callbacks.enough = [&](const Progress& now) {
      caller_has_enough_ = caller_has_enough_ || (callbacks_.enough && callbacks_.enough(combined_.reported(now)));
      stopped_early_ = stopped_early_ || (next != nullptr && should_stop_early(stated, *next, now));
      return caller_has_enough_ || stopped_early_;
    };
    Schedule schedule = alignment_
                            ? solve_with_addresses(stated, options, *alignment_, callbacks, start, std::move(proof))
                            : solve(stated, options, callbacks, start, std::move(proof));
    allowance_.spend(Work(schedule.solver.work));
    combined_.record(schedule.solver.history);
    stop_ = schedule.solver.stop;
    return schedule;
  }

  /// Why the whole solve stopped, which may differ from why the last problem's solve did.
  [[nodiscard]] Stop reason_to_stop() const {
    if (best_.status == Status::optimal) return Stop::optimum;
    if (best_.status == Status::infeasible) return Stop::infeasible;
    if (best_.has_schedule() && is_near(best_.lower_bound)) return Stop::gap;
    const bool is_own = stop_ == Stop::unknown || stop_ == Stop::gap || stop_ == Stop::optimum ||
                        stop_ == Stop::infeasible || (stop_ == Stop::callback && !caller_has_enough_);
    if (!is_own) return stop_;
    if (allowance_.deadline().cancelled()) return Stop::cancelled;
    if (caller_has_enough_) return Stop::callback;
    if (allowance_.deadline().reached()) return Stop::time;
    return allowance_.is_over() ? Stop::work : Stop::exhausted;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const SolveCallbacks& callbacks_;
  std::optional<Bytes> alignment_;
  Allowance allowance_;
  CombinedProgress combined_;
  Schedule best_{};
  /// Checkpoints with one compute more than the problem at hand, and what was constructed with any number; each asked once.
  std::optional<Fallback> cut_{};
  std::optional<Fallback> construction_{};
  /// The proof for any number of runs.
  std::optional<AnyNumber> any_{};
  Duration bound_for_any_{};   // of solves whose computes are as many as a shorter schedule may need
  int proved_for_ = 0;         // computes for which the best schedule is proved, where it is for any
  Limits limits_{};            // of the solve at hand
  Stop stop_ = Stop::unknown;  // of the last solve
  bool caller_has_enough_ = false;
  bool stopped_early_ = false;    // the last solve was ended for what comes next,
  bool is_open_ = false;          // and that is as many computes as may pay
  const char* reason_ = nullptr;  // for more computes than the first
};

}  // namespace

Instance with_computes(const Instance& instance, int most) {
  Problem problem = instance.problem();
  problem.max_computes = most;
  return {instance.shared_graph(), problem, instance.shared_modes()};
}

bool allows_more(const Instance& a, const Instance& b) {
  return std::any_of(a.ops().begin(), a.ops().end(), [&](OpId op) { return a.max_computes(op) < b.max_computes(op); });
}

Schedule solve_with_more_computes(const Instance& instance, const SolveOptions& options,
                                  const SolveCallbacks& callbacks, std::span<const OpId> warm_start,
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
