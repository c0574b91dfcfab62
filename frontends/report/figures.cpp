// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/figures.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/report/plot.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"

namespace remora::report {
using json::number_text;

namespace {

constexpr std::size_t kMaxPoints = 700;
constexpr int kTicksAcross = 9;

/// A row of amounts above fixed memory as stairs, from its first step to the end of its last.
std::vector<std::pair<double, double>> stairs(const std::vector<Bytes>& row, Bytes fixed, const MemoryUnit& unit) {
  std::vector<std::pair<double, double>> points;
  const std::size_t bundle = (row.size() + kMaxPoints - 1) / kMaxPoints;
  for (std::size_t i = 0; i < row.size(); i += bundle) {
    const auto end = row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), i + bundle));
    const Bytes most = *std::max_element(row.begin() + static_cast<std::ptrdiff_t>(i), end);
    points.emplace_back(static_cast<double>(i), unit.amount(most - fixed));
  }
  if (!points.empty()) points.emplace_back(static_cast<double>(row.size()), points.back().second);
  return points;
}

/// A unit that times are written in, and what it holds of the graph's.
struct TimeUnit {
  std::string name{};
  double divisor = 1;

  [[nodiscard]] double amount(Duration duration) const { return static_cast<double>(duration.count()) / divisor; }
};

/// One for a stretch of time of which `most` is the end, so that all ticks have one unit.
TimeUnit time_unit_for(double most, const std::string& unit) {
  if (unit != "ns") return {unit, 1};
  constexpr std::array kNames{"ns", "us", "ms", "s"};
  std::size_t name = 0;
  double divisor = 1;
  for (; most >= 1000 * divisor && name + 1 < kNames.size(); ++name) divisor *= 1000;
  return {kNames[name], divisor};
}

/// "20 ms".
std::string time_words(double value, const TimeUnit& unit) {
  return tick_text(value / unit.divisor) + (unit.name.empty() ? "" : " ") + unit.name;
}

/// Round times, at the steps (and parts of steps) in which they pass.
std::vector<std::pair<double, std::string>> times_beside(const Graph& graph, const std::vector<Duration>& durations) {
  double total = 0;
  for (const Duration duration : durations) total += static_cast<double>(duration.count());
  std::vector<std::pair<double, std::string>> beside;
  if (total <= 0) return beside;
  const TimeUnit unit = time_unit_for(total, text::duration_unit_of(graph));
  double begin = 0;
  std::size_t step = 0;
  const AxisScale scale({.ticks = kTicksAcross}, {total});
  for (const double tick : scale.ticks()) {
    if (tick > total) break;
    const auto lasts = [&] { return static_cast<double>(durations[step].count()); };
    for (; step + 1 < durations.size() && begin + lasts() <= tick; ++step) begin += lasts();
    const double part = lasts() > 0 ? std::min(1.0, (tick - begin) / lasts()) : 0;
    beside.emplace_back(static_cast<double>(step) + part, time_words(tick, unit));
  }
  return beside;
}

/// The axis of amounts, which count above fixed memory.
Axis memory_axis(const std::string& what, Bytes fixed, const MemoryUnit& unit) {
  if (fixed == Bytes(0)) return {.label = what + " (" + unit.name + ")"};
  return {.label = what + " above fixed memory (" + unit.name + ")", .band = "fixed " + text::bytes_text(fixed)};
}

}  // namespace

std::vector<Bytes> memory_beside(const ScheduleProfile& profile) {
  const Replay& after = profile.after;
  if (after.ops.empty()) return profile.before.memory;
  std::vector<Bytes> beside(after.ops.size());
  std::size_t last = after.ops.size() - 1;
  while (after.again[last]) --last;
  OpId next = after.ops[last];
  for (std::size_t i = after.ops.size(); i-- > 0;) {
    if (!after.again[i]) next = after.ops[i];
    beside[i] = profile.before.memory[next];
  }
  return beside;
}

