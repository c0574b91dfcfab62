// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "frontends/formats/document.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/text/text.hpp"

namespace remora::cli {
namespace {

/// 0 where there is nothing to divide by.
double part(std::int64_t amount, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(amount) / static_cast<double>(whole) : 0.0;
}

}  // namespace

ProgressFigures progress_figures(const Instance& instance, const Progress& progress) {
  const Duration baseline = instance.baseline_duration();
  ProgressFigures figures;
  figures.feasible = progress.peak <= instance.budget();
  figures.overhead = part((progress.duration - baseline).count(), baseline.count());
  figures.bound = part((progress.lower_bound - baseline).count(), baseline.count());
  figures.filled = part(progress.peak.count(), std::max<std::int64_t>(1, instance.budget().count()));
  figures.gap = part((progress.duration - progress.lower_bound).count(), progress.duration.count());
  return figures;
}

namespace {

constexpr double kSecondsBetweenBounds = 0.5;

const char* event_name(Event event) {
  switch (event) {
    case Event::start:
      return "start";
    case Event::phase:
      return "phase";
    case Event::schedule:
      return "schedule";
    case Event::bound:
      return "bound";
    case Event::round:
      return "round";
  }
  return "";
}

std::string wide_line(const Instance& instance, const Progress& progress) {
  const ProgressFigures figures = progress_figures(instance, progress);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %5d  %-12s  %12s  %11s  %9s  %9s\n", progress.seconds, progress.phase,
                progress_label(progress), text::percent_text(figures.overhead, 3).c_str(),
                text::percent_text(figures.filled, 1).c_str(), text::percent_text(figures.bound, 3).c_str(),
                figures.feasible ? text::percent_text(figures.gap, 3).c_str() : "-");
  return line.data();
}

std::string narrow_line(const Instance& instance, const Progress& progress) {
  const ProgressFigures figures = progress_figures(instance, progress);
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %11s  %9s  %9s\n", progress.seconds,
                text::percent_text(figures.overhead, 3).c_str(), text::percent_text(figures.bound, 3).c_str(),
                figures.feasible ? text::percent_text(figures.gap, 3).c_str() : "-");
  return line.data();
}

std::string line_of_devices(const Progress& progress) {
  const std::int64_t cost = progress.duration.count();
  const std::int64_t bound = progress.lower_bound.count();
  const bool has_schedule = progress.phase > 1;
  std::array<char, 160> line{};
  std::snprintf(
      line.data(), line.size(), "%9.2f  %-12s  %16s  %16s  %9s\n", progress.seconds, source_name(progress.source),
      has_schedule ? std::to_string(cost).c_str() : "-", std::to_string(bound).c_str(),
      has_schedule ? text::percent_text(part(std::max<std::int64_t>(0, cost - bound), cost), 3).c_str() : "-");
  return line.data();
}

}  // namespace

ProgressTable::ProgressTable(const Instance& instance, std::ostream& out, int width, double pause)
    : header_(width >= kWideTable ? "  seconds  phase  worker            overhead  peak/budget      bound        gap\n"
                                  : "  seconds     overhead      bound        gap\n"),
      line_([&instance, is_wide = width >= kWideTable](const Progress& progress) {
        return (is_wide ? wide_line : narrow_line)(instance, progress);
      }),
      out_(out),
      pause_(pause) {}

ProgressTable::ProgressTable(Objective objective, std::ostream& out, double pause)
    : header_(std::string("  seconds  worker        ") +
              (objective == Objective::energy ? "          energy" : "        duration") +
              "             bound        gap\n"),
      line_(line_of_devices),
      out_(out),
      pause_(pause) {}

ProgressTable::~ProgressTable() {
  if (is_waiting_) print(last_);
}

void ProgressTable::add(const Progress& progress) {
  const bool only_bound = header_printed_ && progress.phase == last_.phase && progress.duration == last_.duration &&
                          progress.peak == last_.peak;
  const bool closed = progress.duration <= progress.lower_bound;
  if (only_bound && !closed && progress.seconds < last_bound_line_ + kSecondsBetweenBounds) return;
  if (only_bound) last_bound_line_ = progress.seconds;
  last_ = progress;
  const bool may_wait = header_printed_ && progress.event != Event::phase && !closed;
  is_waiting_ = may_wait && progress.seconds < last_line_ + pause_;
  if (!is_waiting_) print(progress);
}

void ProgressTable::beat(const Progress& progress) {
  if (is_waiting_ && progress.seconds >= last_line_ + pause_) print(last_);
}

