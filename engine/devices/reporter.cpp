// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/reporter.hpp"

#include <utility>

namespace remora::devices {
namespace {

constexpr double kSecondsBetweenRounds = 0.1;

}  // namespace

bool Reporter::listens() const {
  return callbacks_.incumbent || callbacks_.progress || callbacks_.heartbeat || callbacks_.enough;
}

void Reporter::begin(const DeviceSchedule& blank, std::int64_t bound) {
  blank_ = blank;
  const bool is_news = bound != std::exchange(bound_, bound);
  if (is_news) report(Event::bound, Source::relaxation);
}

void Reporter::end(Work work) {
  work_before_ += work;
  work_ = {};
}

Progress Reporter::progress(Event event) const {
  return {.seconds = clock_.elapsed(),
          .phase = best_ == kNoWay ? 1 : 2,
          .event = event,
          .source = source_,
          .duration = Duration(best_),
          .lower_bound = Duration(bound_),
          .work = (work_before_ + work_).count()};
}

void Reporter::report(Event event, Source source) {
  source_ = source;
  if (callbacks_.progress) callbacks_.progress(progress(event));
}

void Reporter::schedule(Source source, std::int64_t cost, Work work,
                        const std::function<std::vector<DeviceStep>()>& steps) {
  if (cost >= best_) return;
  const bool is_first = best_ == kNoWay;
  best_ = cost;
  work_ = work;
  if (callbacks_.incumbent) {
    DeviceSchedule found = blank_;
    found.lower_bound = bound_;
    found.solver.work = (work_before_ + work_).count();
    found.solver.seconds = clock_.elapsed();
    put_steps(graph_, steps(), found);
    callbacks_.incumbent(found);
  }
  report(is_first ? Event::phase : Event::schedule, source);
}

void Reporter::bound(Source source, std::int64_t least, Work work) {
  if (least <= bound_) return;
  bound_ = least;
  work_ = work;
  report(Event::bound, source);
}

bool Reporter::report_round(Work work) {
  const double now = clock_.elapsed();
  if (is_stopped_ || now < last_round_ + kSecondsBetweenRounds) return !is_stopped_;
  last_round_ = now;
  work_ = work;
  if (callbacks_.heartbeat) callbacks_.heartbeat(progress(Event::round));
  is_stopped_ = callbacks_.enough && callbacks_.enough(progress(Event::round));
  return !is_stopped_;
}

void put_steps(const DeviceGraph& graph, std::vector<DeviceStep> steps, DeviceSchedule& schedule) {
  schedule.steps = std::move(steps);
  const DeviceVerdict verdict = verify(graph, schedule);
  schedule.duration = verdict.duration;
  schedule.energy = verdict.energy;
  schedule.peak_memory = verdict.peak;
  schedule.status = schedule.cost() <= schedule.lower_bound ? Status::optimal : Status::feasible;
}

}  // namespace remora::devices
