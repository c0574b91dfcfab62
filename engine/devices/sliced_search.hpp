// SPDX-License-Identifier: Apache-2.0
//
// Searches over several devices that can be left and taken up again, and what they exchange.
//
//     all choices        what a solve asks for: one thing at a time (sequential.cpp), or with copies beside (overlap.cpp)
//     fewer choices      one device alone, by the search for one device; copies without recomputes, as a solve of its own
//
// Those with fewer choices sit beside the one with all, to the end of the limits: first a tenth each, then as much as that one
// has had (one device alone: several times that) as long as the best schedule known is one of theirs, and else a small part of
// it. The end of the limits is for one that leads, if one does. One device alone that leads has the less the less it may still
// save, by its own bound. What one finds all others go on from where they can.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/devices/bound.hpp"
#include "engine/devices/plan.hpp"
#include "engine/devices/reporter.hpp"
#include "engine/devices/search.hpp"

namespace remora::devices {

struct Options {
  /// Seconds.
  double time_limit = 60;
  /// Plans evaluated; 0 for no limit. With it, and without a time limit, the same seed gives the same schedule.
  std::int64_t work_limit = 0;
  std::uint64_t seed = 1;
  /// Unless it is 1, and without a work limit, the relaxation's programs are solved beside the search.
  int threads = 2;
  /// Set to end the search with what it has. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// Steps of a schedule of this graph to begin from, under whatever budgets; empty for none. The local search begins from its runs
  /// and copies where they are of the staged form; if it is a schedule of the problem, the answer costs no more.
  std::vector<DeviceStep> start{};
  /// Hears how it goes. May be null.
  Reporter* reporter = nullptr;
};

/// True if the time limit, counted from now, or a wish to stop has come. A limit of 0 asks for bounds alone: those it does not cut short.
std::function<bool()> past_limit(const Options& options);

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

  /// Goes on for so long.
  virtual void run_session(const Limits& limits) = 0;
  /// Nothing is left for it to find.
  [[nodiscard]] virtual bool finished() const = 0;
  /// The best schedule that it has, in its own problem; empty without one.
  [[nodiscard]] virtual std::vector<DeviceStep> steps() const = 0;
  /// A schedule of the problem with all choices: the search goes on from it if it is one of its own, too, and better.
  virtual void offer(const std::vector<DeviceStep>& steps) = 0;
  /// In all sessions.
  [[nodiscard]] virtual Work work() const = 0;
  /// Fraction of its best schedule's cost that its own problem may still save; 1 if unknown.
  [[nodiscard]] virtual double gap() const = 0;
  /// More computes an op than the problem's, where they hold the budget or cost less.
  [[nodiscard]] virtual Wish wish() const { return {}; }
};

/// A search by local search and whatever else, with searches that have fewer choices beside it.
class SlicedSearch : public Member {
 public:
  void run_session(const Limits& limits) final;
  [[nodiscard]] bool finished() const final { return is_infeasible() || best_cost_ <= bound_.least; }
  [[nodiscard]] std::vector<DeviceStep> steps() const final { return best_; }
  void offer(const std::vector<DeviceStep>& steps) final;
  [[nodiscard]] Work work() const final { return work_; }
  [[nodiscard]] double gap() const final { return best_cost_ == kNoWay ? 1 : gap_above(bound_.least, best_cost_); }
  /// A session also ends where more computes an op are worth more than this problem: where one device alone costs less with
  /// more than all that is known here, or after half of the limits without a schedule. `doubts`: or later, where one device
  /// alone leads and that is not proved. To be said before the first one.
  void choose_computes(bool doubts);
  [[nodiscard]] Wish wish() const final { return wish_; }
  /// Bounds on all schedules; and why there is none, if that is known.
  [[nodiscard]] const Bound& bound() const { return bound_; }
  [[nodiscard]] bool is_infeasible() const { return bound_.is_infeasible(); }
  /// The answer: steps, what they take, the bound, the status.
  void write(Answer& answer) const;

 protected:
  /// The graph must outlive it. Others sit beside it where it `shares`, and both recomputes and copies are choices.
  SlicedSearch(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound, bool shares);

  /// Until the limits of the session.
  virtual void search() = 0;
  /// A search for copies without recomputes, of the same kind; null if it is known that there are no such schedules.
  [[nodiscard]] virtual std::unique_ptr<Member> copies_alone(const Problem& once, const Options& options) const = 0;
  /// The best schedule known is another one.
  virtual void use_incumbent() {}
  /// Whatever else runs beside the search waits, until it is reported that it need not.
  virtual void rest(bool /*waits*/) {}

