// SPDX-License-Identifier: Apache-2.0
//
// Limits of a call, time and work together, and the shares of them for the calls it makes.
//
//     Allowance allowance(limits_of(options), cancel);
//     while (!allowance.is_over()) {
//       const Schedule found = solve(instance, within(options, allowance.share(0.25)));    a quarter of what is left
//       allowance.spend(Work(found.solver.work));
//     }
//
// Under a work limit nothing may depend on time, for the sake of reproducibility: there time is not shared out where work
// is not counted.
#pragma once

#include <algorithm>
#include <atomic>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"

namespace remora {

/// The limits of one call.
struct Limits {
  /// Wall-clock time.
  double seconds = kNoTimeLimit;
  /// The largest amount for no limit.
  Work work = Work::max();

  /// True if there is a work limit.
  [[nodiscard]] constexpr bool counts_work() const { return work < Work::max(); }
  /// How far a call has come, and how far it may come, by the clock that its policies go by: seconds or, under a work
  /// limit, those that the work takes on two cores.
  [[nodiscard]] constexpr double clock(double elapsed, Work done) const {
    return counts_work() ? kSecondsOfWork * static_cast<double>(done.count()) : elapsed;
  }
  [[nodiscard]] constexpr double on_clock() const { return clock(seconds, work); }
  /// Wall-clock time that what cannot be interrupted may take: any, where work is counted and nothing depends on time.
  [[nodiscard]] constexpr double time_to_spare() const { return counts_work() ? kNoTimeLimit : seconds; }
  [[nodiscard]] constexpr Limits part(double part) const {
    return {seconds * part, counts_work() ? part_of(work, part) : work};
  }

 private:
  static constexpr double kSecondsOfWork = 1e-9 * static_cast<double>(kNanosecondsOfWork) / 2;
};

/// Reads options with a time limit and a work limit: a solve's, or a solve's over several devices.
template <class Options>
Limits limits_of(const Options& options) {
  return {options.time_limit, work_limit(options.work_limit)};
}

/// The options with these limits instead of their own; where work is counted, with a unit at least.
template <class Options>
Options within(Options options, const Limits& limits) {
  options.time_limit = limits.seconds;
  options.work_limit = limits.counts_work() ? std::max(Work(1), limits.work).count() : 0;
  return options;
}

/// Limits, what is spent of them, and somebody's wish to stop. The clock runs from the beginning; work is spent as its owner
/// says. To be asked for the time from many threads, for work from one.
class Allowance {
 public:
  /// `cancel` may be null.
  Allowance(const Limits& limits, const std::atomic<bool>* cancel)
      : limits_(limits), deadline_(limits.seconds, cancel) {}

  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }
  [[nodiscard]] bool counts_work() const { return limits_.counts_work(); }

  void spend(Work work) { spent_ += work; }
  [[nodiscard]] Work spent() const { return spent_; }
  [[nodiscard]] double elapsed() const { return deadline_.elapsed(); }
  [[nodiscard]] bool is_over() const { return deadline_.reached() || spent_ >= limits_.work; }

  [[nodiscard]] Limits left() const {
    return {std::max(0.0, limits_.seconds - elapsed()),
            counts_work() ? std::max(Work(0), limits_.work - spent_) : Work::max()};
  }
  /// A part of what is left beyond what is reserved; of work, a unit at least.
  [[nodiscard]] Limits share(double part, const Limits& reserved = {0, Work(0)}) const {
    const Limits all = left();
    if (!counts_work()) return {std::max(0.0, (all.seconds - reserved.seconds) * part), Work::max()};
    return {std::max(0.0, (all.seconds - reserved.seconds) * part),
            std::max(Work(1), part_of(all.work - reserved.work, part))};
  }
  /// One of so many equal shares of what is left; of work, a unit at least.
  [[nodiscard]] Limits equal_share(int shares) const {
    const Limits all = left();
    return {all.seconds / shares, counts_work() ? std::max(Work(1), Work(all.work.count() / shares)) : Work::max()};
  }
  /// As much again as a part of what is spent, but no less than `least`, as far as it is left: of the work where that is counted, else
  /// of the time.
  [[nodiscard]] Limits again(double part, const Limits& least = {0, Work(0)}) const {
    const Limits all = left();
    if (counts_work()) return {all.seconds, std::min(all.work, std::max(part_of(spent_, part), least.work))};
    return {std::min(all.seconds, std::max(part * elapsed(), least.seconds)), Work::max()};
  }
  /// For what is not counted: that part of the time that is left, and all of it where work is counted.
  [[nodiscard]] double uncounted_seconds(double part) const { return left().seconds * (counts_work() ? 1 : part); }

 private:
  Limits limits_;
  Deadline deadline_;
  Work spent_{};
};

}  // namespace remora
