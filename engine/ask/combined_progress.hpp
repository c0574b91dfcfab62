// SPDX-License-Identifier: Apache-2.0
//
// Many solves, one after the other, told as one.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/base/callbacks.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

/// Reports many solves as one, whose seconds and work continue, and nothing that is no better. Each solve has a bound
/// of
/// its own; the one that is reported holds for all of them, and never falls.
class CombinedProgress {
 public:
  CombinedProgress(Bytes budget, const SolveCallbacks& callbacks, const Allowance& allowance,
                   std::function<Duration()> bound)
      : budget_(budget), callbacks_(callbacks), allowance_(allowance), bound_(std::move(bound)) {}

  /// A solve begins; `best`: the shortest duration of those before.
  void begin(Duration best) {
    begun_ = allowance_.elapsed();
    worked_ = allowance_.spent();
    best_ = std::min(best, announced_ ? announced_->duration : Duration::max());
  }

  /// The caller's callbacks for the solve at hand, but for `enough`.
  [[nodiscard]] SolveCallbacks callbacks() const {
    SolveCallbacks callbacks = callbacks_;
    if (callbacks_.progress) {
      callbacks.progress = [this](const Progress& now) {
        const bool is_reported = now.event != Event::bound &&
                                 (best_ == Duration::max() || now.event == Event::schedule) &&
                                 is_better(now.peak, now.duration);
        const Progress update = reported(now);
        const bool raises = now.event == Event::bound && (!last_ || update.lower_bound > last_->lower_bound);
        if (is_reported || raises) report(update);
      };
    }
    if (callbacks_.heartbeat) {
      callbacks.heartbeat = [this](const Progress& now) { callbacks_.heartbeat(reported(now)); };
    }
    if (callbacks_.incumbent) {
      callbacks.incumbent = [this](Schedule schedule) {
        if (!is_better(schedule.peak_memory, schedule.duration)) return;
        // That solve's proof is of its own problem alone.
        schedule.lower_bound = std::min(bound_(), schedule.duration);
        schedule.status = schedule.lower_bound < schedule.duration ? Status::feasible : Status::optimal;
        schedule.solver.bound_for_any_number = true;
        callbacks_.incumbent(schedule);
      };
    }
    return callbacks;
  }

  /// Tells of a schedule from beside the searches, if that is better than what was told of. `is_first`: no search before has one;
  /// the first schedule of all is where phase 2 begins.
  void announce(const Schedule& schedule, Source source, const Progress& now, bool is_first) {
    if (schedule.duration >= best_) return;
    const bool begins_phase = is_first && best_ == Duration::max() && now.peak > budget_;
    best_ = schedule.duration;
    announced_ = {allowance_.elapsed(), schedule.duration, schedule.peak_memory, source_name(source)};
    if (callbacks_.incumbent) callbacks_.incumbent(schedule);
    if (!callbacks_.progress) return;
    Progress update = reported(now);
    update.source = source;
    for (const Event event : {Event::schedule, Event::phase}) {
      update.event = event;
      if (begins_phase || event == Event::schedule) report(update);
    }
  }

  /// The answer's bound, where that is better than the one that was reported last.
  void close(const Schedule& answer) const {
    if (!last_ || !answer.has_schedule() || answer.lower_bound <= last_->lower_bound) return;
    Progress update = *last_;
    update.seconds = allowance_.elapsed();
    update.event = Event::bound;
    update.duration = answer.duration;
    update.peak = answer.peak_memory;
    update.lower_bound = answer.lower_bound;
    report(update);
  }

  /// `now`, of the solve at hand, as part of the whole; what was announced is its incumbent where that is better.
  [[nodiscard]] Progress reported(Progress now) const {
    now.seconds += begun_;
    now.work += worked_.count();
    now.lower_bound = bound_();
    if (!announced_ || (now.peak <= budget_ && now.duration <= announced_->duration)) return now;
    now.phase = 2;
    now.duration = announced_->duration;
    now.peak = announced_->peak;
    return now;
  }

  /// Goes on with the history: of the steps of the solve at hand, what is better than all before.
  void record(std::vector<Incumbent> steps) {
    for (Incumbent& step : steps) step.seconds += begun_;
    if (announced_) steps.push_back(*announced_);
    std::ranges::stable_sort(steps, {}, &Incumbent::seconds);
    const auto holds = [&](const Incumbent& step) { return step.peak <= budget_; };
    for (Incumbent& step : steps) {
      const bool had_none = history_.empty() || !holds(history_.back());
      const bool improves = history_.empty() || (had_none ? step.peak < history_.back().peak || holds(step)
                                                          : holds(step) && step.duration < history_.back().duration);
      if (improves) history_.push_back(std::move(step));
    }
  }

  [[nodiscard]] Work worked_before() const { return worked_; }
  [[nodiscard]] const std::vector<Incumbent>& history() const { return history_; }

 private:
  void report(const Progress& update) const {
    last_ = update;
    callbacks_.progress(update);
  }

  [[nodiscard]] bool is_better(Bytes peak, Duration duration) const {
    return best_ == Duration::max() || (peak <= budget_ && duration < best_);
  }

  Bytes budget_;
  const SolveCallbacks& callbacks_;
  const Allowance& allowance_;
  /// Bound on the whole.
  std::function<Duration()> bound_;
  /// Last report, heartbeats excluded.
  mutable std::optional<Progress> last_{};
  double begun_ = 0;
  Work worked_{};
  Duration best_ = Duration::max();
  std::optional<Incumbent> announced_{};
  std::vector<Incumbent> history_{};
};

}  // namespace remora