  [[nodiscard]] bool over() const { return allowance_.is_over() || wish_.computes > 0 || is_stopped(); }
  /// Reports a round to the listener. Returns false if the listener stops the search.
  [[nodiscard]] bool report_round(std::int64_t units = 0) const;
  /// As much of it as the work limit leaves.
  [[nodiscard]] std::int64_t limited(std::int64_t units) const {
    return std::min(units, allowance_.left().work.count());
  }
  void spend(std::int64_t units);
  /// Local search over so many plans, as far as the limits leave them.
  void look_at(std::int64_t plans);
  /// Takes a schedule of the problem, or steps to go on from, over. What it costs, if it is one.
  std::int64_t take(const std::vector<DeviceStep>& steps, Source source);
  /// The local search goes on from it, if it is better once it is mended.
  void adopt(Plan plan, Source source);
  /// No schedule costs less.
  void raise_bound(std::int64_t least, Source source);
  /// All was searched: the best schedule is known, or that there is none.
  void prove(Source source);
  /// Whoever has fewer choices and is due.
  void run_members();
  /// A turn of the search itself takes so many plans or nodes, and no longer than others can wait.
  [[nodiscard]] std::int64_t begin_slice(std::int64_t plans);

  const DeviceGraph& graph_;
  Problem problem_;
  Options options_;
  /// Limits of the session, and the end of its present slice.
  Allowance allowance_{{0, Work(0)}, nullptr};
  Deadline slice_{0, nullptr};
  Bound bound_;
  Search local_;
  std::int64_t best_cost_ = kNoWay;
  std::vector<DeviceStep> best_;

 private:
  struct Entry {
    std::unique_ptr<Member> member;
    Source source{};
    /// One device alone: its search gains most by time, and is known to lead as soon as others find plans of its own kind.
    bool is_alone = false;
    double spent = 0;
    bool begun = false;
    /// Cost of its best schedule here.
    std::int64_t cost = kNoWay;
    /// Cost of the best one that was reported to it.
    std::int64_t reported = kNoWay;
  };

  [[nodiscard]] bool is_stopped() const { return options_.reporter != nullptr && options_.reporter->is_stopped(); }
  bool on_plan(bool better);
  void take_found(Source source);
  void report_best(Source source);
  void find_members();
  /// An amount of what is limited: units of work, or else seconds.
  [[nodiscard]] double amount(const Limits& limits) const;
  [[nodiscard]] double used() const;
  [[nodiscard]] double first() const;
  [[nodiscard]] bool leads(const Entry& entry) const { return entry.cost <= best_cost_ && entry.cost < kNoWay; }
  [[nodiscard]] double part_of_gap(const Entry& entry) const;
  [[nodiscard]] double due_to(const Entry& entry) const;
  void offer_best(Entry& entry);
  void run_member(Entry& entry, double due);
  void look_for_more();

  /// Limits of the options, without time that nothing waits for.
  Limits whole_;
  Work work_{};
  /// Work of the local search, included in work_.
  std::int64_t plans_ = 0;
  bool begun_ = false;
  bool chooses_ = false;
  bool doubts_ = false;
  Wish wish_{};
  /// Others are still to be found.
  bool shares_;
  std::vector<Entry> members_;
};

// The members: one thing at a time (sequential.cpp), copies beside runs (overlap.cpp), one device alone (alone.cpp). `interrupted` ends
// what is done before the first turn.

std::unique_ptr<SlicedSearch> sequential_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares);
std::unique_ptr<SlicedSearch> overlapped_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares);

/// Describes the best overlapped schedule without memory limits, as far as the bound's assignment is one.
void describe_overlapped_baseline(const DeviceGraph& graph, const Problem& problem,
                                  const std::function<bool()>& interrupted, DeviceSchedule& schedule);

/// Everything on that device, in the staged form, by the search for one device; null where some op cannot run there. What is limited
/// beside memory and what is minimised is not regarded. The graph and the problem must outlive it; of the options, the limits are a
/// first session's. `chooses`: it also looks whether more computes pay, and begins from the options' start.
std::unique_ptr<Member> one_device_alone(const DeviceGraph& graph, const Problem& problem, DeviceId device,
                                         const Options& options, bool chooses);

}  // namespace remora::devices
