// SPDX-License-Identifier: Apache-2.0
//
// Searches over several devices that can be left and taken up again, and what they tell each other.
//
//     all choices        what a solve asks for: one thing at a time (sequential.hpp), or with copies beside (overlap.hpp)
//     fewer choices      one device alone, by the search for one device; copies without recomputes, as a solve of its own
//
// Those with fewer choices sit beside the one with all, to the end of the limits: first a tenth each, then as much as that one
// has had (one device alone: several times that) as long as the best schedule known is one of theirs, and else a small part of
// it. The end of the limits is for one that leads, if one does. One device alone that leads has the less the less it may still
// save, by its own bound. What one finds all others go on from where they can.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/devices/plan.hpp"
#include "engine/devices/search.hpp"
#include "engine/devices/solve.hpp"
#include "engine/devices/state.hpp"

namespace remora::devices {

/// That ops may run so often instead, and a schedule where they do, if there is one.
struct Wish {
  int computes = 0;
  std::vector<DeviceStep> steps{};
};

/// The part of the cost that is above the bound; differences of whole numbers are exact.
inline double gap_above(std::int64_t bound, std::int64_t cost) {
  return bound < cost ? static_cast<double>(cost - bound) / static_cast<double>(cost) : 0;
}

/// One of the searches that a solve goes on with by turns. For one thread at a time.
class Member {
 public:
  Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  virtual ~Member() = default;

  /// Goes on for so many seconds, and so many units of work.
  virtual void sit(double seconds, std::int64_t work) = 0;
  /// Nothing is left for it to find.
  [[nodiscard]] virtual bool finished() const = 0;
  /// The best schedule that it has, in its own problem; empty without one.
  [[nodiscard]] virtual std::vector<DeviceStep> steps() const = 0;
  /// A schedule of the problem with all choices: the search goes on from it if it is one of its own, too, and better.
  virtual void offer(const std::vector<DeviceStep>& steps) = 0;
  [[nodiscard]] virtual std::int64_t work() const = 0;
  /// Of what its best schedule costs, the part that its own problem may still save; 1 where nothing is known.
  [[nodiscard]] virtual double gap() const = 0;
  /// More computes an op than the problem's, where they hold the budget or cost less.
  [[nodiscard]] virtual Wish wish() const { return {}; }
};

/// Everything on that device, in the staged form, by the search for one device; null where some op cannot run there. What is limited
/// beside memory and what is minimised is not regarded. The graph must outlive it; of the options, the limits are a first sitting's.
/// `chooses`: it also looks whether more computes pay, and begins from the options' start.
std::unique_ptr<Member> one_device_alone(const DeviceGraph& graph, const Problem& problem, DeviceId device,
                                         const Options& options, bool chooses);

/// A search by local search and whatever else, with searches that have fewer choices beside it.
class Turns : public Member {
 public:
  void sit(double seconds, std::int64_t work) final {
    seconds_ = seconds;
    deadline_ = turn_ = Deadline(seconds, options_.cancel);
    until_ = work > kNoWay - this->work() ? kNoWay : this->work() + work;
    if (refuted()) return;
    if (!std::exchange(begun_, true)) take(options_.start);
    search();
  }
  [[nodiscard]] bool finished() const final { return refuted() || best_cost_ <= bound_.least; }
  [[nodiscard]] std::vector<DeviceStep> steps() const final { return best_; }
  void offer(const std::vector<DeviceStep>& steps) final {
    if (cost_of_schedule(graph_, problem_, steps)) take(steps);
  }
  [[nodiscard]] std::int64_t work() const override { return local_.work() + members_work_; }
  [[nodiscard]] double gap() const final { return best_cost_ == kNoWay ? 1 : gap_above(bound_.least, best_cost_); }
  /// A sitting also ends where more computes an op are worth more than this problem: where one device alone costs less with
  /// more than all that is known here, or after half of the limits without a schedule. `doubts`: or later, where one device
  /// alone leads and that is not proved. To be said before the first one.
  void choose_computes(bool doubts) {
    chooses_ = true;
    doubts_ = doubts;
  }
  [[nodiscard]] Wish wish() const final { return wish_; }
  /// What is known of all schedules; and why there is none, if that is known.
  [[nodiscard]] const Bound& bound() const { return bound_; }
  [[nodiscard]] bool refuted() const { return !bound_.infeasible.empty(); }