Figure memory_figure(const Graph& graph, const Schedule& schedule, const ScheduleProfile& profile) {
  const Bytes fixed = graph.fixed_memory;
  const Bytes budget = std::max(schedule.budget, fixed);
  const MemoryUnit unit = memory_unit_for(std::max({profile.before.peak, profile.after.peak, budget}) - fixed);
  const std::vector<Bytes> before = memory_beside(profile);
  const Replay& after = profile.after;
  const double end = static_cast<double>(std::max(before.size(), after.memory.size()));
  Figure figure;
  figure.title = graph.name + ": memory over steps";
  figure.x = {.label = after.ops.empty() ? "step of the input order" : "step of the schedule",
              .most = end,
              .ticks = kTicksAcross,
              .beside = times_beside(graph, after.ops.empty() ? profile.before.durations : after.durations),
              .beside_label = "time"};
  figure.y = memory_axis("memory", fixed, unit);
  figure.limit = unit.amount(budget - fixed);
  figure.series.push_back({"schedule", Look::schedule, Join::steps, stairs(after.memory, fixed, unit)});
  figure.series.push_back({"input order, no recompute", Look::input_order, Join::steps, stairs(before, fixed, unit)});
  if (end > 0) {
    figure.series.push_back({"budget", Look::budget, Join::line, {{0, *figure.limit}, {end, *figure.limit}}});
    // With addresses a budget's percentage refers to the arena, which is not drawn.
    const std::string part =
        schedule.arena ? ""
                       : " (" + text::percent_text(part_of_peak(schedule.budget, fixed, profile.before.peak), 1) + ")";
    figure.notes.push_back({"budget " + text::bytes_text(schedule.budget) + part, 0, *figure.limit});
  }
  if (after.peak_step >= 0) {
    figure.series.push_back(
        {"peak", Look::peak, Join::none, {{after.peak_step + 0.5, unit.amount(after.peak - fixed)}}});
  }
  return figure;
}

namespace {

/// Bars of one lane; of more steps than a drawing can show, those that all but touch are one.
class LaneBars {
 public:
  explicit LaneBars(double gap) : gap_(gap) {}

  void add(Lane& lane, const Bar& bar) const {
    if (!lane.bars.empty() && lane.bars.back().again == bar.again && bar.first - lane.bars.back().end <= gap_) {
      lane.bars.back().end = bar.end;
    } else {
      lane.bars.push_back(bar);
    }
  }

 private:
  double gap_;
};

Figure lanes_figure(const DeviceGraph& graph, const DeviceProfile& profile, const TimeUnit& unit) {
  const double end = unit.amount(profile.times.back());
  Figure figure{.title = graph.graph.name + ": runs, runs again (hatched) and copies over time"};
  figure.x = {.label = "time" + (unit.name.empty() ? "" : " (" + unit.name + ")"), .most = end, .ticks = kTicksAcross};
  for (const std::string& name : stream_names(graph, profile)) figure.lanes.push_back({name, {}});
  const LaneBars bars(profile.steps.size() > kMaxPoints ? end / kMaxPoints : -1);
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    bars.add(figure.lanes[profile.stream[i]],
             {unit.amount(profile.times[i]), unit.amount(profile.ends[i]), profile.again[i]});
  }
  return figure;
}

/// A row over steps as stairs over time, at its largest in each of so many stretches.
std::vector<std::pair<double, double>> timed_stairs(const std::vector<Bytes>& row, const std::vector<Duration>& times,
                                                    Bytes fixed, const MemoryUnit& unit, const TimeUnit& time) {
  std::vector<std::pair<double, double>> points = stairs(row, fixed, unit);
  for (auto& [x, y] : points) x = time.amount(times[static_cast<std::size_t>(x)]);
  return points;
}

