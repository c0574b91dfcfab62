// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/sliced_search.hpp"

#include <algorithm>
#include <utility>

namespace remora::devices {
namespace {

/// Plans evaluated at most to mend one that somebody else found.
constexpr std::int64_t kMending = 4000;
/// Parts of the limits: for a first session; at least, for a later one; at most, for a slice of the search itself.
constexpr double kFirst = 0.1;
constexpr double kMinimum = 0.02;
constexpr double kTurn = 0.05;
constexpr std::int64_t kMinTurn = 250;
/// Relative to the time of the search with all choices: the maximum for one device alone, and for copies alone if the
/// best known schedule is theirs, or for others.
constexpr double kLeadingAlone = 8;
constexpr double kLeading = 1;
constexpr double kBehind = 0.125;
/// The last part of the limits, for the member with the best schedule alone (one device alone: at most).
constexpr double kEnd = 0.25;
/// Parts of the limits before more runs per op are tried: if they are known to cost less; without any schedule; and if
/// one device alone leads.
constexpr double kShareBeforeMore = 0.2;
constexpr double kShareWithoutAny = 0.5;
constexpr double kShareAlone = 0.6;
/// Seconds: where nobody waits for the limit.
constexpr double kLongest = 600;

}  // namespace

std::function<bool()> past_limit(const Options& options) {
  const double most = options.time_limit > 0 ? options.time_limit : kNoTimeLimit;
  return [deadline = Deadline(most, options.cancel)] { return deadline.reached(); };
}

SlicedSearch::SlicedSearch(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound,
                           bool shares)
    : graph_(graph),
      problem_(problem),
      options_(options),
      bound_(std::move(bound)),
      local_(graph_, problem_, options.seed, slice_),
      whole_{std::min(options.time_limit, kLongest), work_limit(options.work_limit)},
      shares_(shares && problem.max_computes > 1) {
  if (options_.reporter != nullptr) local_.listen([this](bool better) { return on_plan(better); });
}

void SlicedSearch::run_session(const Limits& limits) {
  allowance_ = Allowance(limits, options_.cancel);
  slice_ = allowance_.deadline();
  if (is_infeasible()) return;
  if (!std::exchange(begun_, true)) take(options_.start, Source::start);
  search();
}

void SlicedSearch::offer(const std::vector<DeviceStep>& steps) {
  if (cost_of_schedule(graph_, problem_, steps)) take(steps, Source::start);
}

void SlicedSearch::choose_computes(bool doubts) {
  chooses_ = true;
  doubts_ = doubts;
}

void SlicedSearch::write(Answer& answer) const {
  DeviceSchedule& schedule = answer.schedule;
  schedule.lower_bound = bound_.least;
  schedule.solver.work = work_.count();
  if (is_infeasible()) {
    schedule.status = Status::infeasible;
    answer.refusal = bound_.refusal;
    schedule.solver.note = note_of(graph_, bound_.refusal);
  }
  if (best_cost_ == kNoWay) return;
  put_steps(graph_, best_, schedule);
}

void SlicedSearch::spend(std::int64_t units) {
  work_ += Work(units);
  allowance_.spend(Work(units));
}

void SlicedSearch::look_at(std::int64_t plans) {
  local_.advance(bound_, plus(Work(plans_), Work(limited(plans))).count());
  take_found(Source::local);
}

std::int64_t SlicedSearch::take(const std::vector<DeviceStep>& steps, Source source) {
  if (steps.empty()) return kNoWay;
  const std::int64_t cost = cost_of_schedule(graph_, problem_, steps).value_or(kNoWay);
  if (cost < best_cost_) {
    best_cost_ = cost;
    best_ = steps;
    report_best(source);
  }
  adopt(steps, source);
  use_incumbent();
  return cost;
}

void SlicedSearch::adopt(Plan plan, Source source) {
  for (DeviceStep& step : plan) step.free.clear();
  local_.adopt(std::move(plan), plans_ + limited(kMending));
  take_found(source);
}

void SlicedSearch::raise_bound(std::int64_t least, Source source) {
  if (least <= bound_.least) return;
  bound_.least = least;
  if (options_.reporter != nullptr) options_.reporter->bound(source, least, work_);
}

void SlicedSearch::prove(Source source) {
  if (best_cost_ < kNoWay) {
    raise_bound(best_cost_, source);
  } else {
    bound_.refusal.cause = Refusal::Cause::search;
  }
}

bool SlicedSearch::report_round(std::int64_t units) const {
  return options_.reporter == nullptr || options_.reporter->report_round(work_ + Work(units));
}

/// The local search has looked at another plan, amid its turn. False ends that.
bool SlicedSearch::on_plan(bool better) {
  const std::int64_t units = local_.work() - plans_;
  if (better && local_.cost() < best_cost_) {
    const EvaluatedPlan& found = *local_.plan();
    options_.reporter->schedule(Source::local, local_.cost(), work_ + Work(units),
                                [&] { return with_releases(found.evaluation, found.plan); });
  }
  return report_round(units);
}

void SlicedSearch::report_best(Source source) {
  if (options_.reporter != nullptr) options_.reporter->schedule(source, best_cost_, work_, [this] { return best_; });
}

/// Takes over the local search's schedules and work.
void SlicedSearch::take_found(Source source) {
  spend(local_.work() - std::exchange(plans_, local_.work()));
  if (local_.plan() == nullptr || local_.cost() >= best_cost_) return;
  best_cost_ = local_.cost();
  best_ = with_releases(local_.plan()->evaluation, local_.plan()->plan);
  report_best(source);
}

void SlicedSearch::run_members() {
  if (std::exchange(shares_, false)) find_members();
  for (Entry& entry : members_) {
    if (over() || finished()) return;
    if (entry.member->finished()) continue;
    if (entry.is_alone) offer_best(entry);
    const double due = due_to(entry);
    if (due > 0) run_member(entry, due);
  }
  if (chooses_ && !over() && !finished()) look_for_more();
}

std::int64_t SlicedSearch::begin_slice(std::int64_t plans) {
  const bool others = shares_ || std::any_of(members_.begin(), members_.end(),
                                             [](const Entry& entry) { return !entry.member->finished(); });
  const Limits part = whole_.part(kTurn);
  const double left = allowance_.left().seconds;
  slice_ = Deadline(others ? std::min(left, part.seconds) : left, options_.cancel);
  return others && part.counts_work() ? std::min(plans, std::max(kMinTurn, part.work.count())) : plans;
}

void SlicedSearch::find_members() {
  Options options = within(options_, whole_.part(kFirst));
  const auto add = [&](std::unique_ptr<Member> member, Source source) {
    if (member) members_.push_back({std::move(member), source, source == Source::one_device});
  };
  for (const DeviceId d : graph_.devices.ids())
    add(one_device_alone(graph_, problem_, d, options, chooses_), Source::one_device);
  options.start.clear();
  options.reporter = nullptr;
  if (graph_.links.empty()) return;
  Problem once = problem_;
  once.max_computes = 1;
  options.threads = 1;
  options.time_limit = whole_.seconds;
  add(copies_alone(once, options), Source::copies);
}

double SlicedSearch::amount(const Limits& limits) const {
  return whole_.counts_work() ? static_cast<double>(limits.work.count()) : limits.seconds;
}

double SlicedSearch::used() const {
  return whole_.counts_work() ? static_cast<double>(work_.count()) : allowance_.elapsed();
}

double SlicedSearch::first() const {
  return kFirst * (whole_.counts_work() ? amount(whole_) : std::min(whole_.seconds, allowance_.left().seconds));
}

/// The part of the possible saving that this entry's own problem may bring.
double SlicedSearch::part_of_gap(const Entry& entry) const {
  const double whole = gap();
  return whole > 0 ? std::min(1.0, entry.member->gap() / whole) : 1;
}

double SlicedSearch::due_to(const Entry& entry) const {
  if (!entry.begun) return first();
  const double part = entry.is_alone ? part_of_gap(entry) : 1;
  const double remaining = amount(allowance_.left());
  if (leads(entry) && remaining <= part * kEnd * amount(whole_)) return remaining;
  double own = used();
  for (const Entry& other : members_) own -= other.spent;
  const double leading = entry.is_alone ? std::max(kBehind, part * kLeadingAlone) : kLeading;
  const double due = (leads(entry) ? leading : kBehind) * own - entry.spent;
  return due < kMinimum * amount(whole_) ? 0 : std::min(due, kFirst * amount(whole_));
}

/// Offers the best schedule, which may be one of its own problem, once it has found one itself.
void SlicedSearch::offer_best(Entry& entry) {
  if (!entry.begun || best_cost_ >= std::min(entry.cost, entry.reported)) return;
  entry.reported = best_cost_;
  entry.member->offer(best_);
  const std::vector<DeviceStep> steps = entry.member->steps();
  if (!steps.empty()) entry.cost = cost_of_schedule(graph_, problem_, steps).value_or(kNoWay);
}

void SlicedSearch::run_member(Entry& entry, double due) {
  Member& member = *entry.member;
  const double before = used();
  const Work work_before = member.work();
  const bool goes_on = std::exchange(entry.begun, true);
  if (goes_on && !entry.is_alone && best_cost_ < entry.cost) member.offer(best_);
  if (leads(entry)) rest(true);
  Limits limits = allowance_.left();
  if (limits.counts_work()) {
    limits.work = std::max(Work(1), std::min(limits.work, Work(static_cast<std::int64_t>(due))));
  } else {
    limits.seconds = std::min(limits.seconds, due);
  }
  member.run_session(limits);
  rest(false);
  // At least one, so that who has nothing to do keeps no search under a work limit alive.
  spend(std::max(Work(1), member.work() - work_before).count());
  entry.cost = take(member.steps(), entry.source);
  entry.spent += used() - before;
}

/// Takes the cheapest wish of the members that is better than all known schedules.
void SlicedSearch::look_for_more() {
  if (used() < kShareBeforeMore * amount(whole_)) return;
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
  const bool is_alone =
      std::any_of(members_.begin(), members_.end(), [&](const Entry& entry) { return entry.is_alone && leads(entry); });
  const bool has_none = least == kNoWay && used() >= kShareWithoutAny * amount(whole_);
  const bool is_in_doubt = doubts_ && is_alone && used() >= kShareAlone * amount(whole_);
  if (wish_.computes == 0 && (has_none || is_in_doubt)) wish_ = {problem_.max_computes + 1, {}};
}

}  // namespace remora::devices