  /// The answer: steps, what they take, the bound, the status.
  void write(DeviceSchedule& schedule) const {
    schedule.lower_bound = bound_.least;
    schedule.solver.work = work();
    if (refuted()) {
      schedule.status = Status::infeasible;
      schedule.solver.note = bound_.infeasible;
    }
    if (best_cost_ == kNoWay) return;
    schedule.steps = best_;
    const DeviceVerdict verdict = verify(graph_, schedule);
    schedule.duration = verdict.duration;
    schedule.energy = verdict.energy;
    schedule.peak_memory = verdict.peak;
    schedule.status = schedule.cost() <= schedule.lower_bound ? Status::optimal : Status::feasible;
  }

 protected:
  /// Plans evaluated at most to mend one that somebody else found.
  static constexpr std::int64_t kMending = 4000;

  /// The graph must outlive it. Others sit beside it where it `shares`, and both recomputes and copies are choices.
  Turns(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound, bool shares)
      : graph_(graph),
        problem_(problem),
        options_(options),
        bound_(std::move(bound)),
        local_(graph_, problem_, options.seed, turn_),
        shares_(shares && problem.max_computes > 1) {}

  /// Until the limits of the sitting.
  virtual void search() = 0;
  /// A search for copies without recomputes, of the same kind; null if it is known that there are no such schedules.
  [[nodiscard]] virtual std::unique_ptr<Member> copies_alone(const Problem& once, const Options& options) const = 0;
  /// The best schedule known is another one.
  virtual void heed_incumbent() {}
  /// Whatever else runs beside the search waits, until it is told that it need not.
  virtual void rest(bool /*waits*/) {}

  [[nodiscard]] double left() const { return std::max(0.0, seconds_ - deadline_.elapsed()); }
  [[nodiscard]] bool over() const { return deadline_.reached() || work() >= until_ || wish_.computes > 0; }
  /// As much as the work limit leaves for whoever has done `done`.
  [[nodiscard]] std::int64_t limited(std::int64_t wanted, std::int64_t done) const {
    return until_ < kNoWay ? std::min(wanted, done + until_ - work()) : wanted;
  }

  /// Takes a schedule of the problem, or steps to go on from, over. What it costs, if it is one.
  std::int64_t take(const std::vector<DeviceStep>& steps) {
    if (steps.empty()) return kNoWay;
    const std::int64_t cost = cost_of_schedule(graph_, problem_, steps).value_or(kNoWay);
    if (cost < best_cost_) {
      best_cost_ = cost;
      best_ = steps;
    }
    adopt(steps);
    heed_incumbent();
    return cost;
  }

  /// The local search goes on from it, if it is better once it is mended.
  void adopt(Plan plan) {
    for (DeviceStep& step : plan) step.free.clear();
    local_.adopt(std::move(plan), limited(local_.work() + kMending, local_.work()));
    take_found();
  }

  /// What the local search has found.
  void take_found() {
    if (local_.plan() == nullptr || local_.cost() >= best_cost_) return;
    best_cost_ = local_.cost();
    best_ = with_releases(local_.plan()->evaluation, local_.plan()->plan);
  }

  /// Whoever has fewer choices and is due.
  void let_members_sit() {
    if (std::exchange(shares_, false)) find_members();
    for (Entry& entry : members_) {
      if (over() || finished()) return;
      if (entry.member->finished()) continue;
      if (entry.is_alone) tell(entry);
      const double due = due_to(entry);
      if (due > 0) let_sit(entry, due);
    }
    if (chooses_ && !over() && !finished()) look_for_more();
  }