Figure device_memory_figure(const DeviceGraph& graph, const DeviceSchedule& schedule, const DeviceProfile& profile,
                            DeviceId device, const TimeUnit& time) {
  const Bytes fixed = graph.devices[device].fixed_memory;
  const std::optional<Bytes> limit = schedule.budget[device];
  const Bytes budget = std::max(limit.value_or(fixed), fixed);
  const MemoryUnit unit = memory_unit_for(std::max(profile.peak[device], budget) - fixed);
  const double end = time.amount(profile.times.back());
  Figure figure;
  figure.title = graph.devices[device].name + ": memory over time";
  figure.x = {.label = "time" + (time.name.empty() ? "" : " (" + time.name + ")"), .most = end, .ticks = kTicksAcross};
  figure.y = memory_axis("memory", fixed, unit);
  figure.series.push_back({"schedule", Look::schedule, Join::steps,
                           timed_stairs(profile.memory[device], profile.times, fixed, unit, time)});
  if (limit) {
    figure.limit = unit.amount(budget - fixed);
    figure.series.push_back({"budget", Look::budget, Join::line, {{0, *figure.limit}, {end, *figure.limit}}});
    figure.notes.push_back({"budget " + text::bytes_text(*limit), 0, *figure.limit});
  }
  if (profile.peak_step[device] >= 0) {
    const auto step = static_cast<std::size_t>(profile.peak_step[device]);
    const double middle = (time.amount(profile.times[step]) + time.amount(profile.times[step + 1])) / 2;
    figure.series.push_back({"peak", Look::peak, Join::none, {{middle, unit.amount(profile.peak[device] - fixed)}}});
  }
  return figure;
}

}  // namespace

std::vector<Figure> device_figures(const DeviceGraph& graph, const DeviceSchedule& schedule,
                                   const DeviceProfile& profile) {
  const auto total = static_cast<double>(profile.times.back().count());
  const TimeUnit time = time_unit_for(total, text::duration_unit_of(graph.graph));
  std::vector<Figure> figures{lanes_figure(graph, profile, time)};
  for (const DeviceId d : graph.devices.ids()) {
    figures.push_back(device_memory_figure(graph, schedule, profile, d, time));
  }
  return figures;
}

namespace {

constexpr double kPercent = 100;
constexpr double kMargin = 0.05;

/// Turns a curve's amounts into places of its figure.
class CurvePlaces {
 public:
  explicit CurvePlaces(const Curve& curve) : curve_(curve) {
    Bytes least = curve.least_budget > Bytes(0) || curve.points.empty() ? curve.least_budget : curve.points[0].budget;
    Bytes most = least;
    for (const CurvePoint& point : curve.points) {
      least = std::min(least, point.budget);
      most = std::max(most, point.budget);
    }
    unit_ = memory_unit_for(std::max(most - curve.fixed_memory, Bytes(0)));
    // Budgets of interest begin far from 0; a margin keeps the marks off the border.
    if (most > least) {
      const double margin = kMargin * (across(most) - across(least));
      first_ = across(least) - margin;
      last_ = across(most) + margin;
    }
  }

  [[nodiscard]] Axis axis() const {
    Axis axis = memory_axis("budget", curve_.fixed_memory, unit_);
    axis.least = first_;
    axis.most = last_;
    axis.ticks = kTicksAcross;
    return axis;
  }
  [[nodiscard]] double across(Bytes budget) const { return unit_.amount(budget - curve_.fixed_memory); }
  [[nodiscard]] std::pair<double, double> known(const CurvePoint& point) const {
    return {across(point.budget), kPercent * curve_.overhead(point)};
  }
  [[nodiscard]] std::pair<double, double> bound(const CurvePoint& point) const {
    return {across(point.budget), kPercent * curve_.least_overhead(point)};
  }

 private:
  const Curve& curve_;
  MemoryUnit unit_{};
  std::optional<double> first_{};
  std::optional<double> last_{};
};

/// A path by Join::steps holds a value to its right; a bound holds to the left.
std::vector<std::pair<double, double>> bounds(const Curve& curve, const CurvePlaces& places) {
  std::vector<std::pair<double, double>> points;
  for (const CurvePoint& point : curve.points) {
    if (point.status == Status::infeasible) continue;
    const auto place = places.bound(point);
    if (!points.empty()) points.emplace_back(points.back().first, place.second);
    points.push_back(place);
  }
  return points;
}

}  // namespace