void ProgressTable::print(const Progress& progress) {
  if (!std::exchange(header_printed_, true)) out_ << header_;
  is_waiting_ = false;
  last_line_ = progress.seconds;
  out_ << line_(progress) << std::flush;
}

namespace {

nlohmann::ordered_json event_json(const Progress& progress, bool feasible) {
  return {{"event", event_name(progress.event)},
          {"seconds", progress.seconds},
          {"phase", progress.phase},
          {"source", source_name(progress.source)},
          {"feasible", feasible}};
}

nlohmann::ordered_json end_json(Status status, const SolverReport& solver) {
  return {{"event", "end"}, {"seconds", solver.seconds}, {"status", json::status_word(status)}};
}

}  // namespace

void write_event(std::ostream& out, const Instance& instance, const Progress& progress) {
  const ProgressFigures figures = progress_figures(instance, progress);
  nlohmann::ordered_json line = event_json(progress, figures.feasible);
  line["duration"] = progress.duration.count();
  line["peak_memory"] = progress.peak.count();
  line["lower_bound"] = progress.lower_bound.count();
  line["overhead"] = figures.overhead;
  line["work"] = progress.work;
  out << json::dump(line) << std::endl;
}

void write_event(std::ostream& out, Objective objective, const Progress& progress) {
  const bool feasible = progress.phase > 1;
  nlohmann::ordered_json line = event_json(progress, feasible);
  if (feasible) line[objective == Objective::energy ? "energy" : "duration"] = progress.duration.count();
  line["lower_bound"] = progress.lower_bound.count();
  line["work"] = progress.work;
  out << json::dump(line) << std::endl;
}

void write_end(std::ostream& out, const Schedule& schedule, const std::string& refusal) {
  nlohmann::ordered_json line = end_json(schedule.status, schedule.solver);
  line["stopped"] = json::stop_word(schedule.solver.stop);
  line["duration"] = schedule.duration.count();
  line["peak_memory"] = schedule.peak_memory.count();
  line["lower_bound"] = schedule.lower_bound.count();
  line["overhead"] = schedule.overhead();
  line["gap"] = schedule.gap();
  line["work"] = schedule.solver.work;
  if (!refusal.empty()) line["refusal"] = refusal;
  out << json::dump(line) << std::endl;
}

void write_end(std::ostream& out, const DeviceSchedule& schedule, const std::string& refusal) {
  nlohmann::ordered_json line = end_json(schedule.status, schedule.solver);
  if (schedule.has_schedule()) {
    line["duration"] = schedule.duration.count();
    line["energy"] = schedule.energy.count();
  }
  line["lower_bound"] = schedule.lower_bound;
  line["work"] = schedule.solver.work;
  if (!refusal.empty()) line["refusal"] = refusal;
  out << json::dump(line) << std::endl;
}

namespace {

constexpr double kSecondsBetween = 0.2;
constexpr std::size_t kWidth = 20;
/// Back to the line's begin and wipe it.
constexpr const char* kWipe = "\r\033[K";

}  // namespace

ProgressBar::~ProgressBar() {
  wipe();
}

void ProgressBar::wipe() {
  if (last_ >= 0) out_ << kWipe << std::flush;
  last_ = -1;
}

double ProgressBar::part_used(const Progress& progress) const {
  double part = 0;
  if (options_.time_limit < kNoTimeLimit) part = progress.seconds / std::max(options_.time_limit, 1e-9);
  if (options_.work_limit > 0) {
    part = std::max(part, static_cast<double>(progress.work) / static_cast<double>(options_.work_limit));
  }
  return std::clamp(part, 0.0, 1.0);
}

void ProgressBar::show(const Progress& progress) {
  if (last_ >= 0 && progress.seconds < last_ + kSecondsBetween) return;
  last_ = progress.seconds;
  const double part = part_used(progress);
  std::string bar(static_cast<std::size_t>(part * kWidth), '=');
  if (bar.size() < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const ProgressFigures figures = progress_figures(instance_, progress);
  std::array<char, 160> head{};
  std::snprintf(head.data(), head.size(), "[%s] %3.0f %%  %7.1f s  phase %d  ", bar.c_str(), 100 * part,
                progress.seconds, progress.phase);
  std::string line = head.data();
  if (figures.feasible) {
    line += "overhead " + text::percent_text(figures.overhead, 3) + "  gap " + text::percent_text(figures.gap, 3);
  } else {
    line += "peak " + text::percent_text(figures.filled, 1) + " of the budget";
  }
  // A full line would wrap, and what has wrapped can't be wiped.
  if (line.size() >= width_) line.resize(width_ > 0 ? width_ - 1 : 0);
  out_ << kWipe << line << std::flush;
}

}  // namespace remora::cli