  /// A turn of the search itself takes so many plans or nodes, and no longer than others can wait.
  [[nodiscard]] std::int64_t begin_turn(std::int64_t plans) {
    const bool others = shares_ || std::any_of(members_.begin(), members_.end(),
                                               [](const Entry& entry) { return !entry.member->finished(); });
    turn_ = Deadline(others ? std::min(left(), kTurn * span()) : left(), options_.cancel);
    if (!others || !counts_work()) return plans;
    return std::min(plans, std::max(kLeastTurn, static_cast<std::int64_t>(kTurn * limit())));
  }

  const DeviceGraph& graph_;
  Problem problem_;
  Options options_;
  /// Of the sitting, and of the turn that is under way in it.
  double seconds_ = 0;
  Deadline deadline_{0, nullptr};
  Deadline turn_{0, nullptr};
  std::int64_t until_ = kNoWay;
  Bound bound_;
  Search local_;
  std::int64_t best_cost_ = kNoWay;
  std::vector<DeviceStep> best_;

 private:
  /// Of the limits, for a first sitting; at least, for a later one; and for a turn of the search itself, at most.
  static constexpr double kFirst = 0.1;
  static constexpr double kLeast = 0.02;
  static constexpr double kTurn = 0.05;
  static constexpr std::int64_t kLeastTurn = 250;
  /// Of what the search with all choices has had: for one device alone, at most, and for copies alone where the best schedule
  /// known is one of theirs, and for others.
  static constexpr double kLeadingAlone = 8;
  static constexpr double kLeading = 1;
  static constexpr double kBehind = 0.125;
  /// Of the limits, the end that a member whose schedule is the best known has for itself (one device alone: at most).
  static constexpr double kEnd = 0.25;
  /// Of the limits, before more computes an op are taken up where they are known to cost less; without any schedule; and where
  /// one device alone leads.
  static constexpr double kPatience = 0.2;
  static constexpr double kPatienceWithoutAny = 0.5;
  static constexpr double kPatienceAlone = 0.6;
  /// Seconds: where nobody waits for the limit.
  static constexpr double kLongest = 600;

  struct Entry {
    std::unique_ptr<Member> member;
    /// One device alone: its search gains most by time, and is known to lead as soon as others find plans of its own kind.
    bool is_alone = false;
    double spent = 0;
    bool begun = false;
    /// What its best schedule costs here.
    std::int64_t cost = kNoWay;
    /// Of the best one that it was told of.
    std::int64_t told = kNoWay;
  };

  void find_members() {
    Options options = options_;
    options.time_limit = kFirst * span();
    options.work_limit = options_.work_limit > 0 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(first())) : 0;
    const auto add = [&](std::unique_ptr<Member> member, bool is_alone) {
      if (member) members_.push_back({.member = std::move(member), .is_alone = is_alone});
    };
    for (const DeviceId d : graph_.devices.ids()) add(one_device_alone(graph_, problem_, d, options, chooses_), true);
    options.start.clear();
    if (graph_.links.empty()) return;
    Problem once = problem_;
    once.max_computes = 1;
    options.threads = 1;
    options.time_limit = span();
    add(copies_alone(once, options), false);
  }

  [[nodiscard]] double span() const { return std::min(options_.time_limit, kLongest); }
  /// In units of work where that is limited, else in seconds.
  [[nodiscard]] bool counts_work() const { return options_.work_limit > 0; }
  [[nodiscard]] double limit() const { return counts_work() ? static_cast<double>(options_.work_limit) : span(); }
  [[nodiscard]] double used() const { return counts_work() ? static_cast<double>(work()) : deadline_.elapsed(); }
  [[nodiscard]] double first() const { return kFirst * (counts_work() ? limit() : std::min(span(), left())); }

  [[nodiscard]] double remaining() const { return counts_work() ? static_cast<double>(until_ - work()) : left(); }
  [[nodiscard]] bool leads(const Entry& entry) const { return entry.cost <= best_cost_ && entry.cost < kNoWay; }

  /// Of what there may be to save, what its own problem may save.
  [[nodiscard]] double part_of_gap(const Entry& entry) const {
    const double whole = gap();
    return whole > 0 ? std::min(1.0, entry.member->gap() / whole) : 1;
  }

