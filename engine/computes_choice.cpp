// SPDX-License-Identifier: Apache-2.0
#include "engine/computes_choice.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/addresses.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "engine/solve.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Of what is left of the limits, for each problem but the last: where there is no schedule, or checkpoints of one compute
/// more are better. Half after the first, and where nothing stands by but groups may, which take as much as they need.
constexpr double kPatience = 0.25;
constexpr double kLongerPatience = 0.5;
constexpr double kSecondsOfDoubt = 0.6;  // then checkpoints of one compute more are looked for
constexpr double kPartOfDoubt = 0.05;
constexpr double kSecondsAfterProof = 0.5;  // at least, or such a part of the limit
/// What is constructed, where there is no schedule, may take as many, and such a part of what is left of the time.
constexpr int kMostOfConstruction = static_cast<int>(kComputesWithin64Bits);
constexpr double kPartOfConstruction = 0.2;
constexpr const char* kShorter = "shorter than with fewer";
constexpr const char* kHolds = "with fewer none was found";

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
  if (most <= instance.problem().max_computes || most > kMostOfConstruction || instance.has_modes()) return instance;
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
        allowance_(limits_of(options), callbacks.cancel) {}

  Schedule run(std::span<const OpId> warm_start) {
    Sequence start(warm_start.begin(), warm_start.end());
    for (Instance stated = begin_with(instance_, start);;) {
      const int most = stated.problem().max_computes + 1;
      Instance next = with_computes(stated, most);
      const bool is_last = most > kMostComputes || !allows_more(stated, next);
      has_cut_ = false;
      cut_ = {};
      if (!take(solve_one(stated, start, is_last ? nullptr : &next)) || is_last || !may_pay()) break;
      const Schedule& other = standby(next, !best_.has_schedule()).schedule;
      if (allowance_.is_over()) break;
      if (best_.has_schedule()) start = ops_of(best_);
      // Where it is proved that there is none, one compute more at a time finds the fewest.
      const bool is_next = other.solver.max_computes <= most || best_.status == Status::unknown;
      if (is_better(other, best_) && is_next) {
        tell_of_standby();
        start = ops_of(other);
      }
      stated = begin_with(next, start);
    }
    if (is_better(standby().schedule, best_)) take_standby();
    best_.solver.history = std::move(history_);
    best_.solver.seconds = allowance_.elapsed();
    best_.solver.work = allowance_.spent().count();
    best_.solver.time_limit = options_.time_limit;
    best_.solver.work_limit = options_.work_limit;
    best_.solver.options = describe_options(options_);
    best_.solver.stop = reason_to_stop();
    explain();
    return std::move(best_);
  }

 private:
  /// What was found beside the searches: the answer until one of them has a better one. Without steps if it takes more than
  /// the budget.
  struct Standby {
    Schedule schedule{};
    Source source = Source::segments;
  };

  [[nodiscard]] const Standby& standby() const {
    return is_better(cut_.schedule, construction_.schedule) ? cut_ : construction_;
  }

  /// The same, once checkpoints of one compute more are asked and, where nothing holds the budget, what takes any number.
  const Standby& standby(const Instance& next, bool has_none) {
    const bool applies = next.problem().order == OrderMode::input && !next.has_modes() && !alignment_;
    if (!applies || allowance_.deadline().reached()) return standby();
    if (!std::exchange(has_cut_, true)) cut_ = checkpoints(next, allowance_.deadline());
    const bool wants_any = has_none && !standby().schedule.has_schedule() && !allowance_.deadline().reached();
    if (wants_any && !std::exchange(has_constructed_, true)) construction_ = construct_any();
    return standby();
  }

  /// Between segments, as many computes as the problem allows.
  [[nodiscard]] Standby checkpoints(const Instance& instance, const Deadline& deadline) const {
    if (!options_.segments) return {};
    return standing_by(instance, start_from_segments(instance, [&] { return deadline.reached(); }), Source::segments);
  }

  /// What holds the budget with however many computes: checkpoints, one part cut within another, or a method of the literature.
  [[nodiscard]] Standby construct_any() const {
    const Deadline deadline(allowance_.uncounted_seconds(kPartOfConstruction), callbacks_.cancel);
    const int fewest = instance_.problem().max_computes;
    Standby nested = checkpoints(with_computes(instance_, std::max(kMostComputes, fewest)), deadline);
    if (nested.schedule.has_schedule() || deadline.reached()) return nested;
    const Instance often = with_computes(instance_, std::max(kMostOfConstruction, fewest));
    const Construction found = construct(often, options_, deadline);
    return found.sequence.empty() ? Standby{} : standing_by(often, make_solution(often, found.sequence), found.source);
  }

  /// As an answer to the problem with as many computes as it takes.
  [[nodiscard]] Standby standing_by(const Instance& instance, const Solution& found, Source source) const {
    if (found.peak > instance.budget()) return {};
    Schedule schedule = describe_problem(instance, options_);
    schedule.lower_bound = instance.baseline_duration();
    schedule.solver.reached_peak = found.peak;
    write_steps(instance, found.computes(instance), schedule);
    schedule.solver.max_computes = begin_with(instance_, ops_of(schedule)).problem().max_computes;
    return {std::move(schedule), source};
  }

  /// Whether it is the answer so far; false where one compute more has brought nothing.
  bool take(Schedule found) {
    const bool is_first = best_.solver.max_computes == 0;
    const bool had_schedule = best_.has_schedule();
    const bool pays = is_better(found, best_);
    if (!pays && had_schedule) return false;
    if (pays && !is_first && found.solver.max_computes > best_.solver.max_computes)
      reason_ = had_schedule ? kShorter : kHolds;
    best_ = std::move(found);
    return true;
  }

  /// Limits were over before its problem could be solved, and this is the best there is.
  void take_standby() {
    Schedule other = standby().schedule;
    tell_of_standby();
    other.solver.stop = best_.solver.stop;
    if (other.solver.max_computes <= best_.solver.max_computes) other.lower_bound = best_.lower_bound;
    take(std::move(other));
  }

  /// Whether more computes may hold the budget, or cost less.
  [[nodiscard]] bool may_pay() const {
    if (caller_has_enough_) return false;
    // What one op needs at once it needs whatever the computes.
    if (!best_.has_schedule()) return least_budget(instance_) <= instance_.budget();
    return !allowance_.is_over() &&
           (is_tired_ || (best_.status == Status::optimal && best_.duration > best_.baseline_duration));
  }

  /// What listeners know: who listens hears of one solve, whose seconds and work go on, and of nothing that is no better.
  struct Told {
    double begun = 0;
    std::int64_t worked = 0;
    Duration best = Duration::max();
  };

  /// `now`, of the solve at hand, as part of the whole; what was announced is its incumbent where that is better.
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

  /// Tells of a standby that is better than what was told of. The first schedule of all is where phase 2 begins.
  void announce(const Standby& other, const Progress& now, Told& told) {
    const Schedule& schedule = other.schedule;
    if (schedule.duration >= told.best) return;
    const bool is_first = told.best == Duration::max() && now.peak > instance_.budget() && !best_.has_schedule();
    told.best = schedule.duration;
    announced_ = {allowance_.elapsed(), schedule.duration, schedule.peak_memory, source_name(other.source)};
    if (callbacks_.incumbent) callbacks_.incumbent(schedule);
    if (!callbacks_.progress) return;
    Progress news = as_one(now, told);
    news.source = other.source;
    for (const Event event : {Event::schedule, Event::phase}) {
      news.event = event;
      if (is_first || event == Event::schedule) callbacks_.progress(news);
    }
  }

  /// The same between two problems' solves.
  void tell_of_standby() {
    Told told{.best = announced_ ? announced_->duration : Duration::max()};
    announce(standby(), {.seconds = allowance_.elapsed(), .peak = Bytes::max(), .work = allowance_.spent().count()},
             told);
    record({}, 0);
  }

  [[nodiscard]] bool is_later_than(const Progress& now, double seconds, double part) const {
    if (limits_.counts_work()) return Work(now.work) > limits_.part(part).work;
    return now.seconds > std::min(seconds, limits_.part(part).seconds);
  }

  /// Whether one compute more is worth more than what this problem's solve has still to say.
  [[nodiscard]] bool is_tired(const Instance& next, const Progress& now, Told& told) {
    const bool has_none = now.peak > instance_.budget();
    if (!has_none && !is_later_than(now, kSecondsOfDoubt, kPartOfDoubt)) return false;
    const Standby& other = standby(next, has_none);
    const bool stands_by = other.schedule.has_schedule();
    const bool is_beaten = stands_by && (has_none || other.schedule.duration < now.duration);
    if (is_beaten) announce(other, now, told);
    if (is_beaten && now.lower_bound >= other.schedule.duration) return true;
    const bool waits = !stands_by && (told.worked > 0 || wants_groups(instance_, options_));
    return (has_none || is_beaten) && is_later_than(now, kNoTimeLimit, waits ? kLongerPatience : kPatience);
  }

  /// `after_proof`: the problem before is solved.
  [[nodiscard]] Limits limits_of_next(bool after_proof) const {
    if (!after_proof) return allowance_.left();
    return allowance_.again(kPartAfterProof, std::min(kSecondsAfterProof, kPartOfDoubt * options_.time_limit));
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
    const SolveOptions options = within(options_, limits_of_next(had_schedule && !std::exchange(is_tired_, false)));
    is_tired_ = false;
    limits_ = limits_of(options);
    Told told{.begun = allowance_.elapsed(), .worked = allowance_.spent().count()};
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
    allowance_.spend(Work(schedule.solver.work));
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
    const bool is_share = (stop == Stop::time && !allowance_.deadline().reached()) ||
                          (stop == Stop::work && allowance_.spent() < allowance_.limits().work) ||
                          (stop == Stop::callback && !caller_has_enough_);
    if (!is_share) return stop;
    if (allowance_.deadline().cancelled()) return Stop::cancelled;
    return allowance_.deadline().reached() ? Stop::time : Stop::exhausted;
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
  Allowance allowance_;
  Schedule best_{};
  /// Checkpoints with one compute more than the problem at hand, and what was constructed with any number; each asked once.
  Standby cut_{};
  Standby construction_{};
  bool has_cut_ = false;
  bool has_constructed_ = false;
  std::optional<Incumbent> announced_{};  // the last of them that listeners were told of
  std::vector<Incumbent> history_{};
  Limits limits_{};  // of the solve at hand
  bool caller_has_enough_ = false;
  bool is_tired_ = false;  // the last solve was ended for what comes next
  std::string reason_{};
};

}  // namespace

Instance with_computes(const Instance& instance, int most) {
  Problem problem = instance.problem();
  problem.max_computes = most;
  return {instance.shared_graph(), problem, instance.shared_modes()};
}

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
  const Allowance allowance({.seconds = options.time_limit}, cancel);
  BudgetBracket best;
  for (Instance stated = instance;;) {
    const int most = stated.problem().max_computes + 1;
    Instance next = with_computes(stated, most);
    const bool is_last = most > kMostComputes || !allows_more(stated, next);
    SolveOptions some = options;
    some.time_limit = allowance.share(is_last ? 1 : kPartOfRest).seconds;
    BudgetBracket found = bracket_min_budget(stated, some, cancel, best.sequence);
    const bool pays = best.max_computes == 0 || found.reached < best.reached;
    if (pays) best = std::move(found);
    if (!pays || is_last || allowance.is_over() || best.reached <= least_budget(instance)) return best;
    stated = std::move(next);
  }
}

}  // namespace remora