Figure curve_figure(const Curve& curve) {
  const CurvePlaces places(curve);
  std::vector<std::pair<double, double>> known;
  std::vector<std::pair<double, double>> proved;
  double highest = 0;
  for (const CurvePoint& point : curve.points) {
    if (!point.has_schedule()) continue;
    known.push_back(places.known(point));
    if (point.status == Status::optimal) proved.push_back(known.back());
    highest = std::max(highest, known.back().second);
  }
  Figure figure{.title = curve.graph + ": overhead against budget", .x = places.axis()};
  figure.y = {.label = "overhead (%)"};
  if (curve.least_budget > Bytes(0)) {
    const double x = places.across(curve.least_budget);
    figure.series.push_back({"", Look::least, Join::line, {{x, 0}, {x, highest}}});
    figure.notes.push_back({"none below (proved)", x, highest});
  }
  // Series of one name share one line of the legend: the stairs, and a mark on each.
  figure.series.push_back({"lower bound", Look::bound, Join::steps, bounds(curve, places)});
  figure.series.push_back({"shortest known", Look::known, Join::steps, known});
  figure.series.push_back({"shortest known", Look::known, Join::none, known});
  figure.series.push_back({"proved optimal", Look::proved, Join::none, proved});
  const auto note = [&](const char* words, const CurvePoint& point) {
    const auto [x, y] = places.known(point);
    figure.notes.push_back({words, x, y});
  };
  const auto smallest = curve.smallest_feasible();
  if (smallest && curve.knee == smallest) {
    note("knee, smallest feasible", curve.points[*smallest]);
  } else {
    if (smallest) note("smallest feasible", curve.points[*smallest]);
    if (curve.knee) note("knee", curve.points[*curve.knee]);
  }
  return figure;
}

void write_device_table(std::ostream& out, const DeviceGraph& graph, const DeviceProfile& profile) {
  out << "kind,name,type,device,to,times,again,bytes,duration,energy\n";
  for (const OpRuns& runs : profile.runs) {
    const Op& op = graph.graph[runs.op];
    out << "run," << text::csv_field(op.name) << ',' << text::csv_field(op.type) << ','
        << text::csv_field(graph.devices[runs.device].name) << ",," << runs.times << ',' << runs.again << ",,"
        << runs.duration.count() << ',' << runs.energy.count() << '\n';
  }
  for (const Transfer& transfer : profile.transfers) {
    out << "copy," << text::csv_field(graph.graph[transfer.tensor].name) << ",,"
        << text::csv_field(graph.devices[transfer.from].name) << ',' << text::csv_field(graph.devices[transfer.to].name)
        << ',' << transfer.times << ",," << transfer.bytes.count() << ',' << transfer.duration.count() << ','
        << transfer.energy.count() << '\n';
  }
}

void write_curve_csv(std::ostream& out, const Curve& curve) {
  out << "budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark,"
         "schedule\n";
  const std::optional<std::size_t> smallest = curve.smallest_feasible();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    out << point.budget.count() << ',' << number_text(curve.part_of_baseline(point.budget)) << ','
        << json::status_word(point.status) << ',';
    if (point.has_schedule()) {
      out << point.duration.count() << ',' << number_text(curve.overhead(point)) << ',' << point.peak_memory.count();
    } else {
      out << ",,";
    }
    out << ',' << point.lower_bound.count() << ',' << number_text(curve.least_overhead(point)) << ',';
    if (point.has_schedule()) out << point.found_under.count();
    const bool knee = curve.knee == i;
    out << ',' << number_text(point.seconds) << ',' << (knee ? "knee" : "") << (knee && smallest == i ? " " : "")
        << (smallest == i ? "smallest" : "") << ',' << text::csv_field(point.schedule_file) << "\n";
  }
}

namespace {

void write_overload(std::ostream& out, const Graph& graph, const Overload& overload) {
  out << ',' << overload.steps << ',';
  if (overload.steps > 0) out << text::csv_field(graph.ops[overload.op].name) << ',' << overload.above.count();
  if (overload.steps == 0) out << ',';
}

}  // namespace

void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile) {
  out << "op,type,recomputes,paid,saved,relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,"
         "kept_above\n";
  for (const RecomputedOp& row : profile.recomputed_ops) {
    const Op& op = graph.ops[row.op];
    out << text::csv_field(op.name) << ',' << text::csv_field(op.type) << ',' << row.times << ',' << row.paid.count()
        << ',' << row.saved.count();
    write_overload(out, graph, row.relieved);
    write_overload(out, graph, row.if_kept);
    out << '\n';
  }
}

}  // namespace remora::report