  [[nodiscard]] double due_to(const Entry& entry) const {
    if (!entry.begun) return first();
    const double part = entry.is_alone ? part_of_gap(entry) : 1;
    if (leads(entry) && remaining() <= part * kEnd * limit()) return remaining();
    double own = used();
    for (const Entry& other : members_) own -= other.spent;
    const double leading = entry.is_alone ? std::max(kBehind, part * kLeadingAlone) : kLeading;
    const double due = (leads(entry) ? leading : kBehind) * own - entry.spent;
    return due < kLeast * limit() ? 0 : std::min(due, kFirst * limit());
  }

  /// It hears of a better schedule, which may be one of its own problem. First it finds its own.
  void tell(Entry& entry) {
    if (!entry.begun || best_cost_ >= std::min(entry.cost, entry.told)) return;
    entry.told = best_cost_;
    entry.member->offer(best_);
    const std::vector<DeviceStep> steps = entry.member->steps();
    if (!steps.empty()) entry.cost = cost_of_schedule(graph_, problem_, steps).value_or(kNoWay);
  }

  void let_sit(Entry& entry, double due) {
    Member& member = *entry.member;
    const double before = used();
    const std::int64_t work_before = member.work();
    const bool goes_on = std::exchange(entry.begun, true);
    if (goes_on && !entry.is_alone && best_cost_ < entry.cost) member.offer(best_);
    if (leads(entry)) rest(true);
    if (counts_work()) {
      member.sit(left(), std::max<std::int64_t>(1, limited(static_cast<std::int64_t>(due), 0)));
    } else {
      member.sit(std::min(due, left()), kNoWay);
    }
    rest(false);
    // At least one, so that who has nothing to do keeps no search under a work limit alive.
    members_work_ += std::max<std::int64_t>(1, member.work() - work_before);
    entry.cost = take(member.steps());
    entry.spent += used() - before;
  }

  /// Of what members wish for, the cheapest where it beats all that is known.
  void look_for_more() {
    if (used() < kPatience * limit()) return;
    std::int64_t least = best_cost_;
    for (const Entry& entry : members_) {
      Wish wish = entry.member->wish();
      if (wish.steps.empty()) continue;
      Problem more = problem_;
      more.max_computes = wish.computes;
      const std::int64_t cost = cost_of_schedule(graph_, more, wish.steps).value_or(kNoWay);
      if (cost >= least) continue;
      least = cost;
      wish_ = std::move(wish);
    }
    const bool is_alone = std::any_of(members_.begin(), members_.end(),
                                      [&](const Entry& entry) { return entry.is_alone && leads(entry); });
    const bool has_none = least == kNoWay && used() >= kPatienceWithoutAny * limit();
    const bool is_in_doubt = doubts_ && is_alone && used() >= kPatienceAlone * limit();
    if (wish_.computes == 0 && (has_none || is_in_doubt)) wish_ = {problem_.max_computes + 1, {}};
  }

  bool begun_ = false;
  bool chooses_ = false;
  bool doubts_ = false;
  Wish wish_{};
  /// Others are still to be found.
  bool shares_;
  std::vector<Entry> members_;
  std::int64_t members_work_ = 0;
};

/// As solve(). With `wish`, which is then set, it ends early where more computes an op are worth more (Turns::choose_computes).
DeviceSchedule solve_or_wish(const DeviceGraph& graph, const Problem& problem, const Options& options, Wish* wish,
                             bool doubts);

/// Local search, complete search and the relaxation on one incumbent, one thing at a time (sequential.hpp).
std::unique_ptr<Turns> sequential_turns(const DeviceGraph& graph, const Problem& problem, const Options& options,
                                        bool shares);

/// Where copies run beside computing (overlap.hpp).
std::unique_ptr<Turns> overlapped_turns(const DeviceGraph& graph, const Problem& problem, const Options& options,
                                        bool shares);

/// The best schedule without memory limits where copies run beside computing, as far as the bound's assignment is one.
void describe_overlapped_baseline(const DeviceGraph& graph, const Problem& problem, DeviceSchedule& schedule);

}  // namespace remora::devices
